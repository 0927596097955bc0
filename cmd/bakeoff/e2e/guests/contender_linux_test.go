package guests

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/judge/analysis"
	"bakeoff/provision/vm"
)

// A lab file compares a guest of a manifest with one that runs. The verdicts are for these
// instances, the run can be verified, and the guest runs on, also after a run that was killed,
// whose guests clean finds.
func TestContenders(t *testing.T) {
	h := home(t)
	compare(t, h, fmt.Sprintf(`{"brand": "docker", "alias": "box", "image": %q, "ram": 64}`, tiny(t, h)))
}

// The same holds for machines.
func TestMachines(t *testing.T) {
	h := home(t)
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("needs busybox for a root: apt-get install busybox-static")
	}
	folder := filepath.Join(h.Dir, "box")
	bin := filepath.Join(folder, "root/bin")
	text := "schema: bakeoff/service/v1\nbase: rootfs:root\nrun: [sleep, \"100000\"]\n"
	err = errors.Join(os.MkdirAll(bin, 0o755), exec.Command("cp", busybox, bin).Run(),
		exec.Command("chroot", filepath.Join(folder, "root"), "/bin/busybox", "--install", "-s", "/bin").Run(),
		os.WriteFile(filepath.Join(folder, "service.yaml"), []byte(text), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	compare(t, h, `{"brand": "microvm", "alias": "box", "image": "./box", "ram": 256}`)
}

// compare compares guests of a manifest with one that runs.
func compare(t *testing.T, h e2e.Home, text string) {
	t.Helper()
	manifest := filepath.Join(h.Dir, "box.json")
	lab := `schema: bakeoff/lab/v1
name: guests
contenders:
  - {name: new, driver: vm, manifest: box.json}
  - {name: running, driver: vm, guest: box}
baseline: new
cells: [{name: sha256, workload: crypto, primary: true, params: {time: 100ms}}]
design: {looks: [%d], alphas: [.05]}
`
	file := filepath.Join(h.Dir, "bakeoff.yaml")
	for name, body := range map[string]string{manifest: text, file: fmt.Sprintf(lab, 2)} {
		if err := os.WriteFile(name, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	do(t, h, "create", "-f", manifest)
	before := guest(t, h, "box")
	out, errs, code := h.Bakeoff(t, limit, "plan", file)
	if words := "measured as it is"; code != 0 || !strings.Contains(strings.Join(strings.Fields(out+errs), " "), words) {
		t.Errorf("plan: exit code %d, or no %q\n%s%s", code, words, out, errs)
	}
	r, code := h.Example(t, file)
	if code != 0 || len(r.Results.Comparisons) == 0 {
		t.Errorf("run: exit code %d, %+v", code, r.Results)
	}
	for _, c := range r.Results.Comparisons {
		if c.Scope != analysis.ScopeInstance {
			t.Errorf("the scope of %s is %q", c.Metric, c.Scope)
		}
	}
	h.Holds(t, r.Folder)
	killRun(t, h, file, fmt.Sprintf(lab, 200))
	if g := guest(t, h, "box"); g.State != vm.Running || g.Supervisor != before.Supervisor {
		t.Errorf("the guest is %s with supervisor %d, and had %d", g.State, g.Supervisor, before.Supervisor)
	}
	if all := guests(t, h); len(all) != 1 {
		t.Errorf("guests of the killed run are listed: %+v", all)
	}
	do(t, h, "delete", "box")
	leavesNothing(t, h)
}

// killRun kills a run when its first trial was measured, and cleans.
func killRun(t *testing.T, h e2e.Home, file, lab string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(lab), 0o600); err != nil {
		t.Fatal(err)
	}
	killed := filepath.Join(h.Dir, "killed")
	c := h.Command("run", "--out", filepath.Join(killed, "runs"), file)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	e2e.WaitForTrials(t, killed, 1)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	out, errs, code := h.Bakeoff(t, limit, "clean")
	if code != 0 || !strings.Contains(out, "new") || !strings.Contains(out, "control group") {
		t.Errorf("clean: exit code %d\n%s%s", code, out, errs)
	}
}
