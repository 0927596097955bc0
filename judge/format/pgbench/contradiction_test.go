package pgbench

import (
	"testing"

	"bakeoff/judge/format/formattest"
)

// A latency that contradicts the clients and their rate gets a warning.
func TestContradictions(t *testing.T) {
	formattest.Contradictions(t, New(), []formattest.Contradiction{
		{"closed.txtar", "closed.txt", `tps = 668.632389`,
			`tps = 868.632389`,
			`latency average (s) is 0.005982 in the file`},
		{"closed.txtar", "closed.txt", `latency average = 5.982 ms`,
			`latency average = 3.982 ms`,
			`latency average (s) is 0.003982 in the file`},
		{"debian13.txtar", "report.txt", `number of clients: `,
			`number of clients: 1`,
			`latency average (s) is`},
	})
}
