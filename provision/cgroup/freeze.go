package cgroup

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/sleep"
)

// v2Dir is the group's directory in the version 2 hierarchy, "" if the group
// is not there.
func (g *Group) v2Dir() string {
	return g.dirIn(g.layout.V2)
}

// v1Dir is the group's directory in the hierarchy of a version 1 controller.
func (g *Group) v1Dir(controller string) string {
	return g.dirIn(g.layout.V1[controller])
}

func (g *Group) dirIn(hierarchy string) string {
	d := path.Join(hierarchy, g.name)
	if hierarchy == "" || !slices.Contains(g.dirs, d) {
		return ""
	}
	return d
}

// Freeze freezes every process in the group and returns when all are frozen. If
// the group cannot be frozen the error is of kind fault.Unsupported.
func (g *Group) Freeze(ctx context.Context) error { return g.freezer(ctx, true) }

// Thaw resumes the group. A group that is not frozen stays as it is, and a
// group that was removed in the meantime counts as thawed.
func (g *Group) Thaw(ctx context.Context) error {
	if err := g.freezer(ctx, false); !fault.Is(err, fault.NotFound) {
		return err
	}
	return nil
}

// freezeTime bounds the wait for a freeze: a process in an uninterruptible wait
// is frozen when the wait ends.
const freezeTime = 10 * time.Second

// switches are the freezers of both versions. Version 2 is preferred: its
// frozen processes can be killed.
func (g *Group) freezer(ctx context.Context, frozen bool) error {
	ctx, cancel := context.WithTimeout(ctx, freezeTime)
	defer cancel()
	op := "thaw "
	if frozen {
		op = "freeze "
	}
	write, value, read, want := "", "", "", ""
	if d := g.v2Dir(); d != "" {
		write, value = path.Join(d, "cgroup.freeze"), map[bool]string{true: "1", false: "0"}[frozen]
		read, want = path.Join(d, "cgroup.events"), "frozen "+value
	} else if d := g.v1Dir("freezer"); d != "" {
		write, value = path.Join(d, "freezer.state"), map[bool]string{true: "FROZEN", false: "THAWED"}[frozen]
		read, want = write, value
	} else if !frozen {
		return nil
	} else {
		return fault.New(fault.Unsupported, "%s%s: the host has no freezer for control groups", op, g.label)
	}
	for wait := 50 * time.Microsecond; ; wait = min(2*wait, 10*time.Millisecond) {
		// Version 1 must be asked again while it reports FREEZING.
		var b []byte
		err := g.files.WriteFile(ctx, write, []byte(value))
		if err == nil {
			b, err = g.files.ReadFile(ctx, read)
		}
		if g.went(ctx, path.Dir(write), err) {
			return fault.Wrap(fault.NotFound, op+g.label, err)
		}
		if err != nil {
			return fault.Op(op+g.label, err)
		}
		if slices.Contains(strings.Split(strings.TrimSpace(string(b)), "\n"), want) {
			return nil
		}
		if sleep.For(ctx, wait) != nil {
			return fault.New(fault.Lab, "%s%s: timed out after %v", op, g.label, freezeTime)
		}
	}
}
