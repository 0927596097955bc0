package http

import (
	"testing"

	"bakeoff/base/param"
)

// A percentile needs ten requests beyond it. An open loop fixes their number.
func TestFewRequests(t *testing.T) {
	for _, c := range []struct {
		rate, time, metric, caveat, fix string
	}{
		{"50/s", "200ms", "latency-p99",
			"a trial sends about 10 requests (rate 50/s, time 200ms), and latency-p99 needs at " +
				"least 1000, of which 10 are slower", "set time to 20s or more, or rate to 5000/s or more"},
		{"999/s", "1s", "latency-p99", "a trial sends about 999 requests (rate 999/s, time 1s), and latency-p99 needs at " +
			"least 1000, of which 10 are slower", "set time to 1.002s or more, or rate to 1000/s or more"},
		{"1000/s", "1s", "latency-p99", "", ""},
		{"1000/s", "1s", "latency-p999", "a trial sends about 1000 requests (rate 1000/s, time 1s), and latency-p999 needs " +
			"at least 10000, of which 10 are slower", "set time to 10s or more, or rate to 10000/s or more"},
		{"10000/s", "1s", "latency-p999", "", ""},
		{"19/s", "1s", "latency-p50", "a trial sends about 19 requests (rate 19/s, time 1s), and latency-p50 needs at " +
			"least 20, of which 10 are slower", "set time to 1.053s or more, or rate to 20/s or more"},
		{"20/s", "1s", "latency-p50", "", ""},
		{"50/s", "200ms", "latency-max", "", ""},
		{"50/s", "200ms", "throughput", "", ""},
		{"", "200ms", "latency-p99", "", ""}, // a closed loop
	} {
		p := param.Defaults(New().Doc().Params)
		p["time"] = c.time
		if c.rate != "" {
			p["rate"] = c.rate
		}
		caveat, fix := Workload{}.Few(p, []string{"throughput", c.metric})
		if caveat != c.caveat || fix != c.fix {
			t.Errorf("%s for %s, %s:\n%q; %q, want\n%q; %q", c.rate, c.time, c.metric, caveat, fix, c.caveat, c.fix)
		}
	}
}
