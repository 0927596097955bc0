package sysbench

import (
	"testing"

	"bakeoff/judge/format/formattest"
)

// A report whose rates contradict the numbers and the time, or whose latencies contradict each other, gets a warning.
func TestContradictions(t *testing.T) {
	formattest.Contradictions(t, New(), []formattest.Contradiction{
		{Archive: "cpu.txtar", File: "cpu.txt", Old: `events per second:   538.69`,
			New:  `events per second:   938.69`,
			Want: `events per second is 938.69 in the file`},
		{Archive: "cpu.txtar", File: "cpu.txt", Old: `total number of events:              561`,
			New:  `total number of events:              5610`,
			Want: `which contradicts the number and the total time`},
		{Archive: "cpu.txtar", File: "cpu.txt", Old: `sum:                                 2013.56`,
			New:  `sum:                                20135.6`,
			Want: `the sum of the latencies (ms) is 20135.6`},
		{Archive: "cpu.txtar", File: "cpu.txt", Old: `95th percentile:                       32.53`,
			New:  `95th percentile:                       132.53`,
			Want: `latency-max is 0.10039, which is less than latency-p95`},
		{Archive: "memory.txtar", File: "memory.txt", Old: `(26594.40 per second)`,
			New:  `(36594.40 per second)`,
			Want: `the rate of Total operations is 36594.4`},
		{Archive: "memory.txtar", File: "memory.txt", Old: `(1662.15 MiB/sec)`,
			New:  `(2662.15 MiB/sec)`,
			Want: `it has an error; bakeoff uses the stated rate.`},
	})
}
