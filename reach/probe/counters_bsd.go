//go:build freebsd || netbsd || openbsd || dragonfly

package probe

import (
	"runtime"

	"golang.org/x/sys/unix"

	"bakeoff/base/facts"
)

// ReadHost reads the counters of this system: the CPU time of the given CPUs
// (of all if none are given), and what else sysctl provides, for the whole
// system. What cannot be read is nil, and Unavailable says why.
//
// Source: sysctl(3) of each system; sys/resource.h of FreeBSD and DragonFly,
// sys/sched.h of NetBSD and OpenBSD for the order of the states.
func ReadHost(cpus []int) facts.Counters {
	c := facts.Counters{CPUSet: cpus}
	readClocks(&c)
	c.CPU = cpuTime(cpus)
	c.SetTaskTime(nil, "")
	reasons := readSystem(&c)
	reasons["cpu"] = "sysctl kern.cp_time has no value for these CPUs"
	c.ExplainMissing(reasons, "not read on "+runtime.GOOS)
	return c
}

// sysctl returns the value of a sysctl; nil if it does not exist.
func sysctl(name string) []byte {
	b, err := unix.SysctlRaw(name)
	if err != nil {
		return nil
	}
	return b
}

// statHz is how many ticks of kern.cp_time are a second; 0 if unknown.
func statHz() int {
	clock, err := unix.SysctlClockinfo("kern.clockrate")
	if err != nil {
		return 0
	}
	if clock.Stathz != 0 {
		return int(clock.Stathz)
	}
	return int(clock.Hz)
}
