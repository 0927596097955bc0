package workload

import (
	"fmt"
	"math"
	"slices"
	"time"

	"bakeoff/base/param"
)

// leastBeyond is how many values of a trial must be above a percentile for it to say more
// than how large the largest one was.
const leastBeyond = 10

// Quantile is a metric that is a quantile of the latencies of a trial.
type Quantile struct {
	Metric  string
	Percent float64
}

// FewOf returns the first of quantiles among metrics, the highest before others, for which
// values are too few, and how many it needs. ok is false if there is none.
func FewOf(values float64, metrics []string, quantiles []Quantile) (metric string, needs float64, ok bool) {
	sorted := slices.SortedFunc(slices.Values(quantiles), func(a, b Quantile) int {
		return int(math.Copysign(1, b.Percent-a.Percent))
	})
	for _, q := range sorted {
		if q.Percent >= 100 || !slices.Contains(metrics, q.Metric) {
			continue
		}
		if needs := math.Round(leastBeyond * 100 / (100 - q.Percent)); values < needs {
			return q.Metric, needs, true
		}
	}
	return "", 0, false
}

// FewAtRate implements Counted for an open loop that sends what (requests, transactions)
// at the parameter rate for the parameter time, which lasts length.
func FewAtRate(p param.Values, length time.Duration, what string, metrics []string, quantiles []Quantile) (caveat,
	fix string) {
	rate := p.Rate("rate")
	if rate <= 0 || length <= 0 {
		return "", ""
	}
	sent := rate * length.Seconds()
	metric, needs, few := FewOf(sent, metrics, quantiles)
	if !few {
		return "", ""
	}
	longer := time.Duration(math.Ceil(1e3*needs/rate)) * time.Millisecond
	return fmt.Sprintf("a trial sends about %.0f %s (rate %s, time %s), and %s needs at least %.0f, of which %d "+
			"are slower",
			math.Floor(sent), what, p.Text("rate"), p.Text("time"), metric, needs, leastBeyond),
		fmt.Sprintf("set time to %s or more, or rate to %.0f/s or more", longer, math.Ceil(needs/length.Seconds()))
}
