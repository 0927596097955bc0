package agent

import "golang.org/x/sys/unix"

const (
	clockMonotonic = unix.CLOCK_MONOTONIC
	// clockStart is what that clock shows when it starts, in nanoseconds.
	//
	// Source: ths in sys/kern/kern_tc.c of FreeBSD.
	clockStart = 1e9
)
