// Package wrk is the tool wrk: a closed loop of HTTP requests from outside.
// Pitfalls:
//
//   - It counts every response as a request, even an error page, and 404s are
//     fast. Here only responses with a status below 400 count for throughput, and
//     any error withholds the verdict.
//   - It is a closed loop: it slows down with the server, which hides high
//     latencies. If latency matters, use the workload http with a rate.
//   - It gives every thread connections/threads connections and drops the rest:
//     50 connections on 4 threads are 48. Notes records that.
//   - Threads, connections and length are always set.
//   - Its report for people is rounded. A script prints the exact counts.
package wrk

import (
	_ "embed"
	"errors"
	"fmt"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/labeled"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/base/strictjson"
	"bakeoff/measure/tool"
	"bakeoff/measure/workload"
)

// New returns the tool.
func New() tool.Tool { return wrk{tool.VersionBy(`^wrk (?:[a-z]+/)?v?(\d+\.\d+\.\d+)`)} }

type wrk struct{ tool.Versioned }

//go:embed report.lua
var script string

// quantiles are those that the script prints.
var quantiles = []struct{ metric, percent string }{
	{"latency-p50", "50"}, {"latency-p90", "90"}, {"latency-p99", "99"}, {"latency-p999", "99.9"},
}

func (wrk) Doc() tool.Doc {
	d := tool.Doc{
		Name: "wrk", Program: "wrk", VersionArgs: []string{"-v"},
		Tried: []string{"4.1"},
		Summary: "wrk as the platform ships it: a closed loop of HTTP requests from outside the environment to its " +
			"nginx",
		Packages: tool.Everywhere("wrk"),
		Metrics: []sample.Metric{
			sample.Throughput("request/s", "responses with a status below 400, per second"),
			sample.HigherRatio("bandwidth", "B/s", "bytes received per second, headers included"),
			sample.LowerShare("failed-share", "share of requests that failed, by status, connect, read, write or "+
				"timeout"),
		},
		Params: []param.Spec{
			{Name: "threads", Kind: param.Int, Default: "1", Min: 1, Max: 64, Doc: "number of threads of the load " +
				"generator"},
			{Name: "connections", Kind: param.Int, Default: "50", Min: 1, Max: 10000,
				Doc: "number of connections; each thread gets the same number of them, so that wrk ignores a " +
					"remainder"},
			{Name: "time", Kind: param.Duration, Default: "5s", Doc: "length of the test in whole seconds"},
			{Name: "timeout", Kind: param.Duration, Default: "5s", Doc: "timeout of a response in whole seconds"},
		},
		Server: tool.Web, State: "carried", Cache: "warm",
		Protocol: func(param.Values) string { return workload.HTTP11 },
		Time:     func(p param.Values) time.Duration { return tool.WholeSeconds(p, "time") + 300*time.Millisecond },
		Parser:   1,
		Source:   []string{"https://github.com/wg/wrk", "G. Tene, How NOT to Measure Latency (coordinated omission), 2013"},
	}
	for _, q := range quantiles {
		d.Metrics = append(d.Metrics, sample.LowerRatio(q.metric, "s",
			q.percent+"th percentile of the latency, closed loop, in steps of 1 µs"))
	}
	return d
}

const scriptName = "report.lua"

func (wrk) Command(p param.Values, at tool.Place) (tool.Command, error) {
	switch {
	case p.Duration("time") <= 0 || p.Duration("timeout") <= 0:
		return tool.Command{}, fault.New(fault.Invalid, "time and timeout must be positive")
	case p.Int("connections") < p.Int("threads"):
		return tool.Command{}, fault.New(fault.Invalid, "connections: %s is fewer than the number of threads, %s",
			p.Text("connections"), p.Text("threads"))
	}
	return tool.Command{
		Argv: []string{"wrk", "--threads", p.Text("threads"), "--connections", p.Text("connections"),
			"--duration", tool.Seconds(p, "time") + "s", "--timeout", tool.Seconds(p, "timeout") + "s", "--script",
			scriptName, at.URL},
		Files: map[string]string{scriptName: script},
	}, nil
}

// Notes records the real number of connections.
func (wrk) Notes(p param.Values, _ tool.Place) map[string]string {
	asked, threads := p.Int("connections"), max(1, p.Int("threads"))
	if real := asked / threads * threads; real != asked {
		return map[string]string{"connections": fmt.Sprintf("%d instead of %d: wrk divides them evenly among its threads",
			real, asked)}
	}
	return nil
}

// report is the line that the script prints.
type report struct {
	DurationUS float64          `json:"duration_us"`
	Requests   *int64           `json:"requests"` // responses, whatever their status
	Bytes      *float64         `json:"bytes"`
	Errors     map[string]int64 `json:"errors"`
	LatencyUS  map[string]int64 `json:"latency_us"`
}

func (w wrk) Parse(out tool.Output, p param.Values) (tool.Result, error) {
	var r tool.Result
	line, err := labeled.Text(out.Stdout).Line("bakeoff {")
	if err != nil {
		return r, err
	}
	rep, err := decodeReport([]byte("{" + line))
	if err != nil {
		return r, err
	}
	failed := int64(0)
	for class, n := range rep.Errors {
		r.Count(class, n)
		failed += n
	}
	good := *rep.Requests - rep.Errors["status"]
	if good <= 0 {
		return r, fault.New(fault.Subject, "no successful response: %d of %d with an error status, %d other errors",
			rep.Errors["status"], *rep.Requests, failed-rep.Errors["status"])
	}
	d, took := w.Doc(), rep.DurationUS/1e6
	r.Work, r.Threads = float64(good), int(p.Int("threads"))
	r.Add(d, "throughput", float64(good)/took)
	r.AddKnown(d, "bandwidth", *rep.Bytes/took)
	r.Add(d, "failed-share", float64(failed)/float64(good+failed))
	for _, q := range quantiles {
		r.AddKnown(d, q.metric, float64(rep.LatencyUS[q.percent])/1e6)
	}
	return r, nil
}

func decodeReport(line []byte) (report, error) {
	var r report
	if err := strictjson.Decode(line, &r); err != nil {
		return r, fmt.Errorf("the line that bakeoff's report.lua prints for wrk: %w", err)
	}
	if r.Requests == nil || r.Bytes == nil {
		return r, errors.New("the line that bakeoff's report.lua prints for wrk lacks the number of requests or of bytes")
	}
	for _, class := range []string{"connect", "read", "write", "status", "timeout"} {
		if _, ok := r.Errors[class]; !ok {
			return r, fmt.Errorf("the line that bakeoff's report.lua prints for wrk lacks the errors of class %s", class)
		}
	}
	const most = 1 << 50
	for class, n := range r.Errors {
		if n < 0 || n > most || class == "" {
			return r, fmt.Errorf("impossible count: %d errors of class %.40q", n, class)
		}
	}
	if !(r.DurationUS > 0) || *r.Requests < 0 || *r.Requests > most {
		return r, fmt.Errorf("impossible result: %d requests in %g µs", *r.Requests, r.DurationUS)
	}
	return r, nil
}
