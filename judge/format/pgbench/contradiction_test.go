package pgbench

import (
	"testing"

	"bakeoff/judge/format/formattest"
)

// A latency that contradicts the clients and their rate gets a warning.
func TestContradictions(t *testing.T) {
	formattest.Contradictions(t, New(), []formattest.Contradiction{
		{Archive: "closed.txtar", File: "closed.txt", Old: `tps = 668.632389`,
			New:  `tps = 868.632389`,
			Want: `latency average (s) is 0.005982 in the file`},
		{Archive: "closed.txtar", File: "closed.txt", Old: `latency average = 5.982 ms`,
			New:  `latency average = 3.982 ms`,
			Want: `latency average (s) is 0.003982 in the file`},
		{Archive: "failures.txtar", File: "serial.txt", Old: `failed transactions: 1943`, New: `failed transactions: 0`,
			Want: `latency average (s) is 0.001089 in the file, which contradicts the clients and tps: 0.00141`},
		{Archive: "debian13.txtar", File: "report.txt", Old: `number of clients: `,
			New:  `number of clients: 1`,
			Want: `latency average (s) is`},
		{Archive: "mix.txtar", File: "mix.txt", Old: `actually processed: 4459`, New: `actually processed: 44590`,
			Want: `tps is 1492.31 in the file, which contradicts the number of transactions and the duration: 14863.3`},
		{Archive: "mix.txtar", File: "mix.txt", Old: `tps = 994.312572`,
			New:  `tps = 94.312572`,
			Want: `tps of the script is 94.3126 in the file`},
	})
}
