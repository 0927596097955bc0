package fake

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/provision/cgroup"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// Place is where the processes of one environment run: below a root on this
// machine, in a control group with the environment's limits.
type Place struct {
	Label  string // of the control group
	Root   string // "": they see this machine's files, and Agent enters the group
	Agent  string
	CPUSet []int
	Memory unit.Bytes
}

// Inside runs argv in a place with the call's streams, until its end or the
// call's.
func (c *Call) Inside(p Place, argv ...string) int {
	layout, err := cgroup.Detect(c.Ctx, local.Conn{})
	if err != nil {
		return c.Failf("%v", err)
	}
	group, err := adopt(c.Ctx, layout, p)
	if err != nil {
		return c.Failf("%v", err)
	}
	if c.Host.mute.Load() {
		argv = []string{"/bin/busybox", "sleep", "100"}
	}
	enter := []string{p.Agent, "enter"}
	if p.Root != "" {
		enter = []string{filepath.Join(p.Root, ".bakeoff/agent"), "enter", "--chroot", p.Root, "--dir", "/"}
	}
	enter = append(enter, group.EnterArgs()...)
	return c.Real(append(append(enter, "--"), argv...)...)
}

// adopt takes the place's control group, or makes it.
func adopt(ctx context.Context, layout cgroup.Layout, p Place) (*cgroup.Group, error) {
	limits := cgroup.Limits{CPUSet: p.CPUSet, Memory: p.Memory}
	dirs, err := layout.Find(ctx, local.Conn{}, p.Label)
	if err != nil {
		return nil, err
	}
	if len(dirs) > 0 {
		return layout.Adopt(ctx, local.Conn{}, p.Label, limits)
	}
	return layout.Create(ctx, local.Conn{}, p.Label, limits)
}

// labelled is a label that no other program has which tests the same on this
// machine now: the control groups are real.
func labelled(label, name string) string { return fmt.Sprintf("%s-%d-%s", label, os.Getpid(), name) }

// groupOf returns the control group of a place; nil if there is none.
func groupOf(ctx context.Context, label string) (*cgroup.Group, error) {
	layout, err := cgroup.Detect(ctx, local.Conn{})
	if err != nil {
		return nil, err
	}
	group, err := layout.Adopt(ctx, local.Conn{}, label, cgroup.Limits{})
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return group, err
}

// Populated returns the number of processes in a place.
func Populated(ctx context.Context, label string) (int, error) {
	pids, err := PIDs(ctx, label)
	return len(pids), err
}

// PIDs returns the processes of this machine in a place.
func PIDs(ctx context.Context, label string) ([]int, error) {
	group, err := groupOf(ctx, label)
	if group == nil || err != nil {
		return nil, err
	}
	return group.PIDs(ctx)
}

// Empty kills everything in a place. It runs to its end even if the call is
// canceled.
func Empty(label string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	group, err := groupOf(ctx, label)
	if group == nil || err != nil {
		return err
	}
	return group.Remove(ctx)
}

// Here runs a command on this machine for the fake's own purposes.
func Here(ctx context.Context, argv ...string) error {
	_, err := conn.Output(ctx, local.Conn{}, argv...)
	return err
}
