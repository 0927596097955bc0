package kvm

import "time"

// rdtsc reads the time stamp counter.
func rdtsc() uint64

// tscKHz measures the frequency of the time stamp counter against the
// monotonic clock, in kHz.
//
// An emulated processor has its host's counter, and a guest that is not told
// its frequency tries to measure it against a timer that is emulated too.
func tscKHz() int64 {
	const span = 100 * time.Millisecond
	t0, c0 := tscPair()
	time.Sleep(span)
	t1, c1 := tscPair()
	return int64(float64(c1-c0)/float64(t1.Sub(t0).Nanoseconds())*1e6 + 0.5)
}

// tscPair reads both clocks at about the same moment: of many readings the
// one that took the shortest.
func tscPair() (at time.Time, counter uint64) {
	best := ^uint64(0)
	for range 50 {
		before := rdtsc()
		now := time.Now()
		after := rdtsc()
		if after-before < best {
			best, at, counter = after-before, now, before+(after-before)/2
		}
	}
	return at, counter
}
