package agent

import "golang.org/x/sys/unix"

const (
	clockMonotonic = unix.CLOCK_MONOTONIC
	clockStart     = 0
)
