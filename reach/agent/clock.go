//go:build linux || netbsd || freebsd

package agent

import "golang.org/x/sys/unix"

// monotonic is the monotonic clock of the system, which starts with its kernel, in
// nanoseconds; 0 if it cannot be read.
func monotonic() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(clockMonotonic, &ts) != nil {
		return 0
	}
	return ts.Nano()
}
