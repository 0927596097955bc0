//go:build !linux && !netbsd && !freebsd

package agent

// monotonic is not read on this system.
func monotonic() int64 { return 0 }
