//go:build !linux && !freebsd && !netbsd && !openbsd && !dragonfly && !illumos && !windows

package probe

import "runtime"

import "bakeoff/base/facts"

// ReadHost reads the counters of this system. On this one only the clocks are
// read: every counter is nil, "unavailable".
func ReadHost(cpus []int) facts.Counters {
	c := facts.Counters{CPUSet: cpus}
	readClocks(&c)
	c.ExplainMissing(nil, "not read on "+runtime.GOOS)
	return c
}
