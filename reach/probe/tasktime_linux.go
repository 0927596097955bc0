package probe

import (
	"os"
	"path/filepath"
	"sync"
)

// readTaskTime returns for how many nanoseconds the CPUs listed, all when none
// is, ran tasks, and what says so. cpuacct comes first, as it knows of those
// that run just now.
func readTaskTime(cpus []int) (ns *int64, source string) {
	if a := account(); a.usage != "" {
		if ns := parseUsagePerCPU(text(a.usage), a.possible, cpus); ns != nil {
			return ns, SourceCPUAcct
		}
	}
	stat := text("/proc/schedstat")
	if len(stat) >= fileBytes {
		return nil, SourceSchedstat // cut off: CPUs are missing at its end
	}
	return parseSchedstat(stat, cpus), SourceSchedstat
}

// cpuAccount is the file that says what the whole machine's tasks had of each
// CPU, "" if there is none, and which CPUs there can be.
type cpuAccount struct{ usage, possible string }

// account is found once: mounts of control groups stay.
var account = sync.OnceValue(func() cpuAccount {
	for _, dir := range accountMounts(parseMounts(text("/proc/self/mountinfo"))) {
		if wholeMachine(dir) {
			return cpuAccount{filepath.Join(dir, "cpuacct.usage_percpu"), text("/sys/devices/system/cpu/possible")}
		}
	}
	return cpuAccount{}
})

// wholeMachine tells whether dir is the root of a hierarchy of control groups
// of version 1. A container may see its own group in that place, by a mount of
// its own or by a namespace, and would count itself for the machine. Only the
// real root has a release agent.
//
// Source: Documentation/admin-guide/cgroup-v1/cgroups.rst of Linux, 1.4.
func wholeMachine(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, "release_agent"))
	return err == nil
}
