package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
)

// reader is a program that needs nothing of its environment. It prints what a placed
// folder has, through a link in it.
const reader = `package main

import (
	"fmt"
	"os"
)

func main() {
	text, err := os.ReadFile("/srv/bakeoff-files/again/word")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Printf("read %s\n", text)
}
`

// A static program and a folder run at their paths in every kind of environment. The
// host has neither, before and after.
func TestFilesInEveryEnvironment(t *testing.T) {
	e2e.NeedsRoot(t)
	h := e2e.New(t)
	e2e.Build(t, reader, filepath.Join(h.Dir, "reader"))
	if err := os.MkdirAll(filepath.Join(h.Dir, "data", "words"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.WriteFile(filepath.Join(h.Dir, "data", "words", "word"), []byte("7"), 0o644),
		os.Symlink("words", filepath.Join(h.Dir, "data", "again"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	lab := `schema: bakeoff/lab/v1
name: files
files: [{from: reader, to: /opt/bakeoff-reader}, {from: data, to: /srv/bakeoff-files}]
defaults: {memory: 256MiB, image: "debian:bookworm"}
contenders:
  - {name: host, driver: host}
  - {name: chroot, driver: chroot}
  - {name: bwrap, driver: bwrap}
  - {name: crun, driver: oci}
  - {name: runc, driver: oci, runtime: runc}
  - {name: nspawn, driver: nspawn}
  - {name: lxc, driver: lxc}
  - {name: docker, driver: docker, engine: private}
  - {name: podman, driver: podman}
  - {name: microvm, driver: qemu}
baseline: host
cells: [{name: read, workload: command, params: {argv: [/opt/bakeoff-reader], cost: "regexp:read ([0-9]+)"},
         primary: [cost]}]
design: {blocks: 1, instances: run, mirror: false, budget: 2m}
`
	file := filepath.Join(h.Dir, "bakeoff.yaml")
	if err := os.WriteFile(file, []byte(lab), 0o600); err != nil {
		t.Fatal(err)
	}
	r, code := h.Example(t, file, "--seed", "5")
	for _, m := range r.Missing {
		t.Errorf("%s: %s", m.Contender, m.Reason)
	}
	seen := map[string]float64{}
	for _, s := range r.Summaries {
		if s.Metric == "cost" && s.Median != nil {
			seen[s.Contender] = *s.Median
		}
	}
	for _, name := range []string{"host", "chroot", "bwrap", "crun", "runc", "nspawn", "lxc",
		"docker", "podman", "microvm"} {
		if seen[name] != 7 {
			t.Errorf("%s printed %v, want 7", name, seen[name])
		}
	}
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, path := range []string{"/opt/bakeoff-reader", "/srv/bakeoff-files"} {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s is on the host: %v", path, err)
		}
	}
	// The run holds without its files, and a program that changed makes another plan.
	if err := os.RemoveAll(filepath.Join(h.Dir, "data")); err != nil {
		t.Fatal(err)
	}
	h.Holds(t, filepath.Join(h.Dir, r.Folder))
	_, errs, code := h.Bakeoff(t, 3*time.Minute, "plan", file)
	if code != 2 || !strings.Contains(errs, "bakeoff.yaml:3:50: there is no file or folder data") {
		t.Errorf("plan without a file: exit code %d, %s", code, errs)
	}
	h.LeavesNothing(t)
}

// The example compares two builds of one program, and the content is the factor.
func TestExampleVersions(t *testing.T) {
	e2e.NeedsRoot(t)
	h := e2e.New(t)
	for _, name := range []string{"bakeoff.yaml", "build.sh", "go.mod", "main.go", "v1.go", "v2.go"} {
		text, err := os.ReadFile("../../../../examples/versions/" + name)
		if err == nil {
			err = os.WriteFile(filepath.Join(h.Dir, name), text, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(filepath.Join(h.Dir, "build.sh"))
	c.Env = append(os.Environ(), "GOFLAGS=")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build.sh: %v\n%s", err, out)
	}
	r, code := h.Example(t, h.Dir, "--profile", "ci", "--seed", "3")
	if code != 0 || r.Blocks == 0 || len(r.Missing) > 0 {
		t.Fatalf("exit code %d, %d blocks, missing %v", code, r.Blocks, r.Missing)
	}
	for _, c := range r.Comparisons {
		if len(c.Factors) != 1 || c.Factors[0].Name != "files./opt/words" ||
			!strings.HasPrefix(c.Factors[0].Contender, "build/v2 sha256:") {
			t.Errorf("%s: factors %v", c.Contender, c.Factors)
		}
		if len(c.Confounders) > 0 {
			t.Errorf("%s: confounders %v", c.Contender, c.Confounders)
		}
	}
	h.Holds(t, filepath.Join(h.Dir, r.Folder))
	h.LeavesNothing(t)
}
