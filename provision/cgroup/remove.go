package cgroup

import (
	"context"
	"path"
	"strconv"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/sleep"
	"bakeoff/reach/conn"
)

// settle is how long processes and groups may take to disappear after a kill.
const settle = 30 * time.Second

// Kill kills every process in the group, including frozen ones, and returns
// when they are gone.
func (g *Group) Kill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		pids, err := g.PIDs(ctx)
		if err != nil || len(pids) == 0 {
			return err
		}
		// Dead processes take a moment to disappear. Kill again what was
		// started in the meantime.
		if wait == time.Millisecond || wait >= 16*time.Millisecond {
			if err := g.killOnce(ctx, pids); err != nil {
				return err
			}
		}
		if sleep.For(ctx, wait) != nil {
			return fault.New(fault.Lab, "control group %s: the processes %v do not end", g.label, pids)
		}
	}
}

// killOnce kills the current processes. Version 2 has a file for that (Linux
// 5.14), which also kills frozen processes; in version 1 a frozen process dies
// when it is thawed.
func (g *Group) killOnce(ctx context.Context, pids []int) error {
	if d := g.v2Dir(); d != "" && g.files.WriteFile(ctx, path.Join(d, "cgroup.kill"), []byte("1")) == nil {
		left, err := g.PIDs(ctx)
		if err != nil || len(left) == 0 {
			return err
		}
	}
	argv := []string{"kill", "-9"}
	for _, p := range pids {
		argv = append(argv, strconv.Itoa(p))
	}
	// kill fails if one of them has ended by itself; PIDs lists what is left.
	if _, err := g.host.Exec(ctx, conn.Command(argv...)); err != nil {
		return fault.Op("control group "+g.label, err)
	}
	return g.Thaw(ctx)
}

// Remove kills what is in the group and removes it. Parts that do not exist are
// skipped.
func (g *Group) Remove(ctx context.Context) error {
	if err := g.Kill(ctx); err != nil {
		return err
	}
	dirs, err := g.exists(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	for _, d := range dirs {
		if err := g.removeTree(ctx, d, 0); err != nil {
			return fault.Op("control group "+g.label, err)
		}
	}
	g.dirs = nil
	g.layout.Tidy(ctx, g.host)
	return nil
}

// RemoveEmpty removes the group and the groups below it, and kills nothing. The kernel refuses to
// remove what has processes.
func (g *Group) RemoveEmpty(ctx context.Context) error {
	for _, d := range g.dirs {
		if err := g.removeEmptyTree(ctx, d, 0); err != nil {
			return fault.Op("control group "+g.label, err)
		}
	}
	g.dirs = nil
	g.layout.Tidy(ctx, g.host)
	return nil
}

func (g *Group) removeEmptyTree(ctx context.Context, dir string, level int) error {
	below, err := g.below(ctx, dir)
	for _, d := range below {
		if err == nil && level < depth {
			err = g.removeEmptyTree(ctx, d, level+1)
		}
	}
	if err == nil {
		err = g.files.Rmdir(ctx, dir)
	}
	return err
}

// Tidy removes the common parents if they have no groups. The kernel refuses to
// remove a parent in use.
func (l Layout) Tidy(ctx context.Context, host conn.Conn) {
	for _, h := range l.hierarchies() {
		conn.FilesOf(host).Rmdir(ctx, path.Join(h, parent))
	}
}

// discard removes a group after make failed.
func (g *Group) discard(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settle)
	defer cancel()
	g.Remove(ctx)
}

func (g *Group) removeTree(ctx context.Context, dir string, level int) error {
	below, err := g.below(ctx, dir)
	if err != nil {
		return err
	}
	for _, d := range below {
		if level < depth {
			if err := g.removeTree(ctx, d, level+1); err != nil {
				return err
			}
		}
	}
	// A group is busy for a moment after its last process has died.
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		err := g.files.Rmdir(ctx, dir)
		if err == nil {
			return nil
		}
		if wait > 10*time.Millisecond {
			// A process that was about to join the group when the others were killed may
			// be in it now.
			if err := g.Kill(ctx); err != nil {
				return err
			}
		}
		if sleep.For(ctx, wait) != nil {
			return err
		}
	}
}
