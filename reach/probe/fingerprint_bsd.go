//go:build freebsd || openbsd || netbsd || dragonfly

package probe

import (
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// system records facts from sysctl. The names are those of sysctl(8) of each
// system; one that a system lacks is unavailable there.
func (c *collector) system(volumes []string) {
	c.set("cpu.model", processorModel(sysctl), "sysctl hw.model has no value")
	c.set("clocksource", firstText(sysctl, "kern.timecounter.hardware"), "sysctl kern.timecounter.hardware has no value")
	c.set("os", runtime.GOOS+" "+release(), "")
	c.set("cpu.count", strconv.Itoa(runtime.NumCPU()), "")
	c.set("memory", memory(), "sysctl hw.physmem has no value")
	c.set("cmdline", "", runtime.GOOS+" has no sysctl for what its loader passed to the kernel")
	if what := bootArguments(settings(sysctl, bootSettings[runtime.GOOS])); what != "" {
		c.set("booted", what, "")
	}
	c.set("cpu.flags", processorFlags(),
		"the processor lists its features to the kernel of "+runtime.GOOS+" only; see isa.go for what programs use")
	c.mitigations()
	c.set("libc", libc(), "there is no libc.so.MAJOR in /lib or /usr/lib")
	policy, _ := unix.Sysctl("hw.perfpolicy") // OpenBSD
	c.set("governor", policy, runtime.GOOS+" has no sysctl for it")
	c.set("cpu.microcode", "", runtime.GOOS+" has no sysctl for it")
	for _, v := range append([]string{"/"}, volumes...) {
		c.set("fs."+v, fileSystem(v), "the system does not report it")
	}
}

// mitigations records the settings against faults of processors.
func (c *collector) mitigations() {
	found := settings(sysctl, mitigationSettings[runtime.GOOS])
	for fact, value := range found {
		c.set(fact, value, "")
	}
	if len(found) == 0 {
		c.set("mitigation", "", runtime.GOOS+" has no sysctl for it on this processor")
	}
}

// libc is the C library that programs here would use.
func libc() string {
	var names []string
	for _, dir := range []string{"/lib", "/usr/lib"} {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	if name := libcOf(names); name != "" {
		return runtime.GOOS + " " + name
	}
	return ""
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
