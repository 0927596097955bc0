//go:build freebsd || netbsd || openbsd

package probe

import "golang.org/x/sys/unix"

// ReadHost reads the counters of this system: CPU time of all CPUs, and what
// else sysctl tells. Time of single CPUs is not read here, so it is nil when
// some are listed.
//
// Source: sysctl(3) of each system; sys/resource.h of FreeBSD, sys/sched.h of
// NetBSD and OpenBSD for the order of the states.
func ReadHost(cpus []int) Counters {
	c := Counters{CPUSet: cpus}
	c.readClocks()
	if clock, err := unix.SysctlClockinfo("kern.clockrate"); err == nil && len(cpus) == 0 {
		if b, err := unix.SysctlRaw("kern.cp_time"); err == nil {
			hz := clock.Stathz
			if hz == 0 {
				hz = clock.Hz
			}
			c.CPU = decodeCPTime(b, int(hz), cpStates)
		}
	}
	for name, to := range map[string]**float64{
		"vm.stats.sys.v_swtch":     &c.ContextSwitches,
		"vm.stats.sys.v_intr":      &c.Interrupts,
		"vm.stats.vm.v_forks":      &c.Forks,
		"vm.stats.vm.v_swappgsin":  &c.SwapIn,
		"vm.stats.vm.v_swappgsout": &c.SwapOut,
	} {
		if b, err := unix.SysctlRaw(name); err == nil {
			*to = decodeCount(b)
		}
	}
	return c
}
