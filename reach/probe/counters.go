package probe

import (
	"fmt"
	"time"

	"bakeoff/base/unit"
)

// start is the zero of AtNS; only differences matter.
var start = time.Now()

// Since returns what was spent between before and c. Levels (frequency, memory)
// are those of c. A counter that went backwards was reset or has wrapped; it is
// unavailable.
func (c Counters) Since(before Counters) Counters {
	d := c
	d.AtNS = c.AtNS - before.AtNS
	d.WallNS, d.RawNS = passed(before.WallNS, c.WallNS), passed(before.RawNS, c.RawNS)
	d.CPU = nil
	if c.CPU != nil && before.CPU != nil {
		d.CPU = c.CPU.since(*before.CPU)
	}
	c.tasksSince(before, &d)
	d.Pressure = nil
	if c.Pressure != nil && before.Pressure != nil {
		d.Pressure = &Pressure{
			CPU:    c.Pressure.CPU - before.Pressure.CPU,
			Memory: c.Pressure.Memory - before.Pressure.Memory,
			IO:     c.Pressure.IO - before.Pressure.IO,
		}
	}
	for _, f := range []struct {
		to            **float64
		before, after *float64
	}{
		{&d.ContextSwitches, before.ContextSwitches, c.ContextSwitches},
		{&d.Interrupts, before.Interrupts, c.Interrupts},
		{&d.MinorFaults, before.MinorFaults, c.MinorFaults},
		{&d.MajorFaults, before.MajorFaults, c.MajorFaults},
		{&d.Forks, before.Forks, c.Forks},
		{&d.ReadOps, before.ReadOps, c.ReadOps},
		{&d.WriteOps, before.WriteOps, c.WriteOps},
		{&d.ReadBytes, before.ReadBytes, c.ReadBytes},
		{&d.WriteBytes, before.WriteBytes, c.WriteBytes},
		{&d.SwapIn, before.SwapIn, c.SwapIn},
		{&d.SwapOut, before.SwapOut, c.SwapOut},
		{&d.ThrottledSeconds, before.ThrottledSeconds, c.ThrottledSeconds},
		{&d.ThermalThrottles, before.ThermalThrottles, c.ThermalThrottles},
		{&d.Joules, before.Joules, c.Joules},
	} {
		*f.to = spent(f.before, f.after)
	}
	d.Energy = nil
	if len(c.Energy) > 0 || len(before.Energy) > 0 {
		d.Joules = energySpent(before.Energy, c.Energy)
	}
	d.Scope = nil
	if c.Scope != nil && before.Scope != nil {
		s := *c.Scope
		s.CPUSeconds = spent(before.Scope.CPUSeconds, c.Scope.CPUSeconds)
		s.OOMKills = spent(before.Scope.OOMKills, c.Scope.OOMKills)
		s.MajorFaults = spent(before.Scope.MajorFaults, c.Scope.MajorFaults)
		s.CPUWait = spent(before.Scope.CPUWait, c.Scope.CPUWait)
		s.Throttled = spent(before.Scope.Throttled, c.Scope.Throttled)
		d.Scope = &s
	}
	return d
}

// since returns the time in each state. The kernel may correct idle times
// downwards by a tick; such a state counts as 0.
func (c CPU) since(b CPU) *CPU {
	return &CPU{
		User:      max(0, c.User-b.User),
		System:    max(0, c.System-b.System),
		Interrupt: max(0, c.Interrupt-b.Interrupt),
		Steal:     max(0, c.Steal-b.Steal),
		IOWait:    max(0, c.IOWait-b.IOWait),
		Idle:      max(0, c.Idle-b.Idle),
	}
}

// passed returns the time between two readings of a clock. If the clock was set
// in between, any value is possible.
func passed(before, after *int64) *int64 {
	if before == nil || after == nil {
		return nil
	}
	d := *after - *before
	return &d
}

func spent(before, after *float64) *float64 {
	if before == nil || after == nil || *after < *before {
		return nil
	}
	d := *after - *before
	return &d
}

// OutOfMemory says that the kernel killed processes between two readings of a part
// because its memory reached limit, which is nil if unknown; "" if it killed none.
// A nil before stands for the beginning of the part.
func OutOfMemory(before, after *Scope, limit *unit.Bytes) string {
	if after == nil || after.OOMKills == nil {
		return ""
	}
	kills := *after.OOMKills
	if before != nil && before.OOMKills != nil {
		kills -= *before.OOMKills
	}
	switch {
	case !(kills > 0):
		return ""
	case limit == nil:
		return "killed by the kernel: out of memory"
	}
	return fmt.Sprintf("killed by the kernel: out of memory (limit %.6g MiB)", float64(*limit)/float64(unit.MiB))
}
