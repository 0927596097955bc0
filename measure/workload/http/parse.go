package http

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/base/strictjson"
	"bakeoff/measure/workload"
	"bakeoff/reach/wire"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Parse extracts the samples of a trial. It computes quantiles from the
// histogram, not from the generator's own values. Errors among successful
// responses are left to the gate that checks them; a trial without any expected
// response has failed.
func (Workload) Parse(raw workload.Raw, p param.Values) ([]sample.Value, error) {
	b, ok := raw[workload.Work]
	if !ok {
		return nil, fmt.Errorf("http: %s: %w", workload.Work, workload.ErrNoBlob)
	}
	var r wire.Result
	if err := strictjson.Decode(b, &r); err != nil {
		return nil, fmt.Errorf("http: %s: %w", workload.Work, err)
	}
	h, err := DecodeHistogram(r.Histogram)
	if err != nil {
		return nil, fmt.Errorf("http: %s: histogram: %w", workload.Work, err)
	}
	if err := checkResult(r, p, float64(h.TotalCount())); err != nil {
		return nil, fmt.Errorf("http: %s: %w", workload.Work, err)
	}
	if why := Failed(r); why != "" {
		return nil, fault.New(fault.Subject, "http: %s", why)
	}
	values, err := samples(r, h, raw)
	return values, fault.Op("http", err)
}

// units are the units of the generator's values: its metrics, and additional
// values for Parse.
var units = func() map[string]string {
	u := map[string]string{"requests": "request", "latency-floor": "s"}
	for _, m := range metrics() {
		u[m.Name] = m.Unit
	}
	return u
}()

// checkResult refuses a result of another loop, or one that contradicts itself, its
// parameters or the count of its latencies.
func checkResult(r wire.Result, p param.Values, count float64) error {
	switch {
	case r.Schema != wire.WorkSchema:
		return fmt.Errorf("schema is %q, expected %q", r.Schema, wire.WorkSchema)
	case r.Loop != "http":
		return fmt.Errorf("the result belongs to another loop: %q", r.Loop)
	case r.ElapsedNS <= 0, r.Work != math.Trunc(r.Work), r.Work < 0, r.Work > count:
		return fmt.Errorf("inconsistent result: %g requests in %d ns with %g latencies", r.Work, r.ElapsedNS, count)
	case Stated(r, "throughput") < 0:
		return errors.New("the result lacks the throughput")
	}
	for name, want := range p {
		if got, ok := r.Params[name]; ok && got != want {
			return fmt.Errorf("the loop ran with %s=%s instead of %s", name, got, want)
		}
	}
	seen := map[string]bool{}
	for _, v := range r.Values {
		if unit, ok := units[v.Metric]; !ok || unit != v.Unit || seen[v.Metric] {
			return fmt.Errorf("the value %q with the unit %q is unknown or a duplicate", v.Metric, v.Unit)
		}
		seen[v.Metric] = true
	}
	for class, n := range r.Errors {
		if n < 1 || n > MaxRequests {
			return fmt.Errorf("impossible count: %d errors of class %q", n, class)
		}
	}
	return nil
}

// samples computes the samples of a trial.
func samples(r wire.Result, h *hdrhistogram.Histogram, raw workload.Raw) ([]sample.Value, error) {
	count := float64(h.TotalCount())
	values := []sample.Value{{Metric: "throughput", Unit: "request/s", Value: r.Work / (float64(r.ElapsedNS) / 1e9)}}
	floor := max(0, Stated(r, "latency-floor"))
	values = append(values, Latencies(h, int64(min(floor*1e9, float64(longest))))...)
	costs, err := requestCosts(raw, max(count, Stated(r, "requests")))
	if err != nil {
		return nil, err
	}
	values = append(values, costs...)
	for _, share := range []string{"queued-share", "generator-starved", "generator-stolen"} {
		if q := Stated(r, share); q >= 0 && q <= 1 {
			values = append(values, sample.Value{Metric: share, Unit: "1", Value: q})
		}
	}
	return values, nil
}

// Stated returns a value from the generator, or -1.
func Stated(r wire.Result, metric string) float64 {
	for _, v := range r.Values {
		if v.Metric == metric && v.Value >= 0 && !math.IsInf(v.Value, 0) {
			return v.Value
		}
	}
	return -1
}

// Failed returns why a trial has no expected responses; "" if it has.
func Failed(r wire.Result) string {
	if r.Work > 0 && r.Check.Verified {
		return ""
	}
	bad := Failures(r.Errors)
	all := bad + int64(max(r.Work, 0))
	switch {
	case len(r.Errors) == 0 && r.Work > 0:
		return "the generator did not verify the body"
	case len(r.Errors) == 0:
		return "the server sent no response within the time"
	case len(r.Errors) == 1:
		for class, n := range r.Errors {
			if status, ok := strings.CutPrefix(class, "status "); ok {
				return fmt.Sprintf("server answered %s to %d of %d requests", status, n, all)
			}
			return fmt.Sprintf("%d of %d requests failed: %s", n, all, class)
		}
	}
	classes := slices.Sorted(maps.Keys(r.Errors))
	slices.SortStableFunc(classes, func(a, b string) int { return int(r.Errors[b] - r.Errors[a]) })
	parts := lists.Map(classes, func(c string) string { return fmt.Sprintf("%d %s", r.Errors[c], c) })
	return fmt.Sprintf("%d of %d requests failed: %s", bad, all, strings.Join(parts, ", "))
}

// requestCosts returns what the hosts spent per expected response, as far as known. n
// includes the responses of warm-up and drain, because the hosts' counters
// include them.
func requestCosts(raw workload.Raw, n float64) ([]sample.Value, error) {
	out, err := hostCosts(raw[workload.Host], n)
	if err != nil {
		return nil, err
	}
	energy, err := workload.Costs(raw, n, 0, workload.JoulesPerRequest, workload.GeneratorJoulesPerRequest)
	return append(out, energy...), err
}

// hostCosts returns what the environment's host spent, except energy.
func hostCosts(host []byte, n float64) (out []sample.Value, err error) {
	if host == nil {
		return nil, nil
	}
	var s wire.Span
	if err := strictjson.Decode(host, &s); err != nil {
		return nil, fmt.Errorf("http: %s: %w", workload.Host, err)
	}
	add := func(metric, unit string, spent float64) {
		if v := spent / n; v > 0 && !math.IsInf(v, 0) {
			out = append(out, sample.Value{Metric: metric, Unit: unit, Value: v})
		}
	}
	if seconds, ok := hostBusy(s); ok {
		add("cpu-per-request", "s/request", seconds)
	}
	if b, a := s.Before.ContextSwitches, s.After.ContextSwitches; b != nil && a != nil {
		add("context-switches-per-request", "op/request", *a-*b)
	}
	return out, nil
}

// hostBusy returns how many seconds the host's CPUs were busy. The order of the
// subtraction of ticks must not change, so that old run folders give exactly
// the same numbers.
func hostBusy(s wire.Span) (seconds float64, ok bool) {
	seconds, source, ok := s.After.Since(s.Before).Busy()
	if ok && source == facts.SourceTicks {
		seconds = s.After.CPU.Busy() - s.Before.CPU.Busy()
	}
	return seconds, ok
}
