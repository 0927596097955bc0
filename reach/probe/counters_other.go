//go:build !linux && !freebsd && !netbsd && !openbsd && !dragonfly && !illumos

package probe

import "runtime"

// ReadHost reads the counters of this system. On this one only the clocks are
// read: every counter is nil, "unavailable".
func ReadHost(cpus []int) Counters {
	c := Counters{CPUSet: cpus}
	c.readClocks()
	c.explainAll(nil, "not read on "+runtime.GOOS)
	return c
}
