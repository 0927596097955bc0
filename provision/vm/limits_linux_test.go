package vm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/provision/cgroup"
	"bakeoff/reach/conn/local"
)

// SweepGroups finds the empty control group of a guest whose supervisor was killed. It leaves a group with a process,
// a group that has just been made, and the group of a run.
func TestSweepGroups(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	layout, err := cgroup.Detect(t.Context(), local.Conn{})
	if fault.Is(err, fault.Unsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for try := range 10 {
		if sweeps(t, layout, fmt.Sprintf("sweep-%d-%d", os.Getpid(), try)) {
			return
		}
	}
	t.Error("ten groups that were left over were gone, and not listed")
}

// sweeps is one try of TestSweepGroups; run is the name of the group of a run. It returns false if the group that is
// left over was gone before it was listed: "bakeoff clean" of another test may remove it.
func sweeps(t *testing.T, layout cgroup.Layout, run string) bool {
	t.Helper()
	ctx, host := t.Context(), local.Conn{}
	groups := map[string]*cgroup.Group{}
	create := func(what, name string) {
		t.Helper()
		g, err := layout.Create(ctx, host, name, cgroup.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		groups[what] = g
		t.Cleanup(func() { g.Remove(context.Background()) })
		for _, d := range g.Dirs() {
			// A guest that creates groups of its own has them below its group.
			if err := os.Mkdir(path.Join(d, "below"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	create("left over", label(NewUUID()))
	create("in use", label(NewUUID()))
	create("new", label(NewUUID()))
	create("of a run", run)

	sleeper := exec.Command("sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sleeper.Process.Kill(); sleeper.Wait() })
	if err := groups["in use"].Add(ctx, sleeper.Process.Pid); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-2 * settled)
	for _, old := range []string{"of a run", "in use", "left over"} {
		for _, d := range groups[old].Dirs() {
			if err := os.Chtimes(d, at, at); err != nil {
				t.Fatal(err)
			}
		}
	}

	check := func(dryRun bool, left ...string) bool {
		t.Helper()
		found, err := SweepGroups(ctx, dryRun)
		if err != nil {
			t.Fatal(err)
		}
		lost := groups["left over"].Dirs()[0]
		if _, err := os.Stat(lost); err != nil && !slices.Contains(found, lost) {
			return false
		}
		for what, g := range groups {
			listed := slices.Contains(found, g.Dirs()[0])
			if want := what == "left over"; listed != want {
				t.Errorf("dry run %v: the group that is %s is listed: %v, want %v", dryRun, what, listed, want)
			}
			for _, d := range g.Dirs() {
				_, err := os.Stat(d)
				if want := slices.Contains(left, what); (err == nil) != want {
					t.Errorf("dry run %v: the group that is %s exists: %v, want %v", dryRun, what, err == nil, want)
				}
			}
		}
		return true
	}
	return check(true, "left over", "in use", "new", "of a run") && check(false, "in use", "new", "of a run")
}
