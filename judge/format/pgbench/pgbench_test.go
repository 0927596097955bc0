package pgbench

import (
	"testing"

	"bakeoff/judge/format/formattest"
)

func TestSuite(t *testing.T) { formattest.Run(t, New()) }

func FuzzRead(f *testing.F) { formattest.Fuzz(f, New()) }

// pgbench prints a report of a run that it aborted, too.
func TestAbortedRunIsAFailure(t *testing.T) {
	const report = "pgbench (15.5)\ntransaction type: <builtin: select only>\nnumber of clients: 1\n" +
		"number of transactions actually processed: 10\ntps = 8.5 (without initial connection time)\n"
	for text, want := range map[string]int{"": 0,
		"pgbench: error: Run was aborted; the above results are incomplete.\n": 1} {
		out, err := New().Read("x", []byte(report+text))
		if err != nil || len(out.Records) != 1 || len(out.Failures) != want || len(out.Warnings) != want {
			t.Errorf("%q: %+v, %v", text, out, err)
		}
	}
}
