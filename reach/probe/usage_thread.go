//go:build !linux

package probe

import "syscall"

// threadSeconds is what the calling thread, or the process where a system does
// not tell threads apart, has spent.
func threadSeconds() (float64, error) {
	var self syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &self); err != nil {
		return 0, err
	}
	return seconds(self.Utime) + seconds(self.Stime), nil
}
