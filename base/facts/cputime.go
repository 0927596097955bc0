package facts

// The sources of CPU busy time: the values of Counters.CPUSource.
//
// Ticks are samples: the task that runs at a tick is charged with all of it, so
// work of a few ticks is measured badly or not at all. The other sources are
// times in nanoseconds that the scheduler takes whenever a CPU switches tasks.
// They count only tasks (the CPUs of a virtual machine are tasks of its host),
// not the interrupts that an idle CPU handles, which ticks count in part. A
// running task is charged up to the last tick in cpuacct, and up to its last
// switch in schedstat: for a task that computes without a break between two
// readings, schedstat may be too low or too high. schedstat includes interrupts
// and stolen time during a task; cpuacct excludes them if the kernel separates
// them.
const (
	SourceTicks     = "ticks"     // the states of CPU: /proc/stat and similar
	SourceSchedstat = "schedstat" // Linux, /proc/schedstat
	SourceCPUAcct   = "cpuacct"   // Linux, control groups version 1
	SourceKstat     = "kstat"     // illumos, microstates; interrupts included
)

// Busy returns how many seconds the CPUs were busy, and the source. c is a
// difference that Since returned. ok is false if there is no source.
func (c Counters) Busy() (seconds float64, source string, ok bool) {
	switch {
	// If no task ran, the ticks are interrupts.
	case c.TaskNS != nil && *c.TaskNS > 0:
		return float64(*c.TaskNS) / 1e9, c.CPUSource, true
	case c.CPU != nil:
		return c.CPU.Busy(), SourceTicks, true
	}
	return 0, "", false
}

// SetTaskTime records the busy time of CPUs: ns from source, or ticks if ns is
// nil.
func (c *Counters) SetTaskTime(ns *int64, source string) {
	switch {
	case ns != nil:
		c.TaskNS, c.CPUSource = ns, source
	case c.CPU != nil:
		c.CPUSource = SourceTicks
	}
}

// tasksSince writes into the difference d, whose end is c, how long tasks ran.
// Two different sources cannot be subtracted.
func (c Counters) tasksSince(before Counters, d *Counters) {
	d.TaskNS, d.CPUSource = nil, ""
	var ns *int64
	if before.CPUSource == c.CPUSource {
		if ns = timePassed(before.TaskNS, c.TaskNS); ns != nil && *ns < 0 {
			ns = nil
		}
	}
	d.SetTaskTime(ns, c.CPUSource)
}
