//go:build !linux && !freebsd && !openbsd && !netbsd && !dragonfly

package probe

import (
	"runtime"
	"strconv"
)

// system tells what the runtime knows.
func (c *collector) system(volumes []string) {
	c.set("cpu.count", strconv.Itoa(runtime.NumCPU()), "")
	for _, name := range []string{"os", "cmdline", "cpu.model", "cpu.flags", "cpu.microcode", "mitigation", "clocksource", "governor", "memory", "libc"} {
		c.set(name, "", "is not read on "+runtime.GOOS)
	}
	for _, v := range append([]string{"/"}, volumes...) {
		c.set("fs."+v, "", "is not read on "+runtime.GOOS)
	}
}

func memory() string { return "" }
