package clock

import "golang.org/x/sys/unix"

const (
	monotonic = unix.CLOCK_MONOTONIC
	// start is what that clock shows when it starts, in nanoseconds.
	//
	// Source: ths in sys/kern/kern_tc.c of FreeBSD.
	start = 1e9
)
