// Package h2load is the tool h2load of nghttp2: a closed loop of requests from outside, over
// HTTP/1.1 or HTTP/2. Pitfalls:
//
//   - It negotiates the protocol and falls back to HTTP/1.1 without a failure. Its output
//     names the protocol, and Parse reads it.
//   - It counts every response below 400 as succeeded, but its rate and its latencies contain
//     failed requests too. Here only responses that succeeded count for throughput, and a
//     failed request withholds the verdict.
//   - It divides by the length that it was asked for, also if its timer came late. "finished
//     in" is how long the test took; a test that was longer fails the gate own-time.
//   - Over HTTP/1.1 its option for streams pipelines requests, which browsers do not do.
//     Command refuses it.
//   - It is a closed loop: if latency matters, use the workload http with a rate.
package h2load

import (
	"fmt"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/labeled"
	"bakeoff/base/lazy"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/tool"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/http"
)

// New returns the tool.
func New() tool.Tool { return h2load{tool.VersionBy(`^h2load nghttp2/(\d+\.\d+\.\d+)`)} }

type h2load struct{ tool.Versioned }

func (h2load) Doc() tool.Doc {
	return tool.Doc{
		Name: "h2load", Program: "h2load", VersionArgs: []string{"--version"},
		Tried: []string{"1.52"},
		Summary: "h2load as the platform ships it: a closed loop of HTTP/1.1 or HTTP/2 requests from outside the " +
			"environment to its nginx",
		Packages: map[string][]string{"alpine": {"nghttp2"}, "debian": {"nghttp2-client"}, "dragonfly": {"nghttp2"},
			"freebsd": {"nghttp2"}},
		Metrics: []sample.Metric{
			sample.Throughput("request/s", "responses with a status below 400, per second"),
			sample.LowerRatio("latency-mean", "s", "mean latency of all requests, closed loop, failed ones included"),
			sample.LowerRatio("latency-max", "s", "longest latency, closed loop"),
			sample.LowerShare("failed-share", "share of requests that failed, by status, connection or timeout"),
		},
		Params: []param.Spec{
			{Name: "protocol", Kind: param.Text, Default: http.One, Enum: []string{http.One, http.Two},
				Doc: "protocol of the requests. With tls, h2load and the server negotiate HTTP/2; without tls, " +
					"h2load uses HTTP/2 without asking (prior knowledge). The page of the run shows which protocol " +
					"was really used"},
			{Name: "streams", Kind: param.Int, Default: "1", Min: 1, Max: 1000,
				Doc: "number of requests at a time on each connection; more than 1 needs HTTP/2"},
			{Name: "threads", Kind: param.Int, Default: "1", Min: 1, Max: 64, Doc: "number of threads of the load " +
				"generator"},
			{Name: "connections", Kind: param.Int, Default: "50", Min: 1, Max: 10000, Doc: "number of connections"},
			{Name: "time", Kind: param.Duration, Default: "5s", Doc: "length of the test in whole seconds"},
			{Name: "timeout", Kind: param.Duration, Default: "5s",
				Doc: "time in whole seconds after which h2load closes an active connection without a response"},
		},
		Server: tool.Web, State: "carried", Cache: "warm",
		Time:   func(p param.Values) time.Duration { return tool.WholeSeconds(p, "time") + 500*time.Millisecond },
		Parser: 1,
		Source: []string{"h2load(1), https://nghttp2.org/documentation/h2load.1.html", "RFC 9113, HTTP/2"},
	}
}

func (h2load) Command(p param.Values, at tool.Place) (tool.Command, error) {
	switch {
	case p.Duration("time") <= 0 || p.Duration("timeout") <= 0:
		return tool.Command{}, fault.New(fault.Invalid, "time and timeout must be positive")
	case p.Int("connections") < p.Int("threads"):
		return tool.Command{}, fault.New(fault.Invalid, "connections: %s is fewer than the number of threads, %s",
			p.Text("connections"), p.Text("threads"))
	case p.Int("streams") > 1 && p.Text("protocol") != http.Two:
		return tool.Command{}, fault.WithFix(fault.New(fault.Invalid, "streams: %s streams on a connection need HTTP/2",
			p.Text("streams")), "set protocol: http/2, or remove streams")
	}
	argv := []string{"h2load", "--clients=" + p.Text("connections"), "--threads=" + p.Text("threads"),
		"--max-concurrent-streams=" + p.Text("streams"), "--duration=" + tool.Seconds(p, "time"),
		"--connection-active-timeout=" + tool.Seconds(p, "timeout")}
	if p.Text("protocol") != http.Two {
		argv = append(argv, "--h1")
	}
	return tool.Command{Argv: append(argv, at.URL)}, nil
}

var (
	countsLine = lazy.Compile(
		`(?m)^requests: (\d+) total, \d+ started, (\d+) done, (\d+) succeeded, (\d+) failed, ` +
			`(\d+) errored, (\d+) timeout\s*$`,
	)
	endLine = lazy.Compile(`(?m)^finished in (\S+), \S+ req/s, \S+/s\s*$`)
	// Later versions print quantiles between the maximum and the mean, and shorter names.
	timesHead = lazy.Compile(`(?m)^ +(min +max .*?) +sd +\+/- sd\s*$`)
	timesLine = lazy.Compile(`(?m)^(?:time for request|request +): +(.*?)\s*$`)
	durations = map[string]float64{"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60}
)

// names are the protocols as h2load prints them; h2c is HTTP/2 without TLS.
var names = map[string]string{"h2": workload.HTTP2, "h2c": workload.HTTP2, "http/1.1": workload.HTTP11}

func (h h2load) Parse(out tool.Output, p param.Values) (tool.Result, error) {
	var r tool.Result
	counts, end := countsLine.FindSubmatch(out.Stdout), endLine.FindSubmatch(out.Stdout)
	if counts == nil || end == nil {
		return r, fmt.Errorf("h2load did not print its counts: %.200q", out.Stdout)
	}
	var n [6]float64 // total, done, succeeded, failed, errored, timeout
	for i := range n {
		var err error
		if n[i], err = labeled.Decimal(string(counts[i+1])); err != nil || n[i] > 1<<50 {
			return r, fmt.Errorf("%q: not counts (%w)", counts[0], err)
		}
	}
	took, err := labeled.Quantity(string(end[1]), durations)
	if err != nil {
		return r, err
	}
	good, bad := n[2], n[3] // which includes those with errors and timeouts
	r.Count("failed", int64(n[3]))
	r.Count("timeout", int64(n[5]))
	if good <= 0 {
		return r, fault.New(
			fault.Subject,
			"no successful response: %.0f failed, %.0f of them with an error, and %.0f timeouts",
			n[3],
			n[4],
			n[5],
		)
	}
	protocol, err := labeled.Text(out.Stdout).Line("Application protocol:")
	if err != nil {
		return r, err
	}
	if r.Protocol = names[strings.TrimSpace(protocol)]; r.Protocol == "" {
		return r, fmt.Errorf("h2load names an unknown protocol, %.40q", protocol)
	}
	if want := p.Text("protocol"); (want == http.Two) != (r.Protocol == workload.HTTP2) {
		return r, fault.WithFix(fault.New(fault.Subject, "the requests used the protocol %s instead of %s", r.Protocol, want),
			"set protocol: "+http.One+", or use a server that offers "+want)
	}
	asked := tool.WholeSeconds(p, "time").Seconds()
	if took < 0.9*asked || took > 1.1*asked {
		r.OwnTime = fmt.Sprintf("h2load finished in %g s, and divides by the %g s that the test lasts", took, asked)
	}
	d := h.Doc()
	r.Work, r.Threads = good, int(p.Int("threads"))
	r.Add(d, "throughput", good/asked)
	r.Add(d, "failed-share", bad/(good+bad))
	return r, h.addTimes(&r, out.Stdout)
}

// addTimes adds what the table of times says of requests.
func (h h2load) addTimes(r *tool.Result, text []byte) error {
	head, line := timesHead.FindSubmatch(text), timesLine.FindSubmatch(text)
	if head == nil || line == nil {
		return fmt.Errorf("h2load printed no table of times: %.200q", text)
	}
	words := strings.Fields(string(line[1]))
	for i, column := range strings.Fields(string(head[1])) {
		if column != "mean" && column != "max" {
			continue
		}
		if i >= len(words) {
			return fmt.Errorf("%q: no %s", line[0], column)
		}
		v, err := labeled.Quantity(words[i], durations)
		if err != nil {
			return err
		}
		r.AddKnown(h.Doc(), "latency-"+column, v)
	}
	return nil
}
