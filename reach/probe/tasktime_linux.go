package probe

import (
	"os"
	"path/filepath"
	"sync"

	"bakeoff/base/facts"
)

// readTaskTime returns how many nanoseconds the given CPUs, or all if none are
// given, ran tasks, and the source. It prefers cpuacct, which includes tasks
// that are running.
func readTaskTime(cpus []int) (ns *int64, source string) {
	if a := account(); a.usage != "" {
		if ns := parseUsagePerCPU(readText(a.usage), a.possible, cpus); ns != nil {
			return ns, facts.SourceCPUAcct
		}
	}
	stat := readText("/proc/schedstat")
	if len(stat) >= fileBytes {
		return nil, facts.SourceSchedstat // truncated: the last CPUs are missing
	}
	return parseSchedstat(stat, cpus), facts.SourceSchedstat
}

// cpuAccount is the file with the time that all tasks of the machine used on
// each CPU ("" if there is none), and the list of possible CPUs.
type cpuAccount struct{ usage, possible string }

// account is found once, because cgroup mounts do not change.
var account = sync.OnceValue(func() cpuAccount {
	for _, dir := range accountMounts(parseMounts(readText("/proc/self/mountinfo"))) {
		if wholeMachine(dir) {
			return cpuAccount{filepath.Join(dir, "cpuacct.usage_percpu"), readText("/sys/devices/system/cpu/possible")}
		}
	}
	return cpuAccount{}
})

// wholeMachine reports whether dir is the root of a cgroup v1 hierarchy. A
// container may see its own cgroup there, through a mount or a namespace, and
// would count itself as the machine. Only the real root has a release agent.
//
// Source: Documentation/admin-guide/cgroup-v1/cgroups.rst of Linux, 1.4.
func wholeMachine(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, "release_agent"))
	return err == nil
}
