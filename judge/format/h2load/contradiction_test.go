package h2load

import (
	"testing"

	"bakeoff/judge/format/formattest"
)

// A report whose rates contradict the numbers and the time, or whose latencies contradict each other, gets a warning.
func TestContradictions(t *testing.T) {
	formattest.Contradictions(t, New(), []formattest.Contradiction{
		{Archive: "n.txtar", File: "n.txt", Old: `1524.33 req/s`,
			New:  `2524.33 req/s`,
			Want: `req/s is 2524.33 in the file`},
		{Archive: "n.txtar", File: "n.txt", Old: `192.00KB/s`,
			New:  `192.00MB/s`,
			Want: `the rate of the bytes (B/s) is`},
		{Archive: "warm.txtar", File: "warm.txt", Old: `39.00 req/s`,
			New:  `26.00 req/s`,
			Want: `which contradicts the number of responses and the time: 39`},
		{Archive: "warm.txtar", File: "warm.txt", Old: `4.46KB/s`,
			New:  `8.92KB/s`,
			Want: `4563. The file was changed, or the program that wrote it has an error; bakeoff uses the bytes of`},
		{Archive: "some.txtar", File: "some.txt", Old: `42.72 req/s`,
			New:  `38.46 req/s`,
			Want: `bakeoff uses req/s.`},
		{Archive: "n.txtar", File: "n.txt", Old: `200 done, 200 succeeded`,
			New:  `20 done, 200 succeeded`,
			Want: `200 requests succeeded, 20 were done`},
		{Archive: "n.txtar", File: "n.txt", Old: `15.97ms      3.79ms`,
			New:  `15.97ms     33.79ms`,
			Want: `latency-max is 0.01597, which is less than latency-mean`},
	})
}
