// Package hey is the tool hey: a closed loop of HTTP/1.1 requests from outside. Pitfalls:
//
//   - "Requests/sec" counts requests that failed, and responses with any status. Here only
//     responses with a status below 300 count for throughput, and any other withholds the
//     verdict.
//   - It counts a response as complete when its body was cut off, by the timeout or by the
//     server. Parse refuses a test with a response as slow as the timeout; nothing shows a body
//     that the server cut off.
//   - It keeps the statuses and latencies of the first million responses, and says nothing of
//     the others. Parse refuses a test whose counts do not add up.
//   - By default, it follows redirects and asks for compressed pages.
//   - It keeps at most 500 idle connections. With more it opens new ones all the time, so
//     Command refuses more connections than that.
//   - It prints times in steps of 0.1 ms. Latencies below 1 ms are absent.
//   - Over HTTP/2 (-h2) all its workers share one connection, it falls back to HTTP/1.1 without
//     a failure, and it never says which one it used. Use h2load for HTTP/2.
//   - It does not print its version; the list of its options tells versions apart.
package hey

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/labeled"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/tool"
	"bakeoff/measure/workload"
)

// New returns the tool.
func New() tool.Tool { return hey{} }

type hey struct{}

// mostIdle is how many idle connections hey keeps.
const mostIdle = 500

// leastLatency is the shortest latency, in seconds, that hey prints with a resolution of a tenth.
const leastLatency = 1e-3

// quantiles are the lines of the latency distribution that are read.
var quantiles = []string{"50", "90", "99"}

func (hey) Doc() tool.Doc {
	d := tool.Doc{
		Name: "hey", Program: "hey", VersionArgs: []string{"-h"},
		Tried: []string{"0.1"},
		Summary: "hey as the platform ships it: a closed loop of HTTP/1.1 requests from outside the environment to " +
			"its nginx",
		Packages: map[string][]string{"alpine": {"hey"}, "debian": {"hey"}, "dragonfly": {"hey"}, "freebsd": {"hey"}},
		Metrics: []sample.Metric{
			sample.Throughput("request/s", "responses with a status below 300, per second"),
			sample.LowerShare("failed-share", "share of requests that failed, by status, connection or timeout"),
		},
		Params: []param.Spec{
			{Name: "threads", Kind: param.Int, Default: "1", Min: 1, Max: 64, Doc: "number of CPUs that the load " +
				"generator uses (-cpus)"},
			{Name: "connections", Kind: param.Int, Default: "50", Min: 1, Max: 10000,
				Doc: "number of workers, each with one request at a time; at most 500 with keepalive"},
			{Name: "time", Kind: param.Duration, Default: "5s", Doc: "length of the test in whole seconds"},
			{Name: "timeout", Kind: param.Duration, Default: "5s", Doc: "timeout of a request in whole seconds"},
			{Name: "keepalive", Kind: param.Bool, Default: "true",
				Doc: "use a connection for many requests; otherwise each request opens its own connection"},
		},
		Server: tool.Web, State: "carried", Cache: "warm",
		Protocol: func(param.Values) string { return workload.HTTP11 },
		Time:     func(p param.Values) time.Duration { return tool.WholeSeconds(p, "time") + 500*time.Millisecond },
		Parser:   1,
		Source:   []string{"hey(1), https://github.com/rakyll/hey"},
	}
	for _, q := range quantiles {
		d.Metrics = append(d.Metrics, sample.LowerRatio("latency-p"+q, "s",
			q+"th percentile of the latency, closed loop, in steps of 0.1 ms; absent below 1 ms"))
	}
	return d
}

// Version implements tool.Tool by the list of options, as hey does not print its version.
func (hey) Version(out []byte) (map[string]string, error) {
	version := "0.1.3 or 0.1.4"
	switch {
	case !bytes.Contains(out, []byte("Usage: hey [options...] <url>")):
		return nil, fmt.Errorf("the output of hey has no list of options: %.60q", out)
	case bytes.Contains(out, []byte("\n  -U ")):
		version = "newer than 0.1.4"
	case !bytes.Contains(out, []byte("Number of workers to run concurrently")):
		version = "0.1.2 or older"
	}
	return map[string]string{"version": version}, nil
}

func (hey) Command(p param.Values, at tool.Place) (tool.Command, error) {
	switch {
	case p.Duration("time") <= 0 || p.Duration("timeout") <= 0:
		return tool.Command{}, fault.New(fault.Invalid, "time and timeout must be positive")
	case p.Bool("keepalive") && p.Int("connections") > mostIdle:
		return tool.Command{}, fault.WithFix(fault.New(fault.Invalid, "connections: hey keeps at most %d idle "+
			"connections, so hey would open new connections all the time with %s", mostIdle, p.Text("connections")),
			"use fewer connections, keepalive: false, or the workload wrk")
	}
	argv := []string{"hey", "-z", tool.Seconds(p, "time") + "s", "-c", p.Text("connections"),
		"-t", tool.Seconds(p, "timeout"), "-cpus", p.Text("threads"), "-disable-compression", "-disable-redirects"}
	if !p.Bool("keepalive") {
		argv = append(argv, "-disable-keepalive")
	}
	return tool.Command{Argv: append(argv, at.URL)}, nil
}

var (
	statusLine = regexp.MustCompile(`(?m)^  \[(\d+)\]\t(\d+) responses$`)
	otherLine  = regexp.MustCompile(`(?m)^  \[(\d+)\]\t`)
)

// counts are the requests of a test.
type counts struct{ good, status, failed float64 }

func (c counts) all() float64 { return c.good + c.status + c.failed }

// countsOf adds up the distributions of statuses and of errors.
func countsOf(text []byte) (c counts, err error) {
	for _, m := range statusLine.FindAllSubmatch(text, -1) {
		code, err1 := strconv.Atoi(string(m[1]))
		n, err2 := strconv.ParseInt(string(m[2]), 10, 50)
		switch {
		case err1 != nil || err2 != nil || code < 100 || code > 999:
			return c, fmt.Errorf("%q: not a status with a count", m[0])
		case code < 300:
			c.good += float64(n)
		default:
			c.status += float64(n)
		}
	}
	for _, m := range otherLine.FindAllSubmatch(statusLine.ReplaceAll(text, nil), -1) {
		n, err := strconv.ParseInt(string(m[1]), 10, 50)
		if err != nil {
			return c, fmt.Errorf("%q: not a count", m[0])
		}
		c.failed += float64(n)
	}
	return c, nil
}

func (h hey) Parse(out tool.Output, p param.Values) (tool.Result, error) {
	var r tool.Result
	text := labeled.Text(out.Stdout)
	took, err1 := text.Number("Total:", "")
	rate, err2 := text.Number("Requests/sec:", "")
	slowest, err3 := text.Number("Slowest:", "")
	n, err4 := countsOf(out.Stdout)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return r, err
	}
	if !(took > 0) || took > 1e6 || rate > 1e9 {
		return r, fmt.Errorf("impossible result: %g requests per second for %g s", rate, took)
	}
	// Both are rounded to four decimals.
	if all := rate * took; math.Abs(all-n.all()) > 0.5+(rate+took)*0.6e-4 {
		return r, fault.WithFix(fmt.Errorf("hey lists only %.0f of %.0f requests as responses or errors: it lists at "+
			"most the first million", n.all(), all), "use a shorter time, or the workload wrk")
	}
	r.Count("status", int64(n.status))
	r.Count("failed", int64(n.failed))
	if n.good <= 0 {
		return r, fault.New(fault.Subject, "no successful response: %.0f with an error status, %.0f other errors", n.status,
			n.failed)
	}
	if timeout := tool.WholeSeconds(p, "timeout"); slowest >= timeout.Seconds() {
		return r, fault.WithFix(fault.New(fault.Subject, "a response took %g s, and the timeout is %v: hey counts "+
			"a response as complete even if the timeout cut off its body", slowest, timeout), "use a longer timeout")
	}
	if asked := tool.WholeSeconds(p, "time").Seconds(); took < 0.9*asked {
		r.OwnTime = fmt.Sprintf("hey reports %g s instead of the %g s that the test lasts", took, asked)
	}
	d := h.Doc()
	r.Work, r.Threads = n.good, int(p.Int("threads"))
	r.Add(d, "throughput", n.good/took)
	r.Add(d, "failed-share", (n.status+n.failed)/n.all())
	return r, h.addQuantiles(&r, out.Stdout)
}

// addQuantiles adds the percentiles of the latency distribution.
func (h hey) addQuantiles(r *tool.Result, text []byte) error {
	for _, q := range quantiles {
		m := regexp.MustCompile(`(?m)^  ` + q + `% in (\S+) secs$`).FindSubmatch(text)
		if m == nil { // of few responses
			continue
		}
		s, err := labeled.Decimal(string(m[1]))
		if err != nil {
			return fmt.Errorf("the %sth percentile: %w", q, err)
		}
		if s >= leastLatency {
			r.Add(h.Doc(), "latency-p"+q, s)
		}
	}
	return nil
}
