//go:build freebsd || netbsd || openbsd || dragonfly

package probe

import "golang.org/x/sys/unix"

// ReadHost reads the counters of this system: CPU time, and whatever else
// sysctl provides. kern.cp_times has the time of single CPUs, on FreeBSD only;
// elsewhere CPU is nil if cpus is not empty.
//
// Source: sysctl(3) of each system; sys/resource.h of FreeBSD and DragonFly,
// sys/sched.h of NetBSD and OpenBSD for the order of the states.
func ReadHost(cpus []int) Counters {
	c := Counters{CPUSet: cpus}
	c.readClocks()
	c.CPU = cpuTime(cpus)
	c.setTaskTime(nil, "")
	if b, err := unix.SysctlRaw("dev.cpu.0.freq"); err == nil { // FreeBSD, in MHz
		if mhz := decodeCount(b); mhz != nil {
			hz := *mhz * 1e6
			c.FrequencyHz = &hz
		}
	}
	for name, to := range map[string]**float64{
		"vm.stats.sys.v_swtch":     &c.ContextSwitches,
		"vm.stats.sys.v_intr":      &c.Interrupts,
		"vm.stats.vm.v_forks":      &c.Forks,
		"vm.stats.vm.v_vm_faults":  &c.MinorFaults, // all faults; the major ones are subtracted below
		"vm.stats.vm.v_io_faults":  &c.MajorFaults,
		"vm.stats.vm.v_swappgsin":  &c.SwapIn,
		"vm.stats.vm.v_swappgsout": &c.SwapOut,
	} {
		if b, err := unix.SysctlRaw(name); err == nil {
			*to = decodeCount(b)
		}
	}
	c.MinorFaults = spent(c.MajorFaults, c.MinorFaults)
	return c
}

// cpuTime is the time of these CPUs, or of all if none are given.
func cpuTime(cpus []int) *CPU {
	clock, err := unix.SysctlClockinfo("kern.clockrate")
	if err != nil {
		return nil
	}
	hz := clock.Stathz
	if hz == 0 {
		hz = clock.Hz
	}
	if len(cpus) == 0 {
		b, err := unix.SysctlRaw("kern.cp_time")
		if err != nil {
			return nil
		}
		return decodeCPTime(b, int(hz), cpStates)
	}
	b, err := unix.SysctlRaw("kern.cp_times")
	if err != nil {
		return nil
	}
	return decodeCPTimes(b, int(hz), cpStates, cpus)
}
