package probe

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// What may say for how long CPUs were busy: the values of Counters.CPUSource.
//
// Ticks are a sample: whoever runs when one falls is charged with all of it, so
// that work of a few ticks is told badly or not at all. The others are times
// that the scheduler takes whenever it changes what a CPU runs, in nanoseconds.
// They hold tasks alone (a virtual machine's CPUs are tasks of its host), and
// not the interrupts that a CPU takes while it is idle, which ticks have a part
// of. What runs when they are read is charged up to the last tick in cpuacct,
// and up to its last change in schedstat: for a task that computes without a
// break from one reading to the next, schedstat may say too little or too much.
// Interrupts taken, and time stolen, while a task runs are in schedstat and,
// with a kernel that tells them apart, not in cpuacct.
const (
	SourceTicks     = "ticks"     // the states of CPU: /proc/stat and its like
	SourceSchedstat = "schedstat" // Linux, /proc/schedstat
	SourceCPUAcct   = "cpuacct"   // Linux, control groups version 1
	SourceKstat     = "kstat"     // illumos, microstates; interrupts included
)

// Busy returns for how many seconds the CPUs were busy, and what says so. c is
// a difference that Since returned. ok is false where nothing says it.
func (c Counters) Busy() (seconds float64, source string, ok bool) {
	switch {
	// Where no task ran, what ticks there are were interrupts.
	case c.TaskNS != nil && *c.TaskNS > 0:
		return float64(*c.TaskNS) / 1e9, c.CPUSource, true
	case c.CPU != nil:
		return c.CPU.Busy(), SourceTicks, true
	}
	return 0, "", false
}

// setTaskTime writes down what tells the time of CPUs: ns by source, or ticks
// where ns is nil.
func (c *Counters) setTaskTime(ns *int64, source string) {
	switch {
	case ns != nil:
		c.TaskNS, c.CPUSource = ns, source
	case c.CPU != nil:
		c.CPUSource = SourceTicks
	}
}

// tasksSince writes into the difference d, of which c is the end, for how long
// tasks ran. Two sources do not count the same.
func (c Counters) tasksSince(before Counters, d *Counters) {
	d.TaskNS, d.CPUSource = nil, ""
	var ns *int64
	if before.CPUSource == c.CPUSource {
		if ns = passed(before.TaskNS, c.TaskNS); ns != nil && *ns < 0 {
			ns = nil
		}
	}
	d.setTaskTime(ns, c.CPUSource)
}

// schedstatVersions are those whose lines of CPUs are read here. Between them
// only the lines of domains differ.
var schedstatVersions = []string{"15", "16", "17"}

// parseSchedstat reads from /proc/schedstat for how many nanoseconds the CPUs
// listed, all when none is, ran tasks; nil when it is of another version, one
// of them is not there, or has never run a task.
//
// Source: Documentation/scheduler/sched-stats.rst of Linux, whose unit was
// mended late: since 2.6.23 these times are nanoseconds (kernel/sched/stats.h).
func parseSchedstat(text string, cpus []int) *int64 {
	version, lines, _ := strings.Cut(text, "\n")
	if v, ok := strings.CutPrefix(version, "version "); !ok || !slices.Contains(schedstatVersions, v) {
		return nil
	}
	times := map[int]int64{}
	for line := range strings.Lines(lines) {
		f := strings.Fields(line)
		if len(f) != 10 || !strings.HasPrefix(f[0], "cpu") {
			continue
		}
		n, err := strconv.Atoi(f[0][len("cpu"):])
		ns, err2 := strconv.ParseInt(f[7], 10, 64)
		if err != nil || err2 != nil || ns < 0 {
			return nil
		}
		times[n] = ns
	}
	return sumTimes(times, cpus)
}

// parseUsagePerCPU reads from cpuacct.usage_percpu for how many nanoseconds the
// CPUs listed, all when none is, ran tasks of a control group; nil when one of
// them is not there, or has never run a task. The file has a number for each
// CPU that there could be, in their order: possible, from sysfs, must be
// "0-…", or numbers would be taken for those of other CPUs.
//
// Source: Documentation/admin-guide/cgroup-v1/cpuacct.rst of Linux.
func parseUsagePerCPU(text, possible string, cpus []int) *int64 {
	f := strings.Fields(text)
	want := "0"
	if len(f) > 1 {
		want = "0-" + strconv.Itoa(len(f)-1)
	}
	if strings.TrimSpace(possible) != want {
		return nil
	}
	times := map[int]int64{}
	for n, s := range f {
		ns, err := strconv.ParseInt(s, 10, 64)
		if err != nil || ns < 0 {
			return nil
		}
		// One that never came up is possible, and does not run.
		if ns > 0 || slices.Contains(cpus, n) {
			times[n] = ns
		}
	}
	return sumTimes(times, cpus)
}

// sumTimes adds the times of some CPUs, of all when none is listed; nil when
// one is missing or 0, or they are more than can be told.
func sumTimes(times map[int]int64, cpus []int) *int64 {
	if len(cpus) == 0 {
		for n := range times {
			cpus = append(cpus, n)
		}
	}
	var sum int64
	for _, n := range cpus {
		ns := times[n]
		if ns <= 0 || sum > math.MaxInt64-ns {
			return nil
		}
		sum += ns
	}
	if sum == 0 {
		return nil
	}
	return &sum
}

// accountMounts returns where the control groups of version 1 that account for
// CPUs are mounted, of the mounts of a system.
func accountMounts(all mounts) (points []string) {
	for _, m := range all {
		if m.kind == "cgroup" && slices.Contains(strings.Split(m.options, ","), "cpuacct") {
			points = append(points, m.point)
		}
	}
	return points
}
