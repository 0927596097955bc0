package isolation

import (
	"context"
	"errors"
	"path"
	"slices"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

// Reap removes what an environment of this package left, and returns what it
// found; with dryRun it changes nothing.
func Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	layout, err := cgroup.Detect(ctx, host)
	if err != nil && !fault.Is(err, fault.Unsupported) {
		return nil, err
	}
	return reap(ctx, host, layout, left, dryRun, nil)
}

// Reaper is the part of a driver whose environments leave nothing that Reap does
// not find.
type Reaper struct{}

// Reap removes what an environment has left.
func (Reaper) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	return Reap(ctx, host, left, dryRun)
}

// ReapMore is Reap for an environment whose technology leaves more, which
// remains removes.
func ReapMore(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool,
	remains Remains) ([]string, error) {
	found, err := Reap(ctx, host, left, dryRun)
	if err != nil {
		return found, err
	}
	more, err := remains(ctx, host, left, dryRun)
	return append(found, more...), err
}

// Remains removes what a technology itself may leave, and returns what it found;
// with dryRun it changes nothing.
type Remains func(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error)

// attempts is how often reap tries. A killed runtime may still be removing its
// control groups, so reading them may fail once.
const attempts = 4

// reap removes what is left, and retries after errors. It returns what the
// first attempt found. teardown, if not nil, is a faster way to remove network
// and mounts, tried once; the host's programs remove what it leaves.
func reap(ctx context.Context, host conn.Conn, layout cgroup.Layout, left driver.Leftover, dryRun bool,
	teardown func(context.Context)) ([]string, error) {
	found, err := reapOnce(ctx, host, layout, left, dryRun, teardown)
	for i := 1; i < attempts && err != nil && !dryRun && ctx.Err() == nil; i++ {
		time.Sleep(50 * time.Millisecond)
		var more []string
		if more, err = reapOnce(ctx, host, layout, left, dryRun, nil); len(found) == 0 {
			found = more
		}
	}
	return found, err
}

// reapOnce removes the processes first, then what they use. A step that fails
// does not stop the next one.
func reapOnce(ctx context.Context, host conn.Conn, layout cgroup.Layout, left driver.Leftover, dryRun bool,
	teardown func(context.Context)) (found []string, err error) {
	group, gerr := layout.Adopt(ctx, host, left.Label, cgroup.Limits{})
	if fault.Is(gerr, fault.NotFound) {
		gerr = nil
	}
	err = gerr
	step := func(lines []string, e error) {
		found, err = append(found, lines...), errors.Join(err, e)
	}
	if group != nil {
		step(processes(ctx, host, group))
		if !dryRun {
			step(nil, group.Kill(ctx))
		}
	}
	if teardown != nil {
		teardown(ctx)
	}
	step(network(ctx, host, left.Label, dryRun))
	step(ReapMounts(ctx, host, left.Dir, dryRun))
	if group != nil {
		for _, d := range group.Dirs() {
			found = append(found, "control group "+d)
		}
		if !dryRun {
			step(nil, group.Remove(ctx))
		}
	}
	if group == nil && !dryRun {
		layout.Tidy(ctx, host) // a runtime may have removed the group, and left the parent that it had made
	}
	return found, err
}

func processes(ctx context.Context, host conn.Conn, group *cgroup.Group) ([]string, error) {
	pids, err := group.PIDs(ctx)
	if err != nil {
		return nil, err
	}
	out := lists.Map(pids, func(pid int) string { return describe(ctx, conn.FilesOf(host), pid) })
	return out, nil
}

func network(ctx context.Context, host conn.Conn, label string, dryRun bool) ([]string, error) {
	have, err := netns.Exists(ctx, host, netns.Own(label))
	if err != nil || !have {
		return nil, err
	}
	found := []string{"network namespace " + netns.Own(label)}
	if !dryRun {
		err = netns.DetachOwn(ctx, host, label)
	}
	return found, err
}

// ReapMounts unmounts what volumes and a root left mounted below dir, stops their daemons, and
// returns what it found, one line for each; with dryRun it changes nothing.
func ReapMounts(ctx context.Context, host conn.Conn, dir string, dryRun bool) ([]string, error) {
	if !path.IsAbs(dir) || path.Clean(dir) == "/" {
		return nil, fault.New(fault.Invalid, "%q is not the directory of an environment", dir)
	}
	at, err := volume.Mounts(ctx, host, dir)
	if err != nil {
		return nil, err
	}
	found, err := volume.Left(ctx, host, dir)
	if err != nil || len(at)+len(found) == 0 {
		return nil, err
	}
	for _, m := range at {
		found = append(found, "mount "+m)
	}
	if dryRun {
		return found, nil
	}
	// Unmount the root recursively: a process for each mount would take longer
	// than creating them.
	if root := path.Join(dir, "root"); slices.Contains(at, root) {
		conn.Output(ctx, host, "umount", "-R", root) // what it leaves, Close takes
	}
	return found, volume.Close(ctx, host, dir)
}
