package life

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bakeoff/base/lock"
	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/provision/netns"
)

// views are other views of the same machine: each has a /run of its own, so the file of
// the machine's lock is another one. In an overlay, that of the state folder is, too.
var views = []struct {
	name    string
	unshare []string
	overlay bool
	blind   bool // it cannot find out whether a process outside is alive
	hides   bool // it cannot see the names of network namespaces outside
}{
	{name: "mount namespace", unshare: []string{"-m"}},
	{name: "overlay", unshare: []string{"-m"}, overlay: true},
	{name: "PID namespace", unshare: []string{"-m", "-p", "-f", "--mount-proc"}, hides: true},
	{name: "PID namespace and overlay", unshare: []string{"-m", "-p", "-f", "--mount-proc"}, overlay: true, blind: true},
	{name: "overlay with the proc of another namespace", unshare: []string{"-m", "-p", "-f"}, overlay: true, blind: true},
}

// in returns a command that executes bakeoff in a view of the state folder.
func in(h e2e.Home, unshare []string, overlay bool, args ...string) *exec.Cmd {
	c := h.Command(args...)
	script := `mount -t tmpfs none /run || exit 99
if [ "$1" = overlay ]; then
	mkdir /run/up /run/work && mount -t overlay -o "lowerdir=$2,upperdir=/run/up,workdir=/run/work" none "$2" || exit 99
fi
shift 2
exec "$@"`
	kind := "shared"
	if overlay {
		kind = "overlay"
	}
	argv := append(append([]string{"unshare"}, unshare...), "sh", "-c", script, "sh", kind, h.Variable("BAKEOFF_STATE"))
	argv = append(argv, c.Args...)
	out := exec.Command(argv[0], argv[1:]...)
	out.Dir, out.Env = c.Dir, append(c.Env, "BAKEOFF_LOCK=/run/bakeoff.lock")
	return out
}

// answer executes it.
func answer(t *testing.T, c *exec.Cmd) (text string, code int) {
	t.Helper()
	out, err := c.CombinedOutput()
	if code = c.ProcessState.ExitCode(); code == 99 {
		t.Skipf("needs mount namespaces and overlays: %s", out)
	}
	if code < 0 {
		t.Fatalf("%v: %v: %s", c.Args, err, out)
	}
	return string(out), code
}

// Whoever shares the leases but not the lock removes nothing of a live run, and what a
// killed one left, if it can tell the two apart.
func TestLeasesOfALiveRunInAnotherView(t *testing.T) {
	e2e.NeedsRoot(t)
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	for _, v := range views {
		t.Run(v.name, func(t *testing.T) {
			h := e2e.New(t)
			lab, hold, _ := heldLab(t, h)
			hold(1)
			run := h.Command("run", lab)
			var said bytes.Buffer
			run.Stdout, run.Stderr = &said, &said
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _, _ = run.Process.Kill(), run.Wait() }()
			e2e.WaitForTrials(t, h.Dir, 1)
			groups := controlGroups(t, h)
			namespaces := networkNamespaces(t, h)
			for _, args := range [][]string{{"clean", "--dry-run"}, {"clean"}, {"run", lab}} {
				if args[0] == "run" && v.blind {
					continue // it says so, and measures
				}
				out, code := answer(t, in(h, v.unshare, v.overlay, args...))
				if strings.Contains(out, "removed ") || strings.Contains(out, "found ") && args[0] == "clean" &&
					!strings.Contains(out, "no leftovers found") {
					t.Errorf("%v beside a live run: exit code %d\n%s", args, code, out)
				}
				if wrong := v.blind && args[0] == "clean" && !strings.Contains(out, "cannot find out whether run "); wrong ||
					args[0] == "run" && (code == 0 || !strings.Contains(out, "measures on this host")) {
					t.Errorf("%v beside a live run: exit code %d\n%s", args, code, out)
				}
			}
			if now := controlGroups(t, h); now != groups {
				t.Errorf("control groups before:\n%s\nafter:\n%s\nthe run said: %s", groups, now, said.Bytes())
			}
			if err := run.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = run.Wait()
			out, code := answer(t, in(h, v.unshare, v.overlay, "clean"))
			if (v.blind || v.hides) != (code != 0) || v.blind == strings.Contains(out, "removed control group") ||
				v.hides != strings.Contains(out, "bakeoff removed everything except perhaps a network namespace") {
				t.Errorf("clean after the run was killed: exit code %d\n%s", code, out)
			}
			if !v.blind && !v.hides {
				areGone(t, namespaces)
			}
			if out, errs, code := h.Bakeoff(t, 3*time.Minute, "clean"); code != 0 || v.overlay == v.blind &&
				(v.blind || v.hides) == strings.Contains(out, "no leftovers found") {
				t.Errorf("clean where the run was started: exit code %d\n%s%s", code, out, errs)
			}
			h.LeavesNothing(t)
			areGone(t, namespaces)
		})
	}
}

// A run in a PID namespace of its own is alive while the namespace is.
func TestLeasesOfARunInAPIDNamespace(t *testing.T) {
	e2e.NeedsRoot(t)
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	h := e2e.New(t)
	lab, hold, _ := heldLab(t, h)
	hold(1)
	run := in(h, []string{"-m", "-p", "-f", "--mount-proc", "--kill-child"}, false, "run", lab)
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = run.Process.Kill(), run.Wait() }()
	e2e.WaitForTrials(t, h.Dir, 1)
	groups := controlGroups(t, h)
	namespaces := networkNamespaces(t, h)
	if out, code := answer(t, in(h, []string{"-m"}, true, "clean")); code == 0 || strings.Contains(out, "removed ") {
		t.Errorf("clean beside a run in a PID namespace: exit code %d\n%s", code, out)
	}
	if now := controlGroups(t, h); now != groups {
		t.Errorf("control groups before:\n%s\nafter:\n%s", groups, now)
	}
	if err := run.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = run.Wait()
	waitForEnd(t, h)
	if out, code := answer(t, in(h, []string{"-m"}, true, "clean")); code != 0 ||
		!strings.Contains(out, "removed control group") {
		t.Errorf("clean after the namespace has ended: exit code %d\n%s", code, out)
	}
	if out, errs, code := h.Bakeoff(t, 3*time.Minute, "clean"); code != 0 {
		t.Errorf("clean: exit code %d\n%s%s", code, out, errs)
	}
	h.LeavesNothing(t)
	areGone(t, namespaces)
}

// controlGroups lists those of all environments of h.
func controlGroups(t *testing.T, h e2e.Home) string {
	t.Helper()
	leases, err := filepath.Glob(filepath.Join(h.Variable("BAKEOFF_STATE"), "lease/*.json"))
	if err != nil || len(leases) == 0 {
		t.Fatalf("the run has no leases: %v", err)
	}
	var out []string
	for _, lease := range leases {
		label := strings.TrimSuffix(filepath.Base(lease), ".json")
		for _, pattern := range []string{"/sys/fs/cgroup/bakeoff/", "/sys/fs/cgroup/*/bakeoff/"} {
			groups, err := filepath.Glob(pattern + label)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, groups...)
		}
	}
	if len(out) == 0 {
		t.Fatal("the run has no control groups")
	}
	return strings.Join(out, "\n")
}

// networkNamespaces returns the paths of those of all environments of h.
func networkNamespaces(t *testing.T, h e2e.Home) (out []string) {
	t.Helper()
	leases, err := filepath.Glob(filepath.Join(h.Variable("BAKEOFF_STATE"), "lease/*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, lease := range leases {
		out = append(out, netns.Path(netns.Own(strings.TrimSuffix(filepath.Base(lease), ".json"))))
	}
	return out
}

// areGone asserts that none of the network namespaces is left. It removes those that are.
func areGone(t *testing.T, paths []string) {
	t.Helper()
	for _, path := range paths {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		t.Errorf("%s is still there", path)
		if out, err := exec.Command("ip", "netns", "delete", filepath.Base(path)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v %s", path, err, out)
		}
	}
}

// waitForEnd waits until the lock of the state folder is free: the controller has ended.
func waitForEnd(t *testing.T, h e2e.Home) {
	t.Helper()
	l, err := lock.Wait(t.Context(), filepath.Join(h.Variable("BAKEOFF_STATE"), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	l.Release()
}
