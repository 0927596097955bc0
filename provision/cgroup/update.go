package cgroup

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
)

// Update changes the limits of memory and CPU time of a group in use; a quota of 0 means no limit. If
// the programs use more than memory, and the kernel cannot reclaim it, Update changes nothing and
// returns an error of kind fault.Unsupported. It does so, too, if the host cannot limit CPU time. A group
// without a limit of memory gets none.
func (g *Group) Update(ctx context.Context, memory unit.Bytes, quota float64) error {
	if err := checkQuota(quota); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limits.NotEnforced = maps.Clone(g.limits.NotEnforced) // callers of Limits have the old one
	before, holder := g.limits.Memory, cmp.Or(g.outer, g)
	if quota > 0 && g.limits.Quota == nil {
		_, err := holder.need(ctx, "cpu")
		if err == nil && g.outer != nil && g.layout.V1["cpu"] == "" {
			err = g.grant(ctx, "cpu", holder.v2Dir())
		}
		if err != nil {
			return fault.Op("quota", err)
		}
	}
	if before != nil && *before != memory {
		if err := holder.changeMemory(ctx, *before, memory); err != nil {
			return err
		}
		g.limits.Memory = &memory
	}
	err := g.changeQuotas(ctx, quota)
	if err != nil && before != nil && *before != memory {
		ctx = context.WithoutCancel(ctx)
		err = errors.Join(err, holder.changeMemory(ctx, memory, *before))
		g.limits.Memory = before
	}
	return err
}

// Within says that g is in outer, which has the limit of memory, and may have that of CPU time, too. Update
// then changes both.
func (g *Group) Within(outer *Group) { g.outer = outer }

// changeQuotas changes the limit of CPU time of the group and of the one that it is in. In version 1, a
// group cannot have a higher limit than the one that it is in.
func (g *Group) changeQuotas(ctx context.Context, quota float64) error {
	if g.outer == nil || g.outer.limits.Quota == nil {
		return g.changeQuota(ctx, quota)
	}
	before := *g.outer.limits.Quota
	order := []*Group{g, g.outer}
	if quota == 0 || quota > before {
		slices.Reverse(order)
	}
	if err := order[0].changeQuota(ctx, quota); err != nil {
		return err
	}
	if err := order[1].changeQuota(ctx, quota); err != nil {
		return errors.Join(err, order[0].changeQuota(context.WithoutCancel(ctx), before))
	}
	return nil
}

// withSwap is the limit of memory with swap in version 1.
const withSwap = "memory.memsw.limit_in_bytes"

// changeMemory changes the limit of memory of a group in use.
func (g *Group) changeMemory(ctx context.Context, before, memory unit.Bytes) error {
	value := []byte(strconv.FormatInt(int64(memory), 10))
	if dir := g.v1Dir("memory"); dir != "" {
		// The limit of memory with swap is never below that of memory alone.
		names := []string{"memory.limit_in_bytes", withSwap}
		text := func(name string, memory unit.Bytes) []byte {
			if name == withSwap {
				memory += g.swap
			}
			return []byte(strconv.FormatInt(int64(memory), 10))
		}
		if memory > before {
			names[0], names[1] = names[1], names[0]
		}
		for i, name := range names {
			err := g.files.WriteFile(ctx, path.Join(dir, name), text(name, memory))
			if err == nil || name == withSwap && fault.Is(err, fault.NotFound) {
				continue
			}
			err = fault.New(fault.Lab, "memory %s: %w", memory, err)
			if used, uerr := g.memoryUsed(ctx, dir, "memory.usage_in_bytes"); uerr == nil && used > memory {
				err = belowUse(memory, used)
			}
			if i > 0 {
				old := text(names[0], before)
				err = errors.Join(err, g.files.WriteFile(context.WithoutCancel(ctx), path.Join(dir, names[0]), old))
			}
			return err
		}
		return nil
	}
	dir := g.v2Dir()
	if dir == "" {
		return fault.New(fault.Lab, "the control group has no memory controller")
	}
	if memory > before {
		return g.files.WriteFile(ctx, path.Join(dir, "memory.max"), value)
	}
	// A lower memory.max would kill programs. memory.high makes the kernel reclaim what it can first.
	high := path.Join(dir, "memory.high")
	err := g.files.WriteFile(ctx, high, value)
	if err == nil {
		var used unit.Bytes
		if used, err = g.memoryUsed(ctx, dir, "memory.current"); err == nil && used > memory {
			err = belowUse(memory, used)
		}
	}
	if err == nil {
		err = g.files.WriteFile(ctx, path.Join(dir, "memory.max"), value)
	}
	return errors.Join(err, g.files.WriteFile(context.WithoutCancel(ctx), high, []byte("max")))
}

// memoryUsed reads what the group uses.
func (g *Group) memoryUsed(ctx context.Context, dir, name string) (unit.Bytes, error) {
	text, err := g.files.ReadFile(ctx, path.Join(dir, name))
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return unit.Bytes(n), err
}

func belowUse(memory, used unit.Bytes) error {
	return fault.WithFix(fault.New(fault.Unsupported, "the programs use %s of memory, and the kernel cannot reduce this "+
		"to %s", used, memory), "stop the guest first, or set a higher limit")
}

// changeQuota changes the limit of CPU time of a group in use.
func (g *Group) changeQuota(ctx context.Context, quota float64) error {
	before := g.limits.Quota
	if quota != 0 || before == nil {
		return g.limitQuota(ctx, quota)
	}
	name, text := path.Join(g.v1Dir("cpu"), "cpu.cfs_quota_us"), "-1"
	if g.v1Dir("cpu") == "" {
		name, text = path.Join(g.v2Dir(), "cpu.max"), "max"
	}
	if err := g.files.WriteFile(ctx, name, []byte(text)); err != nil {
		return fault.New(fault.Lab, "remove quota %v: %w", *before, err)
	}
	g.limits.Quota = nil
	return nil
}
