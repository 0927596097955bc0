// Package connect measures how long a server of an environment takes to answer a new
// connection from outside. Nothing has to run in the environment for it but the server,
// so it may be a guest without an agent.
package connect

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/base/strictjson"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/http"
	"bakeoff/reach/wire"
)

// New returns the workload.
func New() workload.Parser { return Workload{} }

// Workload describes the workload and reads its trials.
type Workload struct{}

// Name is that of the workload and of its loop.
const Name = "connect"

// The parameters.
const (
	ParamAnswer  = "answer"
	ParamTime    = "time"
	ParamTimeout = "timeout"
)

// params are those that the workload and its loop share.
var params = []param.Spec{
	{Name: ParamAnswer, Kind: param.Text, Default: "http:80/", Doc: "which answer of the server to wait for: " +
		"tcp:PORT (the server accepts the connection or, in a guest without an agent, sends its first byte), " +
		"ssh:PORT (the server sends the banner of SSH) or http:PORT/PATH (a GET of /PATH has the status 200)"},
	{Name: ParamTime, Kind: param.Duration, Default: "2s", Doc: "length of the timed part of a trial"},
	{Name: ParamTimeout, Kind: param.Duration, Default: "5s",
		Doc: "longest wait for an answer; a later answer counts as an error"},
}

// Doc describes the workload.
func (Workload) Doc() workload.Doc {
	var metrics []sample.Metric
	for _, q := range http.Quantiles() {
		what := fmt.Sprintf("%gth percentile of", q.Percent)
		if q.Percent == 100 {
			what = "maximum of"
		}
		m := sample.LowerRatio(q.Metric, "s", what+" the time from the start of the connection until the server has answered")
		m.Primary = q.Percent == 50
		metrics = append(metrics, m)
	}
	return workload.Doc{
		Name: Name, Parser: 1,
		Summary: "How long the environment's server takes to answer new connections from outside, one after another",
		Metrics: append(metrics, http.CPUPerRequest, workload.JoulesPerRequest,
			workload.GeneratorJoulesPerRequest),
		Params: params,
		Peer:   true, Outside: true,
		State: "carried", Cache: "warm",
		Time: func(p param.Values) time.Duration { return p.Duration(ParamTime) },
		Source: []string{"RFC 9293, TCP, 3.5: establishing a connection", "RFC 4253, SSH, 4.2: protocol version exchange",
			"HdrHistogram, https://hdrhistogram.org"},
	}
}

// Parse reads the samples of a trial: the quantiles of the histogram. A trial without any
// answer has failed.
func (Workload) Parse(raw workload.Raw, p param.Values) ([]sample.Value, error) {
	values, err := parseTrial(raw, p)
	return values, fault.Op(Name+": "+workload.Work, err)
}

func parseTrial(raw workload.Raw, p param.Values) ([]sample.Value, error) {
	b, ok := raw[workload.Work]
	if !ok {
		return nil, workload.ErrNoBlob
	}
	var r wire.Result
	if err := strictjson.Decode(b, &r); err != nil {
		return nil, err
	}
	h, err := http.DecodeHistogram(r.Histogram)
	if err != nil {
		return nil, fmt.Errorf("histogram: %w", err)
	}
	if err := checkResult(r, p, h.TotalCount()); err != nil {
		return nil, err
	}
	failed := http.Failures(r.Errors)
	if r.Work == 0 {
		return nil, fault.New(fault.Subject, "none of %d connections was answered: %s", failed, classes(r.Errors))
	}
	if !r.Check.Verified {
		return nil, fault.New(fault.Subject, "the answer %q was not verified", r.Check.Answer)
	}
	values := http.Latencies(h, 0)
	if !slices.Equal(r.Values, values) {
		return nil, errors.New("the values of the result do not match its histogram")
	}
	all := r.Work + float64(failed)
	busy, known, err := raw.Busy()
	if cost := busy / all; known && cost > 0 && !math.IsInf(cost, 0) {
		values = append(values, http.CPUPerRequest.Of(cost))
	}
	energy, cerr := workload.Costs(raw, all, 0, workload.JoulesPerRequest, workload.GeneratorJoulesPerRequest)
	return append(values, energy...), errors.Join(err, cerr)
}

// classes lists the classes of errors with their numbers.
func classes(all map[string]int64) string {
	var out []string
	for _, class := range slices.Sorted(maps.Keys(all)) {
		out = append(out, fmt.Sprintf("%d %s", all[class], class))
	}
	return strings.Join(out, ", ")
}

// checkResult refuses a result of another loop, or one that contradicts itself or its
// parameters.
func checkResult(r wire.Result, p param.Values, count int64) error {
	switch {
	case r.Schema != wire.WorkSchema:
		return fmt.Errorf("schema is %q, expected %q", r.Schema, wire.WorkSchema)
	case r.Loop != Name:
		return fmt.Errorf("the result belongs to another loop: %q", r.Loop)
	case r.ElapsedNS <= 0 || r.Work != float64(count):
		return fmt.Errorf("inconsistent result: %g connections in %d ns with %d latencies", r.Work, r.ElapsedNS, count)
	case r.Work == 0 && len(r.Errors) == 0:
		return errors.New("the loop tried no connection")
	}
	for name, want := range p {
		if got, ok := r.Params[name]; ok && got != want {
			return fmt.Errorf("the loop ran with %s=%s instead of %s", name, got, want)
		}
	}
	for class, n := range r.Errors {
		if n < 1 || n > http.MaxRequests {
			return fmt.Errorf("impossible count: %d errors of class %q", n, class)
		}
	}
	return nil
}
