package h2load

import (
	"testing"

	"bakeoff/judge/format/formattest"
)

// A report whose rates contradict the numbers and the time, or whose latencies contradict each other, gets a warning.
func TestContradictions(t *testing.T) {
	formattest.Contradictions(t, New(), []formattest.Contradiction{
		{"n.txtar", "n.txt", `1524.33 req/s`,
			`2524.33 req/s`,
			`req/s is 2524.33 in the file`},
		{"n.txtar", "n.txt", `192.00KB/s`,
			`192.00MB/s`,
			`the rate of the bytes (B/s) is`},
		{"n.txtar", "n.txt", `200 done, 200 succeeded`,
			`20 done, 200 succeeded`,
			`200 requests succeeded, 20 were done`},
		{"n.txtar", "n.txt", `15.97ms      3.79ms`,
			`15.97ms     33.79ms`,
			`latency-max is 0.01597, which is less than latency-mean`},
	})
}
