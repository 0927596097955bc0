package probe

import (
	"strings"

	"golang.org/x/sys/unix"
)

// rawClock is the uncorrected clock; nil if it cannot be read.
//
// Source: clock_gettime(2), CLOCK_MONOTONIC_RAW.
func rawClock() *int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &t) != nil {
		return nil
	}
	return new(t.Nano())
}

// clockSource names the hardware that the clocks come from.
func clockSource() string {
	return strings.TrimSpace(readText("/sys/devices/system/clocksource/clocksource0/current_clocksource"))
}
