package wrk

import (
	"fmt"
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
