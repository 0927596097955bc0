package sysbench

import (
	"testing"

	"bakeoff/judge/format/formattest"
)

// A report whose rates contradict the numbers and the time, or whose latencies contradict each other, gets a warning.
func TestContradictions(t *testing.T) {
	formattest.Contradictions(t, New(), []formattest.Contradiction{
		{"cpu.txtar", "cpu.txt", `events per second:   538.69`,
			`events per second:   938.69`,
			`events per second is 938.69 in the file`},
		{"cpu.txtar", "cpu.txt", `total number of events:              561`,
			`total number of events:              5610`,
			`the number and the total time give`},
		{"cpu.txtar", "cpu.txt", `sum:                                 2013.56`,
			`sum:                                20135.6`,
			`the sum of the latencies (ms) is 20135.6`},
		{"cpu.txtar", "cpu.txt", `95th percentile:                       32.53`,
			`95th percentile:                       132.53`,
			`latency-max is 0.10039, which is less than latency-p95`},
		{"memory.txtar", "memory.txt", `(26594.40 per second)`,
			`(36594.40 per second)`,
			`the rate of Total operations is 36594.4`},
		{"memory.txtar", "memory.txt", `(1662.15 MiB/sec)`,
			`(2662.15 MiB/sec)`,
			`the rate of MiB transferred is 2662.15`},
	})
}
