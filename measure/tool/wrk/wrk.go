// Package wrk is the tool wrk: a closed loop of HTTP requests from outside.
//
// What to distrust in it:
//
//   - It counts every response as a request, an error page too, and 404s are
//     fast. Here only those with a good status count for throughput, and any
//     error holds the comparison back.
//   - It is a closed loop: it slows down with the server, and its latencies are
//     those that the server let it have. Where it matters measure the workload
//     http with a rate.
//   - It gives every thread connections/threads connections and drops the rest:
//     50 connections on 4 threads are 48. That is noted.
//   - Threads, connections and length are always given.
//   - Its report for people is rounded. A script prints what it counted.
package wrk

import (
	_ "embed"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/base/strictjson"
	"bakeoff/measure/tool"
)

// New returns the tool.
func New() tool.Tool { return wrk{} }

type wrk struct{}

//go:embed report.lua
var script string

// quantiles are those that the script prints.
var quantiles = []struct{ metric, percent string }{
	{"latency-p50", "50"}, {"latency-p90", "90"}, {"latency-p99", "99"}, {"latency-p999", "99.9"},
}

func (wrk) Doc() tool.Doc {
	d := tool.Doc{
		Name: "wrk", Program: "wrk", VersionArgs: []string{"-v"},
		Summary: "wrk as the platform ships it: a closed loop of HTTP requests from outside to the environment's nginx",
		Packages: map[string][]string{
			"debian": {"wrk"}, "alpine": {"wrk"}, "freebsd": {"wrk"}, "dragonfly": {"wrk"}, "openbsd": {"wrk"}, "netbsd": {"wrk"}, "smartos": {"wrk"},
		},
		Metrics: []sample.Metric{
			{Name: "throughput", Unit: "request/s", Better: sample.Higher, Primary: true, Scale: sample.Ratio, Doc: "responses with a status below 400 a second"},
			{Name: "bandwidth", Unit: "B/s", Better: sample.Higher, Scale: sample.Ratio, Doc: "bytes received a second, heads included"},
			{Name: "failed-share", Unit: "1", Better: sample.Lower, Scale: sample.Difference, Doc: "share of what it tried that failed: status, connection, read, write, time"},
		},
		Params: []param.Spec{
			{Name: "threads", Kind: param.Int, Default: "1", Min: 1, Max: 64, Doc: "threads of the generator"},
			{Name: "connections", Kind: param.Int, Default: "50", Min: 1, Max: 10000, Doc: "connections, shared out evenly among the threads, the rest dropped"},
			{Name: "time", Kind: param.Duration, Default: "5s", Doc: "length of the test, whole seconds"},
			{Name: "timeout", Kind: param.Duration, Default: "5s", Doc: "longest wait for a response, whole seconds"},
		},
		Server: tool.Web, State: "carried", Cache: "warm",
		Time:   func(p param.Values) time.Duration { return seconds(p, "time") + 300*time.Millisecond },
		Parser: 1,
		Source: []string{"https://github.com/wg/wrk", "G. Tene, How NOT to Measure Latency (coordinated omission), 2013"},
	}
	for _, q := range quantiles {
		d.Metrics = append(d.Metrics, sample.Metric{Name: q.metric, Unit: "s", Better: sample.Lower, Scale: sample.Ratio,
			Doc: q.percent + "th percentile of the latency of a closed loop, in steps of 1 µs"})
	}
	return d
}

// seconds rounds a length up: wrk takes whole seconds.
func seconds(p param.Values, name string) time.Duration {
	return time.Duration(math.Ceil(p.Duration(name).Seconds())) * time.Second
}

func count(p param.Values, name string) string {
	return strconv.Itoa(int(seconds(p, name)/time.Second)) + "s"
}

const scriptName = "report.lua"

func (wrk) Command(p param.Values, at tool.Place) (tool.Command, error) {
	switch {
	case p.Duration("time") <= 0 || p.Duration("timeout") <= 0:
		return tool.Command{}, fault.New(fault.Invalid, "time and timeout must be more than nothing; write 5s")
	case p.Int("connections") < p.Int("threads"):
		return tool.Command{}, fault.New(fault.Invalid, "connections: %s are fewer than %s threads", p.Text("connections"), p.Text("threads"))
	}
	return tool.Command{
		Argv: []string{"wrk", "--threads", p.Text("threads"), "--connections", p.Text("connections"),
			"--duration", count(p, "time"), "--timeout", count(p, "timeout"), "--script", scriptName, at.URL},
		Files: map[string]string{scriptName: script},
	}, nil
}

// Notes says how many connections there really are.
func (wrk) Notes(p param.Values, _ tool.Place) map[string]string {
	asked, threads := p.Int("connections"), max(1, p.Int("threads"))
	if real := asked / threads * threads; real != asked {
		return map[string]string{"connections": fmt.Sprintf("%d of the %d asked for: wrk shares them out evenly", real, asked)}
	}
	return nil
}

var version = regexp.MustCompile(`^wrk (?:[a-z]+/)?v?(\d+\.\d+\.\d+)`)

func (wrk) Version(out []byte) (map[string]string, error) {
	m := version.FindSubmatch(out)
	if m == nil {
		return nil, fmt.Errorf("%.60q is no version of wrk", out)
	}
	return map[string]string{"version": string(m[1])}, nil
}

// report is the line that the script prints.
type report struct {
	DurationUS float64          `json:"duration_us"`
	Requests   int64            `json:"requests"` // responses, whatever their status
	Bytes      float64          `json:"bytes"`
	Errors     map[string]int64 `json:"errors"`
	LatencyUS  map[string]int64 `json:"latency_us"`
}

func (w wrk) Parse(out tool.Output, p param.Values) (tool.Result, error) {
	var r tool.Result
	line, err := tool.Text(out.Stdout).Line("bakeoff {")
	if err != nil {
		return r, err
	}
	rep, err := decode([]byte("{" + line))
	if err != nil {
		return r, err
	}
	failed := int64(0)
	for class, n := range rep.Errors {
		r.Count(class, n)
		failed += n
	}
	good := rep.Requests - rep.Errors["status"]
	if good <= 0 {
		return r, fault.New(fault.Subject, "not one good response: %d of %d have a bad status, %d other errors",
			rep.Errors["status"], rep.Requests, failed-rep.Errors["status"])
	}
	d, took := w.Doc(), rep.DurationUS/1e6
	r.Work, r.Threads = float64(good), int(p.Int("threads"))
	r.Add(d, "throughput", float64(good)/took)
	if rep.Bytes > 0 {
		r.Add(d, "bandwidth", rep.Bytes/took)
	}
	r.Add(d, "failed-share", float64(failed)/float64(good+failed))
	for _, q := range quantiles {
		if us := rep.LatencyUS[q.percent]; us > 0 {
			r.Add(d, q.metric, float64(us)/1e6)
		}
	}
	return r, nil
}

func decode(line []byte) (report, error) {
	var r report
	if err := strictjson.Decode(line, &r); err != nil {
		return r, fmt.Errorf("the line of the script: %w", err)
	}
	const most = 1 << 50
	for class, n := range r.Errors {
		if n < 0 || n > most || class == "" {
			return r, fmt.Errorf("%d errors of class %.40q", n, class)
		}
	}
	if !(r.DurationUS > 0) || r.Requests < 0 || r.Requests > most {
		return r, fmt.Errorf("%d requests in %g µs", r.Requests, r.DurationUS)
	}
	return r, nil
}
