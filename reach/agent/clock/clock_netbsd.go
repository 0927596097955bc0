package clock

const (
	// monotonic is CLOCK_MONOTONIC.
	//
	// Source: sys/sys/time.h of NetBSD.
	monotonic = 3
	// start is what that clock shows when it starts, in nanoseconds.
	//
	// Source: th0 in sys/kern/kern_tc.c of NetBSD.
	start = 1e9
)
