package redis

import (
	"testing"

	"bakeoff/judge/format/formattest"
)

// A test whose latencies contradict each other gets a warning.
func TestContradictions(t *testing.T) {
	formattest.Contradictions(t, New(), []formattest.Contradiction{
		{"tests.txtar", "tests.csv", `"7.575","29.167"`,
			`"37.575","29.167"`,
			`latency-p99 is 0.029167, which is less than latency-p95`},
		{"tests.txtar", "tests.csv", `"16326.53","2.373"`,
			`"16326.53","62.373"`,
			`latency-max is 0.056159, which is less than latency-mean`},
	})
}
