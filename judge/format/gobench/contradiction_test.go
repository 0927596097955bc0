package gobench

import (
	"testing"

	"bakeoff/judge/format/formattest"
)

// A rate that contradicts the time beside it and the other lines of the benchmark gets a warning.
func TestContradictions(t *testing.T) {
	formattest.Contradictions(t, New(), []formattest.Contradiction{
		{Archive: "count.txtar", File: "count.txt", Old: `222.7 ns/op	 287.35 MB/s`,
			New:  `222.7 ns/op	 587.35 MB/s`,
			Want: `the rate (B/s) of`},
		{Archive: "count.txtar", File: "count.txt", Old: `203.6 ns/op	 314.39 MB/s`,
			New:  `503.6 ns/op	 314.39 MB/s`,
			Want: `which contradicts the time and the bytes of an earlier line`},
	})
}
