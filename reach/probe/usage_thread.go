//go:build !linux && !windows

package probe

import "syscall"

// threadSeconds returns the CPU time of the calling thread, or of the process
// if the system does not account for threads.
func threadSeconds() (float64, error) {
	var self syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &self); err != nil {
		return 0, err
	}
	return seconds(self.Utime) + seconds(self.Stime), nil
}
