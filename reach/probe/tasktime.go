package probe

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

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

// setTaskTime records the busy time of CPUs: ns from source, or ticks if ns is
// nil.
func (c *Counters) setTaskTime(ns *int64, source string) {
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
		if ns = passed(before.TaskNS, c.TaskNS); ns != nil && *ns < 0 {
			ns = nil
		}
	}
	d.setTaskTime(ns, c.CPUSource)
}

// schedstatVersions are the supported versions. Between them only the lines of
// domains differ.
var schedstatVersions = []string{"15", "16", "17"}

// parseSchedstat reads from /proc/schedstat how many nanoseconds the given
// CPUs, or all if none are given, ran tasks. It returns nil for another
// version, and if one of the CPUs is missing or has never run a task.
//
// Source: Documentation/scheduler/sched-stats.rst of Linux. Its unit was
// corrected late: since 2.6.23 these times are nanoseconds
// (kernel/sched/stats.h).
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

// parseUsagePerCPU reads from cpuacct.usage_percpu how many nanoseconds the
// given CPUs, or all if none are given, ran tasks of a cgroup. It returns nil
// if one of them is missing or has never run a task. The file has one number
// for each possible CPU, in order: possible, from sysfs, must be "0-…", or a
// number could belong to another CPU.
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
		// A possible CPU may never have come online.
		if ns > 0 || slices.Contains(cpus, n) {
			times[n] = ns
		}
	}
	return sumTimes(times, cpus)
}

// sumTimes adds up the times of the given CPUs, or of all if none are given;
// nil if one is missing or 0, or if the sum overflows.
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

// accountMounts returns the mount points of the cgroup v1 hierarchies that
// account for CPUs.
func accountMounts(all mounts) (points []string) {
	for _, m := range all {
		if m.kind == "cgroup" && slices.Contains(strings.Split(m.options, ","), "cpuacct") {
			points = append(points, m.point)
		}
	}
	return points
}
