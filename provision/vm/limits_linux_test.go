package vm

import (
	"context"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
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
	ctx, host := t.Context(), local.Conn{}
	layout, err := cgroup.Detect(ctx, host)
	if fault.Is(err, fault.Unsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	groups := map[string]*cgroup.Group{}
	create := func(what, name string, old bool) {
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
			if at := time.Now().Add(-2 * settled); old {
				if err := os.Chtimes(d, at, at); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	create("left over", label(NewUUID()), true)
	create("in use", label(NewUUID()), true)
	create("new", label(NewUUID()), false)
	create("of a run", "sweep-"+strconv.Itoa(os.Getpid()), true)

	sleeper := exec.Command("sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sleeper.Process.Kill(); sleeper.Wait() })
	if err := groups["in use"].Add(ctx, sleeper.Process.Pid); err != nil {
		t.Fatal(err)
	}

	check := func(dryRun bool, left ...string) {
		t.Helper()
		found, err := SweepGroups(ctx, dryRun)
		if err != nil {
			t.Fatal(err)
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
	}
	check(true, "left over", "in use", "new", "of a run")
	check(false, "in use", "new", "of a run")
}
