//go:build !linux && !freebsd && !netbsd && !openbsd && !dragonfly && !illumos

package probe

// ReadHost reads the counters of this system. On this one none of them are
// read yet: each is nil, which is "unavailable".
func ReadHost(cpus []int) Counters {
	c := Counters{CPUSet: cpus}
	c.readClocks()
	return c
}
