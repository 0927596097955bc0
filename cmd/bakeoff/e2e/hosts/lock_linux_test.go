package hosts

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bakeoff/base/lock"
	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/lab/diagnosis"
	"bakeoff/reach/conn/sshtest"
)

// lockLab measures on one or two machines for LOOKS blocks.
const lockLab = `schema: bakeoff/lab/v1
name: locked
hosts: {box: {ssh: box, dir: DIR}}
contenders:
  - {name: one, driver: host, host: ONE}
  - {name: two, driver: host, host: TWO}
  - {name: three, driver: host, host: ONE}
baseline: one
cells: [{name: sha, workload: crypto, params: {algorithm: sha256, block: 16KiB, time: 20ms}, primary: true}]
design: {looks: [LOOKS], alphas: [0.05], budget: 5m}
`

// lockHome is a controller of its own, with a lab that has three contenders. Its state
// folder on the box is its own, too.
func lockHome(t *testing.T, s *sshtest.Server, looks int, one, two string) (h e2e.Home, lab string) {
	t.Helper()
	h = e2e.New(t)
	h.Env = append(h.Env, "BAKEOFF_SSH_CONFIG="+s.Config)
	lab = filepath.Join(h.Dir, "lab.yaml")
	write(t, lab, strings.NewReplacer("DIR", filepath.Join(h.Dir, "box"), "ONE", one, "TWO", two,
		"LOOKS", fmt.Sprint(looks)).Replace(lockLab))
	return h, lab
}

// refused asserts that a run is refused because of the one in folder, and leaves nothing.
func refused(t *testing.T, h e2e.Home, lab, folder string) {
	t.Helper()
	out, errs, code := h.Bakeoff(t, 3*time.Minute, "run", lab)
	if code != 1 || !strings.Contains(errs, "(run "+filepath.Base(folder)+", started by ") {
		t.Errorf("a run of another controller at the same time: exit code %d\n%s%s", code, out, errs)
	}
	if left, _ := filepath.Glob(filepath.Join(h.Dir, "runs/*")); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}

// begin starts a run. Once it measures, begin returns its process and folder. The test
// must call stop, which asserts that nothing is left.
func begin(t *testing.T, h e2e.Home, lab string) (c *exec.Cmd, folder string, stop func()) {
	t.Helper()
	c = h.Command("run", lab, "--seed", "7")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, filepath.Dir(e2e.WaitForTrials(t, h.Dir, 1)), func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait() // its code does not matter, and the test may have killed it
		h.LeavesNothing(t)
	}
}

// One run at a time measures on a machine, whoever starts it and wherever its folder is:
// over SSH or there. A controller that is killed leaves no lock.
func TestOneRunPerMachine(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root: the driver host makes control groups")
	}
	s := sshtest.Start(t)
	a, labA := lockHome(t, s, 500, "box", "box")
	b, labB := lockHome(t, s, 2, "local", "box") // one of its machines is locked
	c, labC := lockHome(t, s, 2, "local", "local")
	c.Env = append(c.Env, "BAKEOFF_LOCK="+s.HostLock) // a local run on the box

	first, folder, stop := begin(t, a, labA)
	defer stop()
	by := lock.HeldBy(s.HostLock)
	if by == nil || by.Owner.Run != filepath.Base(folder) || by.Owner.PID != first.Process.Pid {
		t.Fatalf("the machine is held by %+v, want %s of process %d", by, folder, first.Process.Pid)
	}
	refused(t, b, labB, folder)
	refused(t, c, labC, folder)
	tellsWhoMeasures(t, c, labC, *by)
	out, errs, code := a.Bakeoff(t, 3*time.Minute, "clean", "--dry-run")
	for end := time.Now().Add(2 * time.Minute); code == 0 && !strings.Contains(out, "in use: ") &&
		time.Now().Before(end); { // between two blocks nothing is in use
		out, errs, code = a.Bakeoff(t, 3*time.Minute, "clean", "--dry-run")
	}
	if code != 0 || len(e2e.Leftovers(out)) > 0 || !strings.Contains(out, "in use: ") {
		t.Errorf("clean --dry-run while a run measures over SSH: exit code %d\n%s%s", code, out, errs)
	}

	killWithLeases(t, first, filepath.Join(a.Dir, "box/state/lease"))
	for end := time.Now().Add(2 * time.Minute); lock.Held(s.HostLock) && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond) // until the agent notices
	}
	if out, errs, code := a.Bakeoff(t, 3*time.Minute, "clean"); code != 0 || !strings.Contains(out, "on host box") {
		t.Errorf("clean after the controller was killed: exit code %d\n%s%s", code, out, errs)
	}

	local, err := lock.TryFor(s.HostLock, lock.Me("a-local-run"))
	if err != nil {
		t.Fatal(err)
	}
	defer local.Release()
	refused(t, b, labB, "a-local-run")
}

// killWithLeases kills a controller while there are leases in dir, which clean then finds.
// Between two blocks there are none. A stopped controller gives none back, and the agent
// completes at most what was requested before.
func killWithLeases(t *testing.T, c *exec.Cmd, dir string) {
	t.Helper()
	count := func() int {
		leases, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(leases)
	}
	signal := func(s os.Signal) {
		if err := c.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		signal(syscall.SIGSTOP)
		before := count()
		time.Sleep(100 * time.Millisecond)
		if before > 1 && count() == before {
			break
		}
		signal(syscall.SIGCONT)
		if time.Now().After(end) {
			t.Fatalf("%s never had two leases for 100 ms", dir)
		}
	}
	signal(syscall.SIGKILL)
	_ = c.Wait() // it was killed
}

// tellsWhoMeasures asserts that doctor names the run that measures on a machine, there
// and over SSH.
func tellsWhoMeasures(t *testing.T, h e2e.Home, lab string, by lock.Holder) {
	t.Helper()
	out, errs, code := h.Bakeoff(t, 3*time.Minute, "doctor", "--hosts", lab, "--json")
	var d diagnosis.Diagnosis
	if err := json.Unmarshal([]byte(out), &d); err != nil || code != 0 || len(d.Hosts) != 1 {
		t.Fatalf("doctor: exit code %d, %v\n%s%s", code, err, out, errs)
	}
	if d.Holder == nil || *d.Holder != by || d.Measuring == nil || *d.Measuring != by.PID {
		t.Errorf("doctor: held by %+v, want %+v", d.Holder, by)
	}
	if !slices.ContainsFunc(d.Hosts[0].Machine, func(f diagnosis.Finding) bool {
		return f.Name == "in use" && f.Text == by.String() && f.Fix == by.Owner.Remedy()
	}) {
		t.Errorf("doctor over SSH: %+v, without %q", d.Hosts[0].Machine, by)
	}
}

// A run may also reach its own machine over SSH. The lock is the controller's; the agent
// there shares it.
func TestRunOverSSHToOwnMachine(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root: the driver host makes control groups")
	}
	s := sshtest.Start(t)
	h, lab := lockHome(t, s, 2, "local", "box")
	h.Env = append(h.Env, "BAKEOFF_LOCK="+s.HostLock)
	out, errs, code := h.Bakeoff(t, 3*time.Minute, "run", lab, "--json")
	var r e2e.Ran
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || len(r.Missing) > 0 || r.Blocks != 2 {
		t.Errorf("exit code %d, %v, %d blocks, missing %+v\n%s%s", code, err, r.Blocks, r.Missing, out, errs)
	}
	if by := lock.HeldBy(s.HostLock); by != nil {
		t.Errorf("afterwards the lock is held by %+v", by)
	}
	h.LeavesNothing(t)
}
