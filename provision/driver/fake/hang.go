package fake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// Hang creates environments of drv on h that do not answer: one that is silent
// after its start and is abandoned at its deadline, or at the caller's if
// spec.Options have none; and one that stops in the middle of its life, where a
// command returns at its deadline and Close still removes everything. patience
// is the boot timeout in spec, 0 if the driver has none.
func Hang(t *testing.T, drv driver.Driver, h *Host, spec driver.Spec, patience time.Duration,
	left func(driver.Spec) []string) {
	t.Helper()
	spec.Label = labelled(spec.Label, "hang")
	gone := func(what string) {
		t.Helper()
		found, err := drv.Reap(t.Context(), h, driver.Leftover{Label: spec.Label, Dir: spec.Dir}, true)
		if more := left(spec); err != nil || len(found) > 0 || len(more) > 0 {
			t.Errorf("%s: left behind: %q, %q, %v", what, found, more, err)
		}
	}
	spec.Dir = t.TempDir()
	h.mute.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	if patience == 0 {
		ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
	}
	in, err := drv.Create(ctx, h, spec)
	cancel()
	h.mute.Store(false)
	switch {
	case err == nil:
		in.Close(t.Context())
		t.Fatal("an environment that says nothing was created")
	case patience > 0 && !fault.Is(err, fault.Subject):
		t.Errorf("one that says nothing is not the subject's failure, but %v: %v", fault.Of(err), err)
	case patience == 0 && !errors.Is(err, context.DeadlineExceeded):
		t.Errorf("one that says nothing is not given up at the deadline: %v", err)
	}
	gone("one that says nothing")

	// One that does answer may take longer, on a busy machine.
	spec.Dir, spec.Options = t.TempDir(), maps.Clone(spec.Options)
	delete(spec.Options, "boot-timeout")
	if in, err = drv.Create(t.Context(), h, spec); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	if err := stop(ctx, spec.Label); err != nil {
		t.Fatal(err)
	}
	cancel()
	ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	if _, err := in.Exec(ctx, conn.Command("true")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a command in one that has stopped: %v, want the deadline", err)
	}
	cancel()
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := in.Close(ctx); err != nil {
		t.Errorf("close of one that has stopped: %v", err)
	}
	gone("one that has stopped")
}

// stop stops every process in a place, as a hanging guest does, and returns
// when all threads are stopped. One thread takes the signal, and the others
// continue until it has run.
func stop(ctx context.Context, label string) error {
	layout, err := cgroup.Detect(ctx, local.Conn{})
	if err != nil {
		return err
	}
	group, err := layout.Adopt(ctx, local.Conn{}, label, cgroup.Limits{})
	if err != nil {
		return err
	}
	pids, err := group.PIDs(ctx)
	if err == nil && len(pids) == 0 {
		err = errors.New("nothing runs in " + label)
	}
	for _, pid := range pids {
		process, ferr := os.FindProcess(pid)
		if ferr == nil {
			ferr = process.Signal(syscall.SIGSTOP)
		}
		if errors.Is(ferr, os.ErrProcessDone) { // it ended by itself
			ferr = nil
		}
		err = errors.Join(err, ferr)
	}
	for _, pid := range pids {
		for err == nil && !stopped(pid) {
			if time.Sleep(time.Millisecond); ctx.Err() != nil {
				err = ctx.Err()
			}
		}
	}
	return err
}

// stopped tells whether all threads of a process are stopped, or gone: the
// letter after the name in /proc/PID/task/TID/stat (proc(5)).
func stopped(pid int) bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	return !slices.ContainsFunc(stats, func(path string) bool {
		text, err := os.ReadFile(path)
		_, rest, _ := bytes.Cut(text, []byte(") "))
		return err == nil && !bytes.ContainsAny(rest[:min(1, len(rest))], "TZX")
	})
}
