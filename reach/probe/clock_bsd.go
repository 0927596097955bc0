//go:build freebsd || netbsd || openbsd || dragonfly

package probe

import "golang.org/x/sys/unix"

// rawClock is not read on this system.
func rawClock() *int64 { return nil }

// clockSource names the hardware that the clocks come from.
func clockSource() string {
	name, err := unix.Sysctl("kern.timecounter.hardware")
	if err != nil {
		return ""
	}
	return printable(name)
}
