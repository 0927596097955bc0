//go:build freebsd || openbsd || dragonfly

package probe

const (
	maxRSSUnit   = 1024 // getrusage(2): kilobytes
	rusageThread = 1    // RUSAGE_THREAD
)
