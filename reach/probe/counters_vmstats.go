//go:build freebsd || dragonfly

package probe

import "bakeoff/base/facts"

// readSystem reads what is specific to this system.
func readSystem(c *facts.Counters) map[string]string {
	if mhz := decodeCount(sysctl("dev.cpu.0.freq")); mhz != nil {
		c.FrequencyHz = new(*mhz * 1e6)
	}
	return freeBSDCounters(sysctl, c)
}

// cpuTime is the time of these CPUs, or of all if none are given. kern.cp_times
// has the time of single CPUs.
func cpuTime(cpus []int) *facts.CPU {
	if len(cpus) == 0 {
		return decodeCPTime(sysctl("kern.cp_time"), statHz(), cpStates)
	}
	return decodeCPTimes(sysctl("kern.cp_times"), statHz(), cpStates, cpus)
}
