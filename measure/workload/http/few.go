package http

import (
	"fmt"
	"math"
	"slices"
	"time"

	"bakeoff/base/param"
)

// leastBeyond is how many requests of a trial must be slower than a percentile for it to
// say more than how slow the slowest one was.
const leastBeyond = 10

// Few implements workload.Counted: an open loop sends rate × time requests. How many a
// closed loop sends is not known in advance.
func (Workload) Few(p param.Values, metrics []string) (caveat, fix string) {
	rate, length := p.Rate("rate"), p.Duration("time")
	if rate <= 0 || length <= 0 {
		return "", ""
	}
	sent := rate * length.Seconds()
	for _, q := range slices.Backward(quantiles) { // the highest needs most
		if q.percent == 100 || !slices.Contains(metrics, q.metric) {
			continue
		}
		needs := math.Round(leastBeyond * 100 / (100 - q.percent))
		if sent >= needs {
			continue
		}
		longer := time.Duration(math.Ceil(1e3*needs/rate)) * time.Millisecond
		return fmt.Sprintf("a trial sends about %.0f requests (rate %s, time %s), and %s needs at least %.0f, of which %d are "+
				"slower", math.Floor(sent), p.Text("rate"), p.Text("time"), q.metric, needs, leastBeyond),
			fmt.Sprintf("set time to %s or more, or rate to %.0f/s or more", longer, math.Ceil(needs/length.Seconds()))
	}
	return "", ""
}
