//go:build freebsd || openbsd || netbsd || dragonfly

package probe

import (
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// system records facts from sysctl. The names are those of sysctl(8) of each
// system; one that a system lacks is unavailable there.
func (c *collector) system(volumes []string) {
	for fact, name := range map[string]string{
		"cpu.model":   "hw.model",
		"clocksource": "kern.timecounter.hardware",
	} {
		v, err := unix.Sysctl(name)
		if err != nil {
			v = ""
		}
		c.set(fact, v, "sysctl "+name+" has no value")
	}
	c.set("os", runtime.GOOS+" "+release(), "")
	c.set("cpu.count", strconv.Itoa(runtime.NumCPU()), "")
	c.set("memory", memory(), "sysctl hw.physmem has no value")
	for _, name := range []string{"cmdline", "cpu.flags", "cpu.microcode", "mitigation", "governor", "libc"} {
		c.set(name, "", "not read on "+runtime.GOOS)
	}
	for _, v := range append([]string{"/"}, volumes...) {
		c.set("fs."+v, fileSystem(v), "the system does not report it")
	}
}

func release() string {
	v, _ := unix.Sysctl("kern.osrelease")
	return v
}

func memory() string {
	for _, name := range []string{"hw.physmem64", "hw.physmem"} {
		if n, err := unix.SysctlUint64(name); err == nil && n > 0 {
			return strconv.FormatUint(n, 10) + " B"
		}
	}
	return ""
}
