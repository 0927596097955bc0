//go:build !linux && !freebsd && !netbsd && !openbsd && !dragonfly

package probe

// rawClock is not read on this system.
func rawClock() *int64 { return nil }

// clockSource is not read on this system.
func clockSource() string { return "" }
