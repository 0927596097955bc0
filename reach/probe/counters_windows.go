package probe

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/windows"

	"bakeoff/base/facts"
)

// ReadHost reads the counters of this system: the times of the given CPUs, or of all if
// none are given. Every other counter is nil, "unavailable".
func ReadHost(cpus []int) facts.Counters {
	c := facts.Counters{CPUSet: cpus}
	readClocks(&c)
	b := make([]byte, 48*max(64, runtime.NumCPU())) // 64 CPUs are a group, the most that is returned
	var size uint32
	err := windows.NtQuerySystemInformation(windows.SystemProcessorPerformanceInformation, unsafe.Pointer(&b[0]),
		uint32(len(b)), &size)
	reasons := map[string]string{}
	if err != nil {
		reasons["cpu"] = "NtQuerySystemInformation: " + err.Error()
	} else {
		c.CPU = decodeProcessorTimes(b[:min(int(size), len(b))], cpus)
	}
	c.SetTaskTime(nil, "")
	c.ExplainMissing(reasons, "not read on Windows")
	return c
}
