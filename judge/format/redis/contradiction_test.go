package redis

import (
	"testing"

	"bakeoff/judge/format/formattest"
)

// A test whose latencies contradict each other gets a warning.
func TestContradictions(t *testing.T) {
	formattest.Contradictions(t, New(), []formattest.Contradiction{
		{Archive: "tests.txtar", File: "tests.csv", Old: `"7.575","29.167"`,
			New:  `"37.575","29.167"`,
			Want: `latency-p99 is 0.029167, which is less than latency-p95`},
		{Archive: "tests.txtar", File: "tests.csv", Old: `"16326.53","2.373"`,
			New:  `"16326.53","62.373"`,
			Want: `latency-max is 0.056159, which is less than latency-mean`},
	})
}
