package evidence

import (
	"fmt"
	"time"

	"bakeoff/measure/workload/http"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// wait is an explanation of long latencies that has nothing to do with the
// server: a timer of TCP. Latencies that it explains lie between least and most.
type wait struct {
	why         string
	least, most time.Duration
}

// stallGate is failed where the latencies have two groups with little between
// them, and a timer of TCP explains the slow one. A server that is slow, queues
// requests or pauses gives latencies of all lengths below the longest instead.
// It passes where nobody recorded the distribution.
func stallGate(t Trial) string {
	if t.Work == nil || t.Work.Histogram == "" {
		return ""
	}
	h, err := http.DecodeHistogram(t.Work.Histogram)
	if err != nil {
		return "" // Parse judges it
	}
	for _, w := range waits(t) {
		if n := w.explains(h); n > 0 {
			return fmt.Sprintf("%.1f %% of the responses took %.3g to %.3g ms, half of all took at most %.3g ms, and few "+
				"were in between: TCP held the slow ones back (%s)", 100*float64(n)/float64(h.TotalCount()),
				ms(w.least), ms(w.most), 1e3*http.Seconds(h, 50), w.why)
		}
	}
	return ""
}

// waits returns the explanations for a trial. Where the kernel holds the end
// of a response back until the smoothed round trip time has passed twice, that
// time is the one between two requests on a connection: connections/rate. The
// longest such time is that of a delayed acknowledgment, whose shortest is 40 ms
// in Linux (TCP_DELACK_MIN) and which its timer rounds up.
func waits(t Trial) []wait {
	const delayed, shortest = 40 * time.Millisecond, 2 * time.Millisecond
	out := []wait{{"a delayed acknowledgment takes 40 ms or a little more", delayed * 9 / 10, delayed * 5 / 4}}
	p := t.Work.Params
	if rate := p.Rate("rate"); rate > 0 && p.Bool("keepalive") {
		// A rate below 1/s must not overflow.
		turn := time.Duration(min(float64(time.Hour), float64(p.Int("connections"))/rate*float64(time.Second)))
		if turn >= shortest && turn <= delayed {
			out = append(out, wait{fmt.Sprintf("a connection is used every connections/rate = %.3g ms", ms(turn)),
				turn / 2, turn * 5 / 4})
		}
	}
	return out
}

// explains returns the number of latencies that w explains, 0 where it does not
// explain the distribution.
func (w wait) explains(h *hdrhistogram.Histogram) int64 {
	low, least, most := int64(w.least/stallApart), int64(w.least), int64(w.most)
	var between, within, above int64
	for _, b := range h.Distribution() {
		switch {
		case b.To < low:
		case b.To < least:
			between += b.Count
		case b.To <= most:
			within += b.Count
		default:
			above += b.Count
		}
	}
	if h.ValueAtPercentile(50) >= low || within < stallLeast || float64(within) < stallPart*float64(h.TotalCount()) ||
		float64(max(between, above)) > stallRest*float64(within) {
		return 0
	}
	return within
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
