package probe

import "time"

import "bakeoff/base/facts"

// start is the zero of AtNS; only differences matter.
var start = time.Now()

// clockTries bounds how often the clocks are read until a reading is not
// interrupted; clockGap is the longest duration of a good one.
const (
	clockTries = 8
	clockGap   = 20 * time.Microsecond
)

// readClocks reads the clocks of this system at one moment, as nearly as
// possible: it repeats the reading and keeps the shortest one. The wall clock
// is the one that people and time servers set; the raw one is never corrected.
func readClocks(c *facts.Counters) {
	shortest := time.Duration(1<<63 - 1)
	for range clockTries {
		from := time.Now()
		raw := rawClock()
		until := time.Now()
		if gap := until.Sub(from); gap < shortest {
			shortest = gap
			wall := from.UnixNano() + int64(gap/2)
			c.AtNS, c.WallNS, c.RawNS = int64(from.Sub(start)+gap/2), &wall, raw
		}
		if shortest <= clockGap {
			break
		}
	}
	c.ClockSource = clockSource()
}
