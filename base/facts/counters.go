// Package facts is plain data about an operating system: what it has spent so far
// (Counters), what it is (Fingerprint), what it may use (Limits) and which machine it
// runs on (Hardware). Package reach/probe reads them from a system.
//
// A nil pointer means "unavailable": unknown is never 0.
package facts

import (
	"cmp"
	"fmt"
	"maps"

	"bakeoff/base/unit"
)

// Counters is what an operating system, or a part of it, has spent since it
// started. The difference of two is what was spent in between.
type Counters struct {
	// AtNS is the reader's monotonic clock, in nanoseconds.
	AtNS int64 `json:"at_ns"`
	// WallNS is the wall clock and RawNS the clock that is never corrected,
	// both read together with AtNS, in nanoseconds from different origins.
	// The differences of all three agree unless a clock was set.
	// ClockSource names the hardware behind them; "" if unknown.
	WallNS      *int64 `json:"wall_ns,omitempty"`
	RawNS       *int64 `json:"raw_ns,omitempty"`
	ClockSource string `json:"clock_source,omitempty"`
	// CPU holds seconds by state, summed over the CPUs in CPUSet, or over
	// all if it is empty.
	CPU    *CPU  `json:"cpu"`
	CPUSet []int `json:"cpu_set,omitempty"`
	// TaskNS is how many nanoseconds these CPUs ran tasks; nil if the
	// system counts only ticks. CPUSource is the source of the busy time
	// (Source…); "" if there is none, and in older files without TaskNS.
	TaskNS    *int64 `json:"task_ns,omitempty"`
	CPUSource string `json:"cpu_source,omitempty"`

	ContextSwitches *float64  `json:"context_switches"`
	Interrupts      *float64  `json:"interrupts"`
	MinorFaults     *float64  `json:"minor_faults"`
	MajorFaults     *float64  `json:"major_faults"`
	Forks           *float64  `json:"forks"`
	ReadOps         *float64  `json:"read_ops"`
	WriteOps        *float64  `json:"write_ops"`
	ReadBytes       *float64  `json:"read_bytes"`
	WriteBytes      *float64  `json:"write_bytes"`
	SwapIn          *float64  `json:"swap_in_pages"`
	SwapOut         *float64  `json:"swap_out_pages"`
	Pressure        *Pressure `json:"pressure"`
	// ThrottledSeconds is the time in which a CPU quota throttled the
	// subject.
	ThrottledSeconds *float64 `json:"throttled_seconds"`
	// ThermalThrottles counts events in which the hardware slowed down.
	ThermalThrottles *float64 `json:"thermal_throttles"`
	// FrequencyHz is the mean current frequency; a level, not a count.
	FrequencyHz *float64 `json:"frequency_hz"`
	// Joules is the energy of the packages, from RAPL or from a meter.
	Joules *float64 `json:"joules"`
	// Energy are RAPL's counters, one per package; Joules is their sum.
	// Each wraps to 0 independently. Empty if Joules comes from a meter.
	Energy []Energy `json:"energy,omitempty"`
	// Scope is the part of the machine that is accounted separately (the
	// cgroup of the environment, hypervisor included); nil if it cannot be
	// separated.
	Scope *Scope `json:"scope"`
	// Interfaces are the network interfaces of the reader's network namespace, read
	// by the agent around a command or a loop; empty if nobody read them.
	Interfaces []Interface `json:"interfaces,omitempty"`
	// Unavailable says why counters are nil: JSON name → reason. On Linux
	// only of those that went backwards.
	Unavailable map[string]string `json:"unavailable,omitempty"`
}

// CPU is time by state, in seconds.
type CPU struct {
	User      float64 `json:"user"` // with nice
	System    float64 `json:"system"`
	Interrupt float64 `json:"interrupt"` // hard and soft
	Steal     float64 `json:"steal"`
	IOWait    float64 `json:"iowait"`
	Idle      float64 `json:"idle"`
}

// Plus returns the sums of the times in each state.
func (c CPU) Plus(d CPU) CPU {
	return CPU{c.User + d.User, c.System + d.System, c.Interrupt + d.Interrupt, c.Steal + d.Steal, c.IOWait + d.IOWait,
		c.Idle + d.Idle}
}

// Busy is user + system + interrupt, in seconds.
func (c CPU) Busy() float64 { return c.User + c.System + c.Interrupt }

// Pressure is time stalled, in seconds (Linux PSI, "some").
type Pressure struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
	IO     float64 `json:"io"`
}

// Scope is what one cgroup, or a similar part, has spent.
type Scope struct {
	CPUSeconds  *float64 `json:"cpu_seconds"`
	MemoryPeak  *float64 `json:"memory_peak_bytes"` // a level
	MemoryNow   *float64 `json:"memory_bytes"`      // a level
	OOMKills    *float64 `json:"oom_kills"`
	MajorFaults *float64 `json:"major_faults"`
	// CPUWait is the time in which processes were ready to run and none of them
	// ran (Linux PSI, "full"), weighted over the CPUs. Throttled is the part of
	// it, or more, in which the quota of the scope held them back, summed over
	// the CPUs; nil if there is no quota.
	CPUWait   *float64 `json:"cpu_wait_seconds"`
	Throttled *float64 `json:"throttled_seconds"`
}

// Interface is what a network interface has carried, with the headers of its link.
type Interface struct {
	Name          string `json:"name"`
	ReceivedBytes uint64 `json:"received_bytes"`
	SentBytes     uint64 `json:"sent_bytes"`
}

// Energy is one energy counter of the hardware.
type Energy struct {
	Zone   string  `json:"zone"` // intel-rapl:0
	Joules float64 `json:"joules"`
	// Range is where the counter wraps to 0, in joules; 0 if unknown.
	Range float64 `json:"range_joules,omitempty"`
}

// Since returns what was spent between before and c. Levels (frequency, memory)
// are those of c. A counter that went backwards was reset or has wrapped; it is
// unavailable.
func (c Counters) Since(before Counters) Counters {
	d := c
	d.AtNS = c.AtNS - before.AtNS
	d.WallNS, d.RawNS = timePassed(before.WallNS, c.WallNS), timePassed(before.RawNS, c.RawNS)
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
		if *f.value = Spent(a, b); *f.value == nil && a != nil && b != nil {
			d.Unavailable = maps.Clone(d.Unavailable)
			d.Explain(f.name, "the counter went backwards: it was reset, or it wrapped")
		}
	}
	d.Energy = nil
	if len(c.Energy) > 0 || len(before.Energy) > 0 {
		d.Joules = energySpent(before.Energy, c.Energy)
	}
	d.Scope = nil
	if c.Scope != nil && before.Scope != nil {
		s := *c.Scope
		s.CPUSeconds = Spent(before.Scope.CPUSeconds, c.Scope.CPUSeconds)
		s.OOMKills = Spent(before.Scope.OOMKills, c.Scope.OOMKills)
		s.MajorFaults = Spent(before.Scope.MajorFaults, c.Scope.MajorFaults)
		s.CPUWait = Spent(before.Scope.CPUWait, c.Scope.CPUWait)
		s.Throttled = Spent(before.Scope.Throttled, c.Scope.Throttled)
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

// Explain records why a counter is nil.
func (c *Counters) Explain(name, reason string) {
	if c.Unavailable == nil {
		c.Unavailable = map[string]string{}
	}
	c.Unavailable[name] = reason
}

// ExplainMissing gives every counter that is nil a reason: that of reasons, or
// otherwise.
func (c *Counters) ExplainMissing(reasons map[string]string, otherwise string) {
	missing := map[string]bool{"cpu": c.CPU == nil, "pressure": c.Pressure == nil, "scope": c.Scope == nil,
		"frequency_hz": c.FrequencyHz == nil}
	for _, f := range c.single() {
		missing[f.name] = *f.value == nil
	}
	for name, is := range missing {
		if is {
			c.Explain(name, cmp.Or(reasons[name], otherwise))
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

// timePassed returns the time between two readings of a clock. If the clock was set
// in between, any value is possible.
func timePassed(before, after *int64) *int64 {
	if before == nil || after == nil {
		return nil
	}
	return new(*after - *before)
}

// Spent returns after - before; nil if one is unknown or the difference is negative.
func Spent(before, after *float64) *float64 {
	if before == nil || after == nil || *after < *before {
		return nil
	}
	return new(*after - *before)
}

// energySpent returns the energy between two readings of the same counters; nil
// if unknown. A counter that is lower afterwards has wrapped once: at 200 W the
// usual 262 kJ take 20 minutes, so a trial sees at most one wrap.
func energySpent(before, after []Energy) *float64 {
	if len(before) == 0 || len(before) != len(after) {
		return nil
	}
	var sum float64
	for i, a := range after {
		b := before[i]
		if a.Zone != b.Zone || a.Range != b.Range {
			return nil
		}
		d := a.Joules - b.Joules
		if d < 0 {
			d += a.Range
		}
		// A foreign journal may contain any value.
		if !(d >= 0 && d < 1e18) || a.Range > 0 && b.Joules > a.Range {
			return nil
		}
		sum += d
	}
	return &sum
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
