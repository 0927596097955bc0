package hosts

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
  - {name: web, workload: http, params: {time: 100ms}}
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
		if findProgram(program) == "" {
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
	for _, name := range []string{"bwrap", "oci", "nspawn", "lxc", "docker", "qemu"} {
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

// What a driver or a workload needs is looked for on the machine of the
// contender: here crun and nginx, which this machine may well have and the
// other one has not.
func TestMissingThere(t *testing.T) {
	s := sshtest.Start(t)
	h := e2e.New(t)
	h.Env = append(h.Env, "BAKEOFF_SSH_CONFIG="+s.Config)
	bin, dir := t.TempDir(), t.TempDir()
	const programs = "sh uname id cat wc mkdir chmod mv rm mount umount printenv unshare ip kill"
	for p := range strings.FieldsSeq(programs) {
		path, err := exec.LookPath(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, p)); err != nil {
			t.Fatal(err)
		}
	}
	s.Environ("PATH=" + bin)
	lab := filepath.Join(h.Dir, "there.yaml")
	text := `schema: bakeoff/lab/v1
name: there
hosts: {box: {ssh: box, dir: ` + dir + `}}
contenders:
  - {name: bare, driver: host, host: box}
  - {name: crun, driver: oci, image: "debian:bookworm", host: box}
  - {name: many, driver: host, host: box, cpus: 1000}
baseline: bare
cells:
  - {name: sha, workload: crypto, params: {algorithm: sha256, time: 20ms}, primary: true}
  - {name: page, workload: wrk}
`
	if err := os.WriteFile(lab, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, errs, code := h.Bakeoff(t, 3*time.Minute, "plan", lab, "--json")
	var p struct {
		Available []struct {
			Contender string
			Answer    struct {
				OK                 bool
				Reason, Fix        string
				Programs, Packages []string
			}
		}
		Missing   []struct{ Name, Text, Fix string }
		InstallOn map[string]string `json:"install_on"`
	}
	if err := json.Unmarshal([]byte(out), &p); err != nil || code != 1 || len(p.Available) != 3 {
		t.Fatalf("plan: exit code %d, %v\n%s%s", code, err, out, errs)
	}
	crun := p.Available[1].Answer
	if os.Getuid() == 0 && (crun.OK || crun.Reason != "not installed: crun" ||
		strings.Join(crun.Programs, " ") != "crun") {
		t.Errorf("crun there: %+v", crun)
	}
	many := p.Available[2].Answer
	if os.Getuid() == 0 && (many.OK || !strings.Contains(many.Reason, "asks for 1000 CPUs")) {
		t.Errorf("a thousand CPUs there: %+v", many)
	}
	found := ""
	for _, m := range p.Missing {
		if strings.HasSuffix(m.Text, ", on box") {
			found += " " + m.Name
		}
	}
	if !strings.Contains(found, " wrk") {
		t.Errorf("missing there:%s\n%s", found, out)
	}
	if line := p.InstallOn["box"]; !strings.Contains(line, "wrk") || os.Getuid() == 0 && !strings.Contains(line, "crun") {
		t.Errorf("to install on the box: %q", line)
	}

	out, errs, code = h.Bakeoff(t, 3*time.Minute, "doctor", "--hosts", lab)
	if code != 0 || !strings.Contains(out, "Host box (box, ") || !strings.Contains(out, "to install there: ") {
		t.Errorf("doctor: exit code %d\n%s%s", code, out, errs)
	}
	s.Stop()
	out, errs, code = h.Bakeoff(t, 3*time.Minute, "doctor", "--hosts", lab, "--json")
	if code != 0 || !strings.Contains(out, `"name":"connection","state":"missing"`) {
		t.Errorf("doctor of a machine that is not reached: exit code %d\n%s%s", code, out, errs)
	}
}
