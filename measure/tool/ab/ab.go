// Package ab is the tool ab of Apache: a closed loop of HTTP/1.0 requests from outside.
// Pitfalls:
//
//   - It speaks HTTP/1.0, and keeps a connection only if the server answers so (-k).
//   - It counts every response as complete, also an error page. Here only responses with a
//     status below 300 count for throughput, and any other withholds the verdict.
//   - It takes a response of another length than the first one for failed, unless
//     varying says that the page changes.
//   - It has one thread. A server with two CPUs may outrun it: the gate ceiling says so.
//   - It ends at its number of requests or at its time, whichever comes first. Command gives
//     it more requests than it can send; a test that was shorter fails the gate own-time.
//   - Its table prints whole milliseconds. Parse reads the file of -e instead, which has
//     three decimals.
package ab

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/labeled"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/tool"
	"bakeoff/measure/workload"
)

// New returns the tool.
func New() tool.Tool { return ab{tool.VersionBy(`^This is ApacheBench, Version (\d+\.\d+)`)} }

type ab struct{ tool.Versioned }

// mostRate is more than ab can send, in requests per second. It keeps 32 bytes for each
// request that it was asked for.
const mostRate = 400_000

// quantiles are those that are read of the file of -e.
var quantiles = []struct{ metric, percent string }{
	{"latency-p50", "50"}, {"latency-p90", "90"}, {"latency-p99", "99"},
}

func (ab) Doc() tool.Doc {
	packages := map[string][]string{"alpine": {"apache2-utils"}, "debian": {"apache2-utils"},
		"dragonfly": {"apache24"}, "freebsd": {"apache24"}}
	d := tool.Doc{
		Name: "ab", Program: "ab", VersionArgs: []string{"-V"},
		Tried: []string{"2.3"},
		Summary: "ab as the platform ships it: a closed loop of HTTP/1.0 requests from outside the environment to " +
			"its nginx",
		Packages: packages,
		Metrics: []sample.Metric{
			sample.Throughput("request/s", "responses with a status below 300, per second"),
			sample.LowerShare("failed-share", "share of requests that failed, by status, connect, receive, length "+
				"or exception"),
		},
		Params: []param.Spec{
			{Name: "connections", Kind: param.Int, Default: "50", Min: 1, Max: 20000, Doc: "number of requests in " +
				"progress at a time"},
			{Name: "time", Kind: param.Duration, Default: "5s", Doc: "length of the test in whole seconds"},
			{Name: "timeout", Kind: param.Duration, Default: "5s", Doc: "timeout of a response in whole seconds"},
			{Name: "keepalive", Kind: param.Bool, Default: "true",
				Doc: "use a connection for many requests; otherwise each request opens its own connection"},
			{Name: "varying", Kind: param.Bool, Default: "false",
				Doc: "whether the length of the page may vary; with false, a response with another length than the " +
					"first counts as failed"},
		},
		Server: tool.Web, State: "carried", Cache: "warm",
		Protocol: func(param.Values) string { return workload.HTTP10 },
		Time:     func(p param.Values) time.Duration { return tool.WholeSeconds(p, "time") + 500*time.Millisecond },
		Parser:   1,
		Source:   []string{"ab(1), https://httpd.apache.org/docs/2.4/programs/ab.html"},
	}
	for _, q := range quantiles {
		d.Metrics = append(d.Metrics, sample.LowerRatio(q.metric, "s",
			q.percent+"th percentile of the latency, closed loop, in steps of 1 µs"))
	}
	return d
}

// percentiles is the file of -e.
const percentiles = "percentiles.csv"

func (ab) Command(p param.Values, at tool.Place) (tool.Command, error) {
	if p.Duration("time") <= 0 || p.Duration("timeout") <= 0 {
		return tool.Command{}, fault.New(fault.Invalid, "time and timeout must be positive")
	}
	most := min(tool.WholeSeconds(p, "time").Seconds()*mostRate, math.MaxInt32)
	// -n after -t, which sets it, too.
	argv := []string{"ab", "-q", "-r", "-t", tool.Seconds(p, "time"), "-n", strconv.Itoa(int(most)),
		"-c", p.Text("connections"), "-s", tool.Seconds(p, "timeout"), "-e", percentiles}
	if p.Bool("keepalive") {
		argv = append(argv, "-k")
	}
	if p.Bool("varying") {
		argv = append(argv, "-l")
	}
	return tool.Command{Argv: append(argv, at.URL), Keep: map[string]string{percentiles: percentiles}}, nil
}

func (a ab) Parse(out tool.Output, p param.Values) (tool.Result, error) {
	var r tool.Result
	text := labeled.Text(out.Stdout)
	complete, err1 := text.Number("Complete requests:", "")
	failed, err2 := text.Number("Failed requests:", "")
	took, err3 := text.Number("Time taken for tests:", "")
	if err := errors.Join(err1, err2, err3); err != nil {
		return r, err
	}
	// ab prints this line only if there are any.
	status := 0.0
	if strings.Contains(string(out.Stdout), "Non-2xx responses:") {
		var err error
		if status, err = text.Number("Non-2xx responses:", ""); err != nil {
			return r, err
		}
	}
	const most = 1 << 50
	if complete > most || failed > most || status > most || !(took > 0) {
		return r, fmt.Errorf("impossible counts: %g requests in %g s, %g failed, %g with an error "+
			"status", complete, took, failed, status)
	}
	r.Count("status", int64(status))
	r.Count("failed", int64(failed))
	bad := status + failed
	good := complete - bad
	if good <= 0 {
		return r, fault.New(fault.Subject, "no successful response: %.0f with an error status, %.0f other errors", status,
			failed)
	}
	asked := tool.WholeSeconds(p, "time").Seconds()
	if took < 0.9*asked {
		r.OwnTime = fmt.Sprintf("ab reports %g s instead of the %g s that the test lasts", took, asked)
	}
	d := a.Doc()
	r.Work, r.Threads = good, 1
	r.Add(d, "throughput", good/took)
	r.Add(d, "failed-share", bad/complete)
	return r, a.addQuantiles(&r, string(out.Files[percentiles]))
}

// addQuantiles adds percentiles of the file of -e: lines of a percentage and milliseconds.
func (a ab) addQuantiles(r *tool.Result, text string) error {
	seen := map[string]string{}
	for line := range strings.Lines(text) {
		percent, ms, _ := strings.Cut(strings.TrimSpace(line), ",")
		seen[percent] = ms
	}
	for _, q := range quantiles {
		ms, err := labeled.Decimal(seen[q.percent])
		if err != nil {
			return fmt.Errorf("%s: the %sth percentile: %w", percentiles, q.percent, err)
		}
		r.AddKnown(a.Doc(), q.metric, ms/1e3)
	}
	return nil
}
