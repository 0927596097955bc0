package probe

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"bakeoff/base/facts"
)

// The layout agrees with the one that x/sys/unix generated from the system's
// headers; otherwise this does not compile.
var (
	_ = [1]struct{}{}[unsafe.Offsetof(unix.Uvmexp{}.Faults)-4*33]
	_ = [1]struct{}{}[unsafe.Offsetof(unix.Uvmexp{}.Intrs)-4*35]
	_ = [1]struct{}{}[unsafe.Offsetof(unix.Uvmexp{}.Swtch)-4*36]
	_ = [1]struct{}{}[unsafe.Offsetof(unix.Uvmexp{}.Pageins)-4*39]
	_ = [1]struct{}{}[unsafe.Offsetof(unix.Uvmexp{}.Pgswapin)-4*42]
	_ = [1]struct{}{}[unsafe.Offsetof(unix.Uvmexp{}.Pgswapout)-4*43]
	_ = [1]struct{}{}[unsafe.Offsetof(unix.Uvmexp{}.Forks)-4*44]
	_ = [1]struct{}{}[unsafe.Offsetof(unix.Uvmexp{}.Fltget)-4*63]
)

// readSystem reads what is specific to this system.
func readSystem(c *facts.Counters) map[string]string {
	return openBSDUvmexp.read(sysctl(openBSDUvmexp.name), c)
}

// cpuTime is the time of these CPUs, or of all if none are given. kern.cp_time2
// has the time of one CPU. kern.cp_time is the mean of all CPUs, so it is used
// only by a kernel without the other, and then for the only CPU.
//
// Source: sys/kern/kern_sysctl.c of OpenBSD, KERN_CPTIME and sysctl_cptime2.
func cpuTime(cpus []int) *facts.CPU {
	hz := statHz()
	total := eachCPTime(func(cpu int) []byte {
		b, err := unix.SysctlRaw("kern.cp_time2", cpu)
		if err != nil {
			return nil
		}
		return b
	}, hz, cpStates, cpus)
	if n, err := unix.SysctlUint32("hw.ncpufound"); total == nil && len(cpus) == 0 && err == nil && n == 1 {
		return decodeCPTime(sysctl("kern.cp_time"), hz, cpStates)
	}
	return total
}
