//go:build linux || netbsd || freebsd

package agent

import "golang.org/x/sys/unix"

// monotonic is the time since the clock of the system's kernel started, in nanoseconds; 0
// if it cannot be read.
func monotonic() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(clockMonotonic, &ts) != nil {
		return 0
	}
	return max(1, ts.Nano()-clockStart)
}
