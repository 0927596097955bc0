package cgroup

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strconv"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
)

// UsualWeight is the weight of a group that has none of its own.
const UsualWeight = 100

// SetWeight changes the weight of a group in use, from 1 to 10,000: groups next to each other that all want
// CPU time get it in the proportion of their weights.
func (g *Group) SetWeight(ctx context.Context, weight int) error {
	g = cmp.Or(g.outer, g)
	dir, err := g.need(ctx, "cpu")
	if err != nil {
		return fault.Op("weight", err)
	}
	name, value := "cpu.weight", min(max(weight, 1), 10_000)
	if dir == g.v1Dir("cpu") {
		name, value = "cpu.shares", max(value*1024/UsualWeight, 2)
	}
	return fault.Op("weight", g.files.WriteFile(ctx, path.Join(dir, name), []byte(strconv.Itoa(value))))
}

// SetTasks bounds the processes and threads of a group in use.
func (g *Group) SetTasks(ctx context.Context, most int) error {
	g = cmp.Or(g.outer, g)
	dir, err := g.need(ctx, "pids")
	if err == nil {
		err = g.files.WriteFile(ctx, path.Join(dir, "pids.max"), []byte(strconv.Itoa(most)))
	}
	return fault.Op("tasks", err)
}

// SetSwap lets the programs of a group in use have swap beyond its limit of memory. If the kernel does not
// limit swap, the error is of kind fault.Unsupported.
func (g *Group) SetSwap(ctx context.Context, swap unit.Bytes) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	holder := cmp.Or(g.outer, g)
	if g.limits.Memory == nil || swap == holder.swap {
		return nil
	}
	dir, name, value := holder.v1Dir("memory"), withSwap, *g.limits.Memory+swap
	if dir == "" {
		dir, name, value = holder.v2Dir(), "memory.swap.max", swap
	}
	err := g.files.WriteFile(ctx, path.Join(dir, name), []byte(strconv.FormatInt(int64(value), 10)))
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.Unsupported, "the kernel does not limit swap")
	}
	if err == nil && name == withSwap { // how readily the kernel swaps; 0 is not at all
		readily := map[bool]string{true: "60", false: "0"}[swap > 0]
		err = g.files.WriteFile(ctx, path.Join(dir, "memory.swappiness"), []byte(readily))
		if fault.Is(err, fault.NotFound) {
			err = nil
		}
	}
	if err == nil {
		holder.swap = swap
	}
	return fault.Op("swap", err)
}

// need returns the directory of a group in use with a controller. If the group was made without the
// controller, it gets it now. If the host has no such controller, the error is of kind fault.Unsupported.
func (g *Group) need(ctx context.Context, controller string) (string, error) {
	if dir := g.v1Dir(controller); dir != "" {
		return dir, nil
	}
	if h := g.layout.V1[controller]; h != "" {
		return g.enter(ctx, h)
	}
	dir := g.v2Dir()
	if dir == "" || !g.layout.limitsV2(controller) {
		return "", fault.New(fault.Unsupported, "the host has no control group controller %s", controller)
	}
	return dir, g.grant(ctx, controller, g.layout.V2, path.Join(g.layout.V2, parent))
}

// enter makes the group in one more hierarchy of version 1, and moves all its processes there.
func (g *Group) enter(ctx context.Context, hierarchy string) (string, error) {
	if err := g.mkdir(ctx, path.Join(hierarchy, parent)); err != nil {
		return "", err
	}
	dir := path.Join(hierarchy, parent, g.label)
	for n := range tries {
		all, err := g.PIDs(ctx)
		if err != nil {
			return "", err
		}
		have, err := g.pidsBelow(ctx, dir, 0)
		if err != nil {
			return "", err
		}
		missing := slices.DeleteFunc(all, func(pid int) bool { return slices.Contains(have, pid) })
		if len(missing) == 0 {
			g.dirs = append(slices.Clone(g.dirs), dir)
			return dir, nil
		}
		for _, pid := range missing { // one may have ended
			_ = g.files.WriteFile(ctx, path.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)))
		}
		if n > 0 && !again(ctx, n) {
			break
		}
	}
	return "", fault.New(fault.Lab, "control group %s: bakeoff could not move all processes into %s", g.label, dir)
}
