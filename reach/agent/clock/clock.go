//go:build linux || netbsd || freebsd

// Package clock reads the monotonic clock of the system's kernel.
package clock

import "golang.org/x/sys/unix"

// Monotonic is the time since the clock of the system's kernel started, in nanoseconds; 0
// if it cannot be read.
func Monotonic() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(monotonic, &ts) != nil {
		return 0
	}
	return max(1, ts.Nano()-start)
}
