package probe

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

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
