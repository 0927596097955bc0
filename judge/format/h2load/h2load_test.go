package h2load

import (
	"math"
	"testing"

	"bakeoff/judge/format/formattest"
)

func TestSuite(t *testing.T) { formattest.Run(t, New()) }

func FuzzRead(f *testing.F) { formattest.Fuzz(f, New()) }

// A time that cannot be read does not vanish without a warning.
func TestLeftOut(t *testing.T) {
	formattest.LeftOut(t, New(), []formattest.Mistake{{Name: "a comma", Text: `starting benchmark...
finished in 100.00ms, 2000.00 req/s, 192.00KB/s
requests: 200 total, 200 started, 200 done, 200 succeeded, 0 failed, 0 errored, 0 timeout
                     min         max         mean         sd        +/- sd
time for request:      100us     10.00ms      1,50ms       500us    90.00%
`, Want: `x:1: latency-mean: "1,50ms" is not a number with a unit`}})
}

// Version 1.70 has shorter names and more columns, so the mean is not the third one.
func TestQuantiles(t *testing.T) {
	out, err := New().Read("x", []byte(`starting benchmark...
spawning thread #0: 4 total client(s). 200 total requests
Application protocol: h2

finished in 100.00ms, 2000.00 req/s, 192.00KB/s
requests: 200 total, 200 started, 200 done, 200 succeeded, 0 failed, 0 errored, 0 timeout
                 min         max         median      p95         p99         mean        sd         +/- sd
request     :        1us         6ms         2ms         4ms         5ms         3ms         1us    93.62%
connect     :        0us         0us         0us         0us         0us         0us         0us     0.00%
TTFB        :      258us       292us       275us       292us       292us       276us        16us    50.00%
req/s       :      63.60       86.79       78.39       86.79       86.79       77.54        11.74    75.00%
`))
	if err != nil || len(out.Records) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	got := map[string]float64{}
	for _, s := range out.Records[0].Series {
		got[s.Metric.Name] = s.Values[0]
	}
	if _, ok := got["connect-mean"]; ok {
		t.Error("times that were not measured are 0")
	}
	for name, want := range map[string]float64{"latency-mean": .003, "latency-max": .006, "latency-median": .002,
		"latency-p95": .004, "latency-p99": .005, "first-byte-mean": 276e-6} {
		if v, ok := got[name]; !ok || math.Abs(v-want) > 1e-12 {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
}

// The rates of a test that ended before its time are those of a longer time.
func TestEndedEarly(t *testing.T) {
	formattest.Mistakes(t, New(), []formattest.Mistake{{Name: "a test of 20 s", Text: `starting benchmark...
spawning thread #0: 2 total client(s). Timing-based test with 0s of warm-up time and 20s of main duration
finished in 4.02s, 20.00 req/s, 192.00KB/s
requests: 400 total, 400 started, 400 done, 400 succeeded, 0 failed, 0 errored, 0 timeout
`, Want: "x:1: the test should last 20s, and it ended after 4.02s"}})
}
