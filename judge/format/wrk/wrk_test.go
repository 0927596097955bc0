package wrk

import (
	"fmt"
	"strings"
	"testing"

	"bakeoff/judge/format/formattest"
)

func TestSuite(t *testing.T) { formattest.Run(t, New()) }

func FuzzRead(f *testing.F) { formattest.Fuzz(f, New()) }

// A number that cannot be read does not vanish without a warning.
func TestLeftOut(t *testing.T) {
	const report = "Running 10s test @ http://x/\n%s  10 requests in 10.00s, 1.00MB read\n"
	formattest.LeftOut(t, New(), []formattest.Mistake{
		{Name: "a mean", Text: fmt.Sprintf(report, "    Latency     -nanus   0.50ms   9.00ms   90.00%\n"),
			Want: `x:1: latency-mean: "-nanus" is not a number with a unit`},
		{Name: "a percentile", Text: fmt.Sprintf(report, "     99%    1,20ms\n"),
			Want: `x:1: latency-p99: "1,20ms" is not a number with a unit`},
	})
}

// A number of requests has all of its digits.
func TestLargeCounts(t *testing.T) {
	out, err := New().Read("x", []byte("Running 30s test @ http://x/\n  4938655 requests in 30.00s, 1.00MB read\n"+
		"  Non-2xx or 3xx responses: 1234567\n"))
	if err != nil || len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0], "1234567 of 4938655 responses") {
		t.Errorf("%q, %v", out.Warnings, err)
	}
}
