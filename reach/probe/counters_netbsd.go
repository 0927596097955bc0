package probe

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"bakeoff/base/facts"
)

// The layout agrees with the one that x/sys/unix generated from the system's
// headers; otherwise this does not compile.
var (
	_ = [1]struct{}{}[unsafe.Offsetof(unix.Uvmexp{}.Faults)-8*24]
	_ = [1]struct{}{}[unsafe.Offsetof(unix.Uvmexp{}.Intrs)-8*26]
	_ = [1]struct{}{}[unsafe.Offsetof(unix.Uvmexp{}.Swtch)-8*27]
	_ = [1]struct{}{}[unsafe.Offsetof(unix.Uvmexp{}.Pageins)-8*30]
	_ = [1]struct{}{}[unsafe.Offsetof(unix.Uvmexp{}.Pgswapin)-8*33]
	_ = [1]struct{}{}[unsafe.Offsetof(unix.Uvmexp{}.Pgswapout)-8*34]
	_ = [1]struct{}{}[unsafe.Offsetof(unix.Uvmexp{}.Forks)-8*35]
	_ = [1]struct{}{}[unsafe.Offsetof(unix.Uvmexp{}.Fltget)-8*53]
)

// readSystem reads what is specific to this system.
//
// The kernel returns no more of the table than the caller has room for, and nothing to a
// caller that asks for its size: the size of the structure is the question.
//
// Source: sys/uvm/uvm_meter.c of NetBSD, sysctl_vm_uvmexp2.
func readSystem(c *facts.Counters) map[string]string {
	u, err := unix.SysctlUvmexp(netBSDUvmexp.name)
	if err != nil {
		return netBSDUvmexp.lacking(err.Error())
	}
	return netBSDUvmexp.read(unsafe.Slice((*byte)(unsafe.Pointer(u)), unix.SizeofUvmexp), c)
}

// cpuTime is the time of these CPUs, or of all if none are given. With the
// number of a CPU, kern.cp_time has the time of that one.
//
// Source: sys/kern/init_sysctl.c of NetBSD, sysctl_kern_cptime.
func cpuTime(cpus []int) *facts.CPU {
	if len(cpus) == 0 {
		return decodeCPTime(sysctl("kern.cp_time"), statHz(), cpStates)
	}
	return eachCPTime(func(cpu int) []byte {
		b, err := unix.SysctlRaw("kern.cp_time", cpu)
		if err != nil {
			return nil
		}
		return b
	}, statHz(), cpStates, cpus)
}
