package clock

import "golang.org/x/sys/unix"

const (
	monotonic = unix.CLOCK_MONOTONIC
	start     = 0
)
