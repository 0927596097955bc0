//go:build !linux && !freebsd && !openbsd && !netbsd && !dragonfly && !windows

package probe

import (
	"runtime"
	"strconv"
)

// system records what the Go runtime knows.
func (c *collector) system(volumes []string) {
	c.set("cpu.count", strconv.Itoa(runtime.NumCPU()), "")
	for _, name := range []string{"os", "cmdline", "cpu.model", "cpu.flags", "cpu.microcode", "mitigation",
		"clocksource", "governor", "memory", "libc"} {
		c.set(name, "", "not read on "+runtime.GOOS)
	}
	for _, v := range append([]string{"/"}, volumes...) {
		c.set("fs."+v, "", "not read on "+runtime.GOOS)
	}
}

func memory() string { return "" }
