// Package siege is the tool siege: users that request pages from outside, with
// or without pauses. Pitfalls:
//
//   - It prints two decimals. A mean response time below 10 ms has one digit or
//     none: 0.00 is unknown, and absent. Parse computes rates from counts.
//   - "transactions" includes error pages, and "failed" does not: a server that
//     answers every request with 404 has an availability of 100 %. Here only
//     "successful_transactions" count, and all others have failed.
//   - It also fetches the links of a page unless --no-parser is set.
//   - Its timer counts whole seconds of the clock, so the first one is short: a
//     test of 1 s lasted 0.19 s. Command adds one second.
//   - On a persistent connection it never sees the end of a response without a
//     length (chunked). Such responses need a connection each.
//   - It cancels its threads at any point. A thread inside malloc keeps the lock,
//     and siege hangs: once in some hundreds of tests of 2 s on a loaded machine.
//     It is then killed, and the block is void.
//   - It writes ~/.siege at its start, so it gets a home directory of its own, and
//     a configuration that does not depend on the user.
package siege

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/tool"
	"bakeoff/measure/workload"
)

// New returns the tool.
func New() tool.Tool { return siege{tool.VersionBy(`(?m)^SIEGE (\d+\.\d+\.\d+)`)} }

type siege struct{ tool.Versioned }

func (siege) Doc() tool.Doc {
	return tool.Doc{
		Name: "siege", Program: "siege", VersionArgs: []string{"--version"},
		Tried:    []string{"4.0", "4.1"},
		Summary:  "siege as the platform ships it: concurrent users that request pages from the environment's nginx",
		Packages: tool.Everywhere("siege"),
		Metrics: []sample.Metric{
			sample.Throughput("request/s",
				"responses with a status below 400, per second; siege prints its run time with two decimals"),
			sample.LowerRatio("response-mean", "s", "mean response time, in steps of 10 ms; absent below 10 ms"),
			sample.LowerRatio("response-max", "s", "longest response time, in steps of 10 ms; absent below 10 ms"),
			sample.LowerRatio("concurrency", "request",
				"mean number of requests in progress, in steps of 0.01: the sum of all response times divided by "+
					"the elapsed time. With pauses (delay), this number rises with the response time; without "+
					"pauses, it is near the number of users"),
			sample.LowerShare("failed-share", "share of requests that failed"),
		},
		Params: []param.Spec{
			{Name: "connections", Kind: param.Int, Default: "20", Min: 1, Max: 1000, Doc: "number of concurrent users"},
			{Name: "time", Kind: param.Duration, Default: "5s",
				Doc: "minimum length of the test in whole seconds; the test may last one second longer"},
			{Name: "timeout", Kind: param.Duration, Default: "5s", Doc: "timeout of a response in whole seconds"},
			{Name: "keepalive", Kind: param.Bool, Default: "true",
				Doc: "use a connection for many requests; otherwise each request opens its own connection"},
			{Name: "delay", Kind: param.Duration,
				Doc: "maximum of a user's random pause before a request; when not set, there are no pauses (--benchmark)"},
		},
		Server: tool.Web, State: "carried", Cache: "warm",
		Protocol: func(param.Values) string { return workload.HTTP11 },
		Time:     func(p param.Values) time.Duration { return tool.WholeSeconds(p, "time") + 1500*time.Millisecond },
		Parser:   2,
		Source:   []string{"siege(1), https://www.joedog.org/siege-home"},
	}
}

// configText is siege's configuration: everything that could differ between
// machines.
func configText(p param.Values) string {
	connection := "close"
	if p.Bool("keepalive") {
		connection = "keep-alive"
	}
	return "verbose = false\nquiet = false\ncolor = off\nlogging = false\nshow-logfile = false\n" +
		"json_output = true\nparser = false\nprotocol = HTTP/1.1\nconnection = " + connection + "\n" +
		"limit = 1000\ntimeout = " + tool.Seconds(p, "timeout") + "\n" +
		// siege gives up after this many errors; Parse counts them as
		// failed.
		"failures = 1000000\ncache = false\naccept-encoding = \n"
}

const (
	configName = "siegerc"
	listName   = "urls"
)

func (siege) Command(p param.Values, at tool.Place) (tool.Command, error) {
	if p.Duration("time") <= 0 || p.Duration("timeout") <= 0 {
		return tool.Command{}, fault.New(fault.Invalid, "time and timeout must be positive")
	}
	cmd := tool.Command{
		Argv: []string{"siege", "--rc=" + at.Dir + "/" + configName, "--json-output", "--no-parser", "--benchmark",
			"--concurrent=" + p.Text("connections"), "--time=" + strconv.Itoa(int(tool.WholeSeconds(p, "time")/time.Second)+
				1) + "S"},
		Files: map[string]string{configName: configText(p)},
	}
	if d := p.Duration("delay"); d > 0 {
		cmd.Argv[4] = "--delay=" + strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
	}
	if len(at.URLs) == 0 {
		cmd.Argv = append(cmd.Argv, at.URL)
		return cmd, nil
	}
	cmd.Files[listName] = strings.Join(at.URLs, "\n") + "\n"
	cmd.Argv = append(cmd.Argv, "--file="+at.Dir+"/"+listName)
	return cmd, nil
}

// report is the part of siege's JSON that is read.
type report struct {
	Transactions *float64 `json:"transactions"` // error pages included
	Elapsed      *float64 `json:"elapsed_time"`
	Mean         float64  `json:"response_time"`
	Longest      float64  `json:"longest_transaction"`
	Concurrency  float64  `json:"concurrency"`
	Succeeded    *float64 `json:"successful_transactions"`
	Failed       *float64 `json:"failed_transactions"`
}

func (s siege) Parse(out tool.Output, p param.Values) (tool.Result, error) {
	var r tool.Result
	rep, err := decodeReport(out.Stdout)
	if err != nil {
		return r, err
	}
	status := max(0, *rep.Transactions-*rep.Succeeded)
	failed := *rep.Failed + status
	r.Count("status", int64(status))
	r.Count("failed", int64(*rep.Failed))
	if *rep.Succeeded == 0 {
		return r, fault.New(fault.Subject, "no successful response: %.0f with an error status, %.0f other errors", status,
			*rep.Failed)
	}
	switch asked := tool.WholeSeconds(p, "time").Seconds(); {
	case *rep.Elapsed < 0.9*asked && failed > 0:
		return r, fault.New(fault.Subject, "siege gave up after %g of %g s, after %.0f failures", *rep.Elapsed, asked, failed)
	case *rep.Elapsed < 0.9*asked:
		r.OwnTime = fmt.Sprintf("siege reports %g s instead of the %g s that the test lasts, without a failure", *rep.Elapsed,
			asked)
	}
	d := s.Doc()
	r.Work = *rep.Succeeded
	// Its users are threads that wait most of the time. As a generator it
	// is saturated when it uses one whole CPU.
	r.Threads = 1
	r.Add(d, "throughput", *rep.Succeeded / *rep.Elapsed)
	r.Add(d, "failed-share", failed/(failed+*rep.Succeeded))
	r.AddKnown(d, "response-mean", rep.Mean)
	r.AddKnown(d, "response-max", rep.Longest)
	r.AddKnown(d, "concurrency", rep.Concurrency)
	return r, nil
}

// decodeReport reads the one JSON object; notes may precede it.
func decodeReport(out []byte) (report, error) {
	var r report
	at := bytes.IndexByte(out, '{')
	if at < 0 {
		return r, errors.New("siege printed no JSON")
	}
	if err := json.Unmarshal(out[at:], &r); err != nil {
		return r, fmt.Errorf("the output of siege is not valid JSON: %w", err)
	}
	for name, member := range map[string]*float64{"transactions": r.Transactions, "elapsed_time": r.Elapsed,
		"successful_transactions": r.Succeeded, "failed_transactions": r.Failed} {
		if member == nil {
			return r, fmt.Errorf("siege's JSON has no %q", name)
		}
	}
	const most = 1 << 50
	for _, v := range []float64{*r.Transactions, *r.Succeeded, *r.Failed, *r.Elapsed, r.Mean, r.Longest, r.Concurrency} {
		if v < 0 || v > most {
			return r, fmt.Errorf("siege's JSON contains the number %g", v)
		}
	}
	return r, nil
}
