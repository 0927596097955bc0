package labs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/reach/conn/sshtest"
)

// farDrivers are technologies on a machine over SSH: a process of the host's,
// runtimes of containers, an engine, a machine. The volume of one lies in a
// file of that machine.
const farDrivers = `schema: bakeoff/lab/v1
name: far-drivers
hosts: {box: {ssh: box, dir: DIR}}
contenders:
  - {name: bare, driver: host, host: box, volumes: {/data: {backing: dir}}}
  - {name: chroot, driver: chroot, image: "debian:bookworm", host: box, volumes: {/data: {backing: dir}}}
  - {name: bwrap, driver: bwrap, image: "debian:bookworm", host: box, volumes: {/data: {backing: tmpfs, size: 64MiB}}}
  - {name: oci, driver: oci, image: "debian:bookworm", host: box, volumes: {/data: {backing: "file:ext4", size: 64MiB}}}
  - {name: nspawn, driver: nspawn, image: "debian:bookworm", host: box, volumes: {/data: {backing: dir}}}
  - {name: lxc, driver: lxc, image: "debian:bookworm", host: box, volumes: {/data: {backing: dir}}}
  - {name: docker, driver: docker, engine: private, image: "debian:bookworm", host: box,
     volumes: {/data: {backing: dir}}}
  - {name: qemu, driver: qemu, image: "debian:bookworm", host: box,
     volumes: {/data: {backing: "file:ext4", size: 64MiB}}}
baseline: bare
defaults: {cpus: 1, memory: 256MiB}
cells:
  - {name: sha, workload: crypto, params: {algorithm: sha256, block: 16KiB, time: 20ms}, primary: true}
  - {name: write, workload: files, params: {op: seq-write, size: 1MiB, time: 20ms}}
  - {name: web, workload: http, params: {time: 500ms}}
design: {looks: [1], alphas: [0.05], mirror: false, budget: 5m}
`

// Technologies work on a machine over SSH as they do here: their images are
// sent, their environments made, reached, measured on their network and
// removed there.
func TestDriversOverSSH(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: the drivers make control groups")
	}
	for program, pkg := range map[string]string{"mmdebstrap": "mmdebstrap", "nginx": "nginx", "ip": "iproute2"} {
		if e2e.FindProgram(program) == "" {
			t.Skipf("needs %s: apt-get install %s", program, pkg)
		}
	}
	s := sshtest.Start(t)
	h := e2e.New(t)
	h.Env = append(h.Env, "BAKEOFF_SSH_CONFIG="+s.Config)
	// Sockets lie below, and their paths may not be long.
	dir, err := os.MkdirTemp("", "bo")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("rm", "-rf", "--one-file-system", dir).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	lab := filepath.Join(h.Dir, "far.yaml")
	if err := os.WriteFile(lab, []byte(strings.ReplaceAll(farDrivers, "DIR", dir)), 0o644); err != nil {
		t.Fatal(err)
	}
	out, errs, code := h.Bakeoff(t, e2e.RunLimit, "run", lab, "--seed", "7", "--json")
	var r e2e.Ran
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 && code != 4 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, errs)
	}
	for _, name := range []string{"chroot", "bwrap", "oci", "nspawn", "lxc", "docker", "qemu"} {
		t.Run(name, func(t *testing.T) { measured(t, r, name) })
	}
	h.LeavesNothing(t)
	for _, left := range []string{"state/env", "state/lease"} {
		if entries, err := os.ReadDir(filepath.Join(dir, left)); err != nil || len(entries) > 0 {
			t.Errorf("%s on the box holds %v, %v", left, entries, err)
		}
	}
}

// measured asserts that a contender has values of every cell. One that a
// package would bring is skipped.
func measured(t *testing.T, r e2e.Ran, contender string) {
	for _, m := range r.Missing {
		if m.Contender != contender {
			continue
		}
		if _, line, ok := strings.Cut(m.Reason, "apt-get install "); ok {
			t.Skipf("needs %s: apt-get install %s", contender, line)
		}
		t.Errorf("%s at %s: %s", m.Contender, m.Cell, m.Reason)
	}
	cells := map[string]bool{}
	for _, s := range r.Summaries {
		if s.Contender != contender {
			continue
		}
		if s.N == 0 || s.Failures > 0 {
			t.Errorf("%s at %s: %d values, %d failures", s.Metric, s.Cell, s.N, s.Failures)
		}
		cells[s.Cell] = true
	}
	if len(cells) != 3 {
		t.Errorf("it has values of the cells %v", cells)
	}
}

// Files of the controller are on another host too: placed on its own root, and in a
// derived image that is sent there once, and used there.
func TestFilesOverSSH(t *testing.T) {
	e2e.NeedsRoot(t)
	s := sshtest.Start(t)
	h := e2e.New(t)
	h.Env = append(h.Env, "BAKEOFF_SSH_CONFIG="+s.Config)
	dir := filepath.Join(t.TempDir(), "box")
	lab := `schema: bakeoff/lab/v1
name: far
hosts: {box: {ssh: box, dir: ` + dir + `}}
files: [{from: seven, to: /opt/bakeoff-seven, mode: 0755}]
contenders:
  - {name: bare, driver: host, host: box}
  - {name: chroot, driver: chroot, image: "debian:bookworm", host: box}
baseline: bare
cells: [{name: seven, workload: command, params: {argv: [/opt/bakeoff-seven], cost: last-line}, primary: [cost]}]
design: {blocks: 1, mirror: false, budget: 2m}
`
	file := filepath.Join(h.Dir, "bakeoff.yaml")
	for name, text := range map[string]string{file: lab, filepath.Join(h.Dir, "seven"): "#!/bin/sh\necho 7\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, errs, code := h.Bakeoff(t, e2e.RunLimit, "run", file, "--seed", "5", "--json")
	var r e2e.Ran
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || len(r.Missing) > 0 {
		t.Errorf("exit code %d, %v, missing %+v\n%s", code, err, r.Missing, errs)
	}
	roots, err := filepath.Glob(filepath.Join(dir, "cache/image/shipped-*/root/*/bin"))
	if err != nil || len(roots) != 1 {
		t.Errorf("on the box there are the roots %q, %v", roots, err)
	}
	if n := strings.Count(errs, " to box"); n != 3 { // the agent, the file, the root
		t.Errorf("%d things were sent, want 3\n%s", n, errs)
	}
	for _, name := range []string{"bare", "chroot"} {
		seen := false
		for _, s := range r.Summaries {
			seen = seen || s.Contender == name && s.Metric == "cost" && s.Median != nil && *s.Median == 7
		}
		if !seen {
			t.Errorf("%s did not print 7", name)
		}
	}
	if _, err := os.Lstat("/opt/bakeoff-seven"); !os.IsNotExist(err) {
		t.Errorf("the file is on the host: %v", err)
	}
	h.LeavesNothing(t)
}
