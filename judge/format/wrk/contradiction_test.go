package wrk

import (
	"testing"

	"bakeoff/judge/format/formattest"
)

// A report whose rates contradict the numbers and the time, or whose latencies contradict each other, gets a warning.
func TestContradictions(t *testing.T) {
	formattest.Contradictions(t, New(), []formattest.Contradiction{
		{Archive: "latency.txtar", File: "latency.txt", Old: `Requests/sec:   3231.69`,
			New:  `Requests/sec:   4231.69`,
			Want: `Requests/sec is 4231.69 in the file`},
		{Archive: "latency.txtar", File: "latency.txt", Old: `3620 requests in`,
			New:  `36200 requests in`,
			Want: `Requests/sec is 3231.69 in the file`},
		{Archive: "latency.txtar", File: "latency.txt", Old: `848.44KB read`,
			New:  `848.44MB read`,
			Want: `Transfer/sec (B) is`},
		{Archive: "latency.txtar", File: "latency.txt", Old: `50%    1.67ms`,
			New:  `50%   21.67ms`,
			Want: `latency-p75 is 0.00919, which is less than latency-p50`},
		{Archive: "latency.txtar", File: "latency.txt", Old: `Latency     5.65ms`,
			New:  `Latency    65.65ms`,
			Want: `latency-max is 0.04006, which is less than latency-mean`},
	})
}
