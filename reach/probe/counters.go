package probe

import (
	"cmp"
	"fmt"
	"maps"
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
	earlier, later := before.single(), c.single()
	for i, f := range d.single() {
		a, b := *earlier[i].value, *later[i].value
		if *f.value = spent(a, b); *f.value == nil && a != nil && b != nil {
			d.Unavailable = maps.Clone(d.Unavailable)
			d.explain(f.name, "the counter went backwards: it was reset, or it wrapped")
		}
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

// A counter is one counter of Counters and its name in JSON.
type counter struct {
	name  string
	value **float64
}

// single lists the counters that are single numbers, always in this order.
func (c *Counters) single() []counter {
	return []counter{
		{"context_switches", &c.ContextSwitches},
		{"interrupts", &c.Interrupts},
		{"minor_faults", &c.MinorFaults},
		{"major_faults", &c.MajorFaults},
		{"forks", &c.Forks},
		{"read_ops", &c.ReadOps},
		{"write_ops", &c.WriteOps},
		{"read_bytes", &c.ReadBytes},
		{"write_bytes", &c.WriteBytes},
		{"swap_in_pages", &c.SwapIn},
		{"swap_out_pages", &c.SwapOut},
		{"throttled_seconds", &c.ThrottledSeconds},
		{"thermal_throttles", &c.ThermalThrottles},
		{"joules", &c.Joules},
	}
}

// explain records why a counter is nil.
func (c *Counters) explain(name, reason string) {
	if c.Unavailable == nil {
		c.Unavailable = map[string]string{}
	}
	c.Unavailable[name] = reason
}

// explainAll gives every counter that is nil a reason: that of reasons, or
// otherwise.
func (c *Counters) explainAll(reasons map[string]string, otherwise string) {
	missing := map[string]bool{"cpu": c.CPU == nil, "pressure": c.Pressure == nil, "scope": c.Scope == nil,
		"frequency_hz": c.FrequencyHz == nil}
	for _, f := range c.single() {
		missing[f.name] = *f.value == nil
	}
	for name, is := range missing {
		if is {
			c.explain(name, cmp.Or(reasons[name], otherwise))
		}
	}
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
