package wrk

import (
	"testing"

	"bakeoff/judge/format/formattest"
)

// A report whose rates contradict the numbers and the time, or whose latencies contradict each other, gets a warning.
func TestContradictions(t *testing.T) {
	formattest.Contradictions(t, New(), []formattest.Contradiction{
		{"latency.txtar", "latency.txt", `Requests/sec:   3231.69`,
			`Requests/sec:   4231.69`,
			`Requests/sec is 4231.69 in the file`},
		{"latency.txtar", "latency.txt", `3620 requests in`,
			`36200 requests in`,
			`Requests/sec is 3231.69 in the file`},
		{"latency.txtar", "latency.txt", `848.44KB read`,
			`848.44MB read`,
			`Transfer/sec (B) is`},
		{"latency.txtar", "latency.txt", `50%    1.67ms`,
			`50%   21.67ms`,
			`latency-p75 is 0.00919, which is less than latency-p50`},
		{"latency.txtar", "latency.txt", `Latency     5.65ms`,
			`Latency    65.65ms`,
			`latency-max is 0.04006, which is less than latency-mean`},
	})
}
