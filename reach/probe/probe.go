// Package probe reads counters and facts from an operating system: what it has
// spent so far (Counters), and what it is (Fingerprint).
//
// A nil pointer means "unavailable": unknown is never 0.
package probe

import "bakeoff/base/unit"

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

// Usage is what one finished child process spent, from its rusage.
type Usage struct {
	UserSeconds         float64  `json:"user_seconds"`
	SystemSeconds       float64  `json:"system_seconds"`
	MaxRSSBytes         *float64 `json:"max_rss_bytes"`
	MinorFaults         *float64 `json:"minor_faults"`
	MajorFaults         *float64 `json:"major_faults"`
	VoluntarySwitches   *float64 `json:"voluntary_switches"`
	InvoluntarySwitches *float64 `json:"involuntary_switches"`
	InBlocks            *float64 `json:"in_blocks"`
	OutBlocks           *float64 `json:"out_blocks"`
}

// Plus is the usage of two programs that ran one after another: their sums, and the
// larger of their resident sets. What is unknown of one is unknown of both.
func (u Usage) Plus(v Usage) Usage {
	join := func(a, b *float64, of func(float64, float64) float64) *float64 {
		if a == nil || b == nil {
			return nil
		}
		c := of(*a, *b)
		return &c
	}
	add := func(a, b float64) float64 { return a + b }
	return Usage{
		UserSeconds: u.UserSeconds + v.UserSeconds, SystemSeconds: u.SystemSeconds + v.SystemSeconds,
		MaxRSSBytes: join(u.MaxRSSBytes, v.MaxRSSBytes, func(a, b float64) float64 { return max(a, b) }),
		MinorFaults: join(u.MinorFaults, v.MinorFaults, add), MajorFaults: join(u.MajorFaults, v.MajorFaults, add),
		VoluntarySwitches:   join(u.VoluntarySwitches, v.VoluntarySwitches, add),
		InvoluntarySwitches: join(u.InvoluntarySwitches, v.InvoluntarySwitches, add),
		InBlocks:            join(u.InBlocks, v.InBlocks, add), OutBlocks: join(u.OutBlocks, v.OutBlocks, add),
	}
}

// Fingerprint describes an environment, so that differences can be found. An
// empty string or nil means "unavailable".
type Fingerprint struct {
	Schema string `json:"schema"` // bakeoff/fingerprint/v1
	// Facts holds name → value: kernel, cmdline, arch, cpu.model,
	// cpu.count, cpu.microcode, mitigation.<name>, clocksource, governor,
	// memory, fs.<mount>, libc, compiler, openssl, limit.<name>, os, and the
	// instruction sets in use, isa.go and isa.openssl.
	// Missing facts are named in Unavailable.
	Facts       map[string]string `json:"facts"`
	Unavailable map[string]string `json:"unavailable"` // name → reason
}

// FingerprintSchema is the schema of a Fingerprint.
const FingerprintSchema = "bakeoff/fingerprint/v1"

// Limits is what an environment may use, as enforced.
type Limits struct {
	CPUs   *int        `json:"cpus"`
	CPUSet []int       `json:"cpu_set"` // of the host
	Memory *unit.Bytes `json:"memory_bytes"`
	// Quota is how many CPUs' worth of time it may use; nil is no limit.
	Quota *float64 `json:"cpu_quota,omitempty"`
	// Read and Write limit the bytes per second from and to the disk of its
	// directory; nil is no limit.
	Read  *unit.Bytes `json:"read_bytes_per_second,omitempty"`
	Write *unit.Bytes `json:"write_bytes_per_second,omitempty"`
	// NotEnforced names requested limits that the technology cannot
	// enforce, with the reason; each is a confounder.
	NotEnforced map[string]string `json:"not_enforced,omitempty"`
}
