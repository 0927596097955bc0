package vm

import (
	"context"
	"os"
	"runtime"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/name"
	"bakeoff/base/unit"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver/jail"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/conn/local"
)

// limited are the limits of a guest that can change while it runs.
type limited struct {
	Memory unit.Bytes `json:"memory,omitzero"` // of a container
	Quota  float64    `json:"quota,omitzero"`  // CPUs' worth of time, as in driver.Spec
	Weight int        `json:"weight,omitzero"` // when CPU time is short; cgroup.UsualWeight is the usual one
	Tasks  int        `json:"tasks,omitzero"`  // processes and threads of a container
	Swap   unit.Bytes `json:"swap,omitzero"`   // of a container, beyond its memory
}

// limitsOf are those of a manifest. Tasks and Weight are 0 where nothing can limit them.
func limitsOf(g manifest.Guest) limited {
	l := limited{Quota: float64(g.CPUCap) / 100}
	if !g.Brand.Machine() {
		l.Memory = unit.Bytes(g.RAM) * unit.MiB
	}
	if !jailed(g) {
		l.Weight = g.CPUShares
	}
	if !jailed(g) && !g.Brand.Machine() {
		l.Tasks = g.MaxLWPs
		if g.MaxSwap != usualSwap(g) {
			l.Swap = unit.Bytes(g.MaxSwap-g.MaxPhysicalMemory) * unit.MiB
		}
	}
	return l
}

// usualSwap is the default of max_swap: no swap beyond the memory.
func usualSwap(g manifest.Guest) int { return max(g.MaxPhysicalMemory, 256) }

// fitLimits checks the limits that not all guests can have.
func fitLimits(g manifest.Guest, storage Storage, add func(path string, value any, reason, allowed string)) {
	usual := manifest.Guest{Brand: g.Brand}
	manifest.Complete(&usual)
	reason := ""
	switch {
	case g.Brand.Machine() && g.Driver != manifest.QEMU:
		reason = "bakeoff limits the CPU time of machines in QEMU only"
	case g.Brand.Machine() && runtime.GOOS != "linux":
		reason = "bakeoff limits the CPU time of machines on Linux only"
	case g.Brand.Machine() && storage == nil:
		reason = "the lab file limits the CPUs of the machine of a contender"
	}
	if reason != "" && g.CPUCap != 0 {
		add("cpu_cap", g.CPUCap, reason, "remove it")
	}
	switch {
	case reason != "":
	case jailed(g):
		reason = "rctl has no counterpart of it"
	case storage == nil:
		reason = "guests of contenders have the usual value"
	}
	if g.MaxSwap != usualSwap(g) && (reason != "" || g.Brand.Machine()) {
		add("max_swap", g.MaxSwap, "bakeoff limits the swap of containers on Linux only, and not that of contenders",
			"remove it")
	}
	if reason != "" && g.CPUShares != usual.CPUShares {
		add("cpu_shares", g.CPUShares, reason, "remove it")
	}
	if g.Brand.Machine() {
		reason = "the threads of a machine are those of its own kernel"
	}
	if reason != "" && g.MaxLWPs != usual.MaxLWPs {
		add("max_lwps", g.MaxLWPs, reason, "remove it")
	}
}

// applyLimits gives a guest that runs the limits of its manifest, if they differ from old ones.
func (g *Guest) applyLimits(ctx context.Context, old manifest.Guest) error {
	before, after := limitsOf(old), limitsOf(g.Guest)
	switch {
	case g.State != Running || before == after:
		return nil
	case jailed(g.Guest):
		return jail.Limit(ctx, g.store.Host, label(g.UUID), after.Memory, after.Quota)
	case g.Brand.Machine() && g.Driver != manifest.QEMU:
		return nil
	}
	return g.ask(ctx, request{Do: "limit", limited: after})
}

// limit changes the limits of the running container. What stays is not written: the kernel may lack it.
func (c *container) limit(ctx context.Context, l limited) error {
	group, err := c.group()
	if err != nil {
		return err
	}
	quota := l.Quota
	if quota == c.has.Quota && group.Limits().Quota == nil {
		quota = 0
	}
	if err = group.Update(ctx, l.Memory, quota); err == nil {
		c.has.Quota = l.Quota
	}
	if err == nil && l.Weight != c.has.Weight {
		if err = group.SetWeight(ctx, l.Weight); err == nil {
			c.has.Weight = l.Weight
		}
	}
	if err == nil && l.Tasks != c.has.Tasks {
		if err = group.SetTasks(ctx, l.Tasks); err == nil {
			c.has.Tasks = l.Tasks
		}
	}
	if err == nil {
		err = group.SetSwap(ctx, l.Swap)
	}
	return err
}

// limitMore gives a container that has started the limits that its driver does not know.
func (c *container) limitMore(ctx context.Context) error {
	g := c.v.g
	if jailed(g.Guest) || g.store.Containers != nil { // the guest of a contender has the usual ones
		return nil
	}
	group, err := c.group()
	if err != nil {
		return err
	}
	usual := manifest.Guest{Brand: g.Brand}
	manifest.Complete(&usual)
	l := limitsOf(g.Guest)
	c.has = l
	if l.Weight != usual.CPUShares {
		err = fault.Op("cpu_shares", group.SetWeight(ctx, l.Weight))
	}
	if err == nil {
		err = fault.Op("max_swap", group.SetSwap(ctx, l.Swap))
	}
	if err != nil {
		return err
	}
	err = fault.Op("max_lwps", group.SetTasks(ctx, l.Tasks))
	if l.Tasks == usual.MaxLWPs {
		return nil // the default limits only where the kernel can
	}
	return err
}

// limit changes the limits of the running machine. Its QEMU gets a control group when it first has one.
func (m *machine) limit(ctx context.Context, l limited) error {
	if m.group == nil {
		if l.Quota == 0 && l.Weight == cgroup.UsualWeight {
			return nil
		}
		layout, err := cgroup.Detect(ctx, m.Host)
		if err != nil {
			return err
		}
		pid, err := m.PID()
		if err != nil {
			return err
		}
		group, err := layout.Create(ctx, m.Host, label(m.v.g.UUID), cgroup.Limits{})
		if err != nil {
			return err
		}
		m.group = group
		if err := group.Add(ctx, pid); err != nil {
			return err
		}
	}
	if err := m.group.Update(ctx, 0, l.Quota); err != nil {
		return err
	}
	return m.group.SetWeight(ctx, l.Weight)
}

// removeGroup removes the control group of a machine that has ended.
func (s *Store) removeGroup(ctx context.Context, uuid string) error {
	layout, err := cgroup.Detect(ctx, s.Host)
	if fault.Is(err, fault.Unsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	group, err := layout.Adopt(ctx, s.Host, label(uuid), cgroup.Limits{})
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return group.Remove(ctx)
}

// settled is how long a control group without processes must exist before it counts as left over: the processes
// of a guest that starts are not in its group yet.
const settled = time.Minute

// SweepGroups removes the control groups that killed supervisors of guests left on this machine, and returns their
// directories; with dryRun it only lists them. These are groups without processes: also those of guests of another
// state folder, or of a folder that nobody has any more.
func SweepGroups(ctx context.Context, dryRun bool) (found []string, err error) {
	host := local.Conn{}
	layout, err := cgroup.Detect(ctx, host)
	if os.Getuid() != 0 || fault.Is(err, fault.Unsupported) {
		return nil, nil // a guest has a control group only if root started it
	}
	if err != nil {
		return nil, err
	}
	labels, err := layout.Labels(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, l := range labels {
		if uuid, ok := strings.CutPrefix(l, label("")); !ok || !name.ValidUUID(uuid) {
			continue
		}
		group, err := layout.Adopt(ctx, host, l, cgroup.Limits{})
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return found, err
		}
		dirs := group.Dirs()
		if used, err := group.Occupied(ctx); used || err != nil || young(dirs) {
			continue
		}
		if !dryRun {
			if err := group.RemoveEmpty(ctx); err != nil {
				if used, _ := group.Occupied(ctx); used {
					continue // by a guest that has just started
				}
				return found, err
			}
		}
		found = append(found, dirs...)
	}
	return found, nil
}

// young tells whether one of the directories is not settled yet, or was removed meanwhile.
func young(dirs []string) bool {
	for _, d := range dirs {
		if info, err := os.Stat(d); err != nil || time.Since(info.ModTime()) < settled {
			return true
		}
	}
	return false
}
