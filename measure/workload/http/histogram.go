package http

import (
	"errors"
	"fmt"
	"slices"

	"bakeoff/base/sample"
	"bakeoff/measure/workload"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range and precision of the histograms of latencies: one nanosecond to an
// hour, within 0.1 %.
const (
	shortest = 1
	longest  = int64(3600e9)
	digits   = 3
)

func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(shortest, longest, digits)
}

// Record adds ns, limited to the range.
func Record(h *hdrhistogram.Histogram, ns int64) {
	// Cannot fail: the value is within the histogram's range.
	_ = h.RecordValue(max(shortest, min(ns, longest)))
}

// Failures is the number of all errors.
func Failures(errors map[string]int64) int64 {
	var n int64
	for _, k := range errors {
		n += k
	}
	return n
}

// maxHistogram bounds the text of a histogram, in bytes.
const maxHistogram = 1 << 20

// DecodeHistogram reads a histogram that EncodeHistogram wrote. It refuses
// every other geometry, so that quantiles mean the same everywhere.
func DecodeHistogram(text string) (*hdrhistogram.Histogram, error) {
	if len(text) > maxHistogram {
		return nil, fmt.Errorf("the histogram has %d bytes, more than the maximum", len(text))
	}
	h, err := hdrhistogram.Decode([]byte(text))
	if err != nil {
		return nil, err
	}
	if h.LowestTrackableValue() != shortest || h.HighestTrackableValue() != longest || h.SignificantFigures() != digits {
		return nil, errors.New("the range of the histogram is not that of latencies in nanoseconds")
	}
	return h, nil
}

// EncodeHistogram writes h in HdrHistogram's compressed V2 format, in base64.
func EncodeHistogram(h *hdrhistogram.Histogram) (string, error) {
	b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	return string(b), err
}

// quantiles are the latencies that are reported, in percent.
var quantiles = []workload.Quantile{
	{Metric: "latency-p50", Percent: 50}, {Metric: "latency-p90", Percent: 90}, {Metric: "latency-p99", Percent: 99},
	{Metric: "latency-p999", Percent: 99.9}, {Metric: "latency-max", Percent: 100},
}

// Quantiles are what Latencies returns.
func Quantiles() []workload.Quantile { return slices.Clone(quantiles) }

// Latencies returns the quantiles of h, in seconds, that are above floor (in
// nanoseconds): values below the generator's own lateness say nothing about the
// server.
func Latencies(h *hdrhistogram.Histogram, floor int64) []sample.Value {
	var out []sample.Value
	if h.TotalCount() == 0 {
		return nil
	}
	for _, q := range quantiles {
		if ns := h.ValueAtPercentile(q.Percent); ns > floor {
			out = append(out, sample.Value{Metric: q.Metric, Unit: "s", Value: float64(ns) / 1e9})
		}
	}
	return out
}

// Seconds returns a quantile of latencies.
func Seconds(h *hdrhistogram.Histogram, percent float64) float64 {
	return float64(h.ValueAtPercentile(percent)) / 1e9
}
