//go:build !linux && !freebsd && !openbsd && !netbsd && !dragonfly && !windows

package probe

const (
	maxRSSUnit   = 0 // getrusage(3C) of illumos leaves ru_maxrss at zero
	rusageThread = rusageSelf
)
