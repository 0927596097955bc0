// Package probe reads what an operating system says about itself: the
// counters of what it spent, and the fingerprint of what it is.
//
// A pointer that is nil means "unavailable": not known is never 0.
package probe

import "bakeoff/base/unit"

// Counters is what one operating system, or one part of it, has spent since
// it started. The difference of two is what was spent in between.
type Counters struct {
	// AtNS is the reader's monotonic clock, in nanoseconds.
	AtNS int64 `json:"at_ns"`
	// WallNS is the wall clock, RawNS the clock that nothing corrects, both
	// read with AtNS, each in nanoseconds from an origin of its own: the three
	// agree on what passed unless somebody set a clock. ClockSource names the
	// hardware behind them, "" where it is not known.
	WallNS      *int64 `json:"wall_ns,omitempty"`
	RawNS       *int64 `json:"raw_ns,omitempty"`
	ClockSource string `json:"clock_source,omitempty"`
	// CPU holds seconds by state, summed over CPUs (the CPUs in CPUSet, when
	// it is not empty).
	CPU    *CPU  `json:"cpu"`
	CPUSet []int `json:"cpu_set,omitempty"`
	// TaskNS is for how many nanoseconds these CPUs ran tasks, nil where the
	// system tells it in ticks only; CPUSource is what says for how long they
	// were busy (Source…), "" where nothing does and in readings of before
	// there was TaskNS.
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
	// ThrottledSeconds is time in which a CPU quota held the subject back.
	ThrottledSeconds *float64 `json:"throttled_seconds"`
	// ThermalThrottles counts events in which the hardware slowed down.
	ThermalThrottles *float64 `json:"thermal_throttles"`
	// FrequencyHz is the mean current frequency; a level, not a count.
	FrequencyHz *float64 `json:"frequency_hz"`
	// Joules is the energy of the packages, from RAPL, or what a meter says.
	Joules *float64 `json:"joules"`
	// Energy are RAPL's counters, one a package, of which Joules is the sum:
	// each begins again at 0 by itself. Empty where Joules is a meter's.
	Energy []Energy `json:"energy,omitempty"`
	// Scope is the part of the machine that was charged separately (the
	// control group of the environment, hypervisor included), nil where it
	// cannot be told apart.
	Scope *Scope `json:"scope"`
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

// Scope is what one control group, or a like part, has spent.
type Scope struct {
	CPUSeconds  *float64 `json:"cpu_seconds"`
	MemoryPeak  *float64 `json:"memory_peak_bytes"` // a level
	MemoryNow   *float64 `json:"memory_bytes"`      // a level
	OOMKills    *float64 `json:"oom_kills"`
	MajorFaults *float64 `json:"major_faults"`
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

// Fingerprint is what an environment is, for telling what differs. An empty
// string or nil means "unavailable".
type Fingerprint struct {
	Schema string `json:"schema"` // bakeoff/fingerprint/v1
	// Facts holds name → value: kernel, cmdline, arch, cpu.model,
	// cpu.count, cpu.microcode, mitigation.<name>, clocksource, governor,
	// memory, fs.<mount>, libc, compiler, openssl, limit.<name>, os.
	// Facts that a system cannot give are absent and named in Unavailable.
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
	// Quota is how many CPUs' worth of time it may use; nil: all of theirs.
	Quota *float64 `json:"cpu_quota,omitempty"`
	// Read and Write are how many bytes a second it may read from and write to
	// the disk of its directory; nil: as many as it can.
	Read  *unit.Bytes `json:"read_bytes_per_second,omitempty"`
	Write *unit.Bytes `json:"write_bytes_per_second,omitempty"`
	// NotEnforced names limits that were asked for and that the technology
	// cannot hold, with the reason: each is a confounder.
	NotEnforced map[string]string `json:"not_enforced,omitempty"`
}
