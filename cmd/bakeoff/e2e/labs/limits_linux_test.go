package labs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/lab/store"
)

// limitsLab has a quota of CPU time and a limit of writes on a container and a
// machine, and a meter that reads 10 W.
const limitsLab = `schema: bakeoff/lab/v1
name: limits
hosts: {local: {meter: [awk, "{print $1 * 10}", /proc/uptime]}}
contenders:
  - {name: bare, driver: host, volumes: {/data: {backing: dir}}}
  - {name: oci, driver: oci, image: "debian:bookworm", quota: 0.25, io: {write: 8MB/s},
     volumes: {/data: {backing: dir}}}
  - {name: vm, driver: qemu, machine: microvm, disk-cache: none, image: "debian:bookworm", quota: 0.25,
     io: {write: 8MB/s},
     volumes: {/data: {backing: "file:ext4", size: 64MiB}}}
baseline: bare
defaults: {cpus: 1, memory: 256MiB}
cells:
  - {name: sha, workload: crypto, params: {algorithm: sha256, block: 16KiB, time: 500ms}, primary: true}
  - {name: write, workload: files, params: {op: seq-write, block: 1MiB, size: 8MiB, fsync: each, time: 500ms}}
design: {looks: [1], alphas: [0.05], mirror: false, budget: 5m}
`

// Limits hold in a whole run, of a container and of a machine, and a meter of
// the person's own gives joules; the page says which.
func TestLimitsAndMeter(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a machine under emulation")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root: the drivers make control groups")
	}
	for program, pkg := range map[string]string{
		"mmdebstrap": "mmdebstrap", "crun": "crun", "qemu-system-x86_64": "qemu-system-x86",
	} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: apt-get install %s", program, pkg)
		}
	}
	h := e2e.New(t)
	lab := filepath.Join(h.Dir, "limits.yaml")
	if err := os.WriteFile(lab, []byte(limitsLab), 0o644); err != nil {
		t.Fatal(err)
	}
	out, errs, code := h.Bakeoff(t, e2e.RunLimit, "run", lab, "--seed", "7", "--json")
	var r e2e.Ran
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, errs)
	}
	got := map[string]float64{}
	for _, s := range r.Summaries {
		if s.Median != nil {
			got[s.Contender+" "+s.Cell+" "+s.Metric] = *s.Median
		}
	}
	for _, c := range []string{"bare", "oci", "vm"} {
		for _, cell := range []string{"sha", "write"} {
			if !(got[c+" "+cell+" joules-per-op"] > 0) {
				t.Errorf("%s at %s has no energy: %v", c, cell, r.Unavailable)
			}
		}
	}
	held := holds(t, r)
	for _, c := range []string{"oci", "vm"} {
		// The first bytes of a limit come at once, and noise can only slow.
		if v := got[c+" write bandwidth"]; held["io"] && !(v > 0 && v < 1.5*8e6) {
			t.Errorf("%s writes %g B/s, and 8 MB/s are its limit", c, v)
		}
	}
	if held["quota"] {
		spends(t, filepath.Join(h.Dir, r.Folder))
	}
	page, err := os.ReadFile(filepath.Join(h.Dir, r.Report))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"0.25 CPUs": held["quota"], "8.00 MB/s": held["io"], "joules-per-op": true} {
		if strings.Contains(string(page), text) != want {
			t.Errorf("the page has %q: %v", text, !want)
		}
	}
	h.LeavesNothing(t)
}

// holds says which limits are enforced: what is not stands among the
// confounders, and what is does not.
func holds(t *testing.T, r e2e.Ran) map[string]bool {
	t.Helper()
	held := map[string]bool{"quota": true, "io": true}
	for _, c := range r.Comparisons {
		for _, f := range c.Confounders {
			name, ok := strings.CutPrefix(f.Name, "enforced.")
			if _, ours := held[name]; !ok || !ours {
				continue
			}
			held[name] = false
			if !strings.HasPrefix(f.Contender, "no: ") {
				t.Errorf("%s against %s: the confounder %s is %q", c.Contender, c.Baseline, f.Name, f.Contender)
			}
			t.Logf("%s: %s", f.Name, f.Contender)
		}
	}
	return held
}

// spends asserts that environments with a quarter of a CPU spend no more than
// that, by the host's account of them.
func spends(t *testing.T, folder string) {
	t.Helper()
	seen := 0
	for _, l := range e2e.Journal(t, filepath.Join(folder, store.JournalFile)) {
		if l.Type != store.LineTrial || l.Cell != "sha" || l.Contender != "oci" && l.Contender != "vm" {
			continue
		}
		d := l.After.Since(*l.Before)
		if d.Scope == nil || d.Scope.CPUSeconds == nil {
			t.Fatalf("%s: the host does not tell what it spent", l.Contender)
		}
		// A trial may begin with a period's share and end with another's.
		if share := *d.Scope.CPUSeconds / (float64(d.AtNS) / 1e9); share > 0.4 {
			t.Errorf("%s spent %.2f CPUs, and 0.25 are its quota", l.Contender, share)
		}
		seen++
	}
	if seen != 2 {
		t.Errorf("%d trials failed because of their quota", seen)
	}
}
