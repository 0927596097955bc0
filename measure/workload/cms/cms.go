// Package cms is a web application with its database: DAViCal as the system
// packages it (PHP and PostgreSQL), behind nginx and PHP's own FastCGI manager,
// with a seeded database that is restored before each trial.
//
// The pages are the public ones: the login page, whole public calendars, and
// single events. Each needs a database connection and several queries. Their
// content is known, so the workload verifies every response.
package cms

import (
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/tool"
	"bakeoff/measure/tool/siege"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/http"
	"bakeoff/reach/wire"
)

// Workload describes the workload and reads its trials.
type Workload struct{}

// New returns the workload.
func New() workload.Parser { return Workload{} }

// Values of the parameters generator and pages.
const (
	Native = "native"
	All    = "all"
)

// restoreTime is about how long a trial takes in addition to its timed part.
const restoreTime = 2 * time.Second

// Doc describes the workload.
func (Workload) Doc() workload.Doc {
	own := []param.Spec{
		{Name: "generator", Kind: param.Text, Default: Native, Enum: []string{Native, "siege"},
			Doc: "load generator; native compares every response body byte by byte, siege checks only the status of " +
				"responses"},
		{Name: "pages", Kind: param.Text, Default: All, Enum: []string{All, "login", "calendar", "event"},
			Doc: "which pages to request in turn: the login page, the calendar of every user, one event of every " +
				"user, or all of these pages"},
		{Name: "connections", Kind: param.Int, Default: "20", Min: 1, Max: 1000, Doc: "number of concurrent clients"},
		{Name: "delay", Kind: param.Duration,
			Doc: "maximum of a client's random pause before a request, with siege; when not set, there are no pauses"},
		{Name: "time", Kind: param.Duration, Default: "5s", Doc: "length of the timed part of a trial, with siege " +
			"in whole seconds"},
		{Name: "timeout", Kind: param.Duration, Default: "10s", Doc: "longest wait for a response; a later response " +
			"counts as an error"},
		{Name: "keepalive", Kind: param.Bool, Default: "false", Doc: "use a connection for many requests; otherwise " +
			"each request opens its own connection. Not available for the login page with siege: the response has " +
			"no length, so siege would wait until the connection closes"},
		{Name: "processes", Kind: param.Int, Default: "4", Min: 1, Max: 256, Doc: "number of PHP processes"},
		{Name: "users", Kind: param.Int, Default: "20", Min: 1, Max: 1000,
			Doc: "number of users in the database, each with a public calendar"},
		{Name: "events", Kind: param.Int, Default: "20", Min: 1, Max: 1000, Doc: "number of events in each calendar"},
		{Name: "volume", Kind: param.Text, Default: "/data", Doc: "declared path of the volume for the database"},
	}
	return workload.Doc{
		Name: "cms",
		Summary: "A web application (DAViCal: PHP and PostgreSQL behind nginx) under load from outside; bakeoff " +
			"restores the database before each trial",
		Metrics:  metrics(),
		Params:   append(own, tool.DatabaseParams()...),
		Peer:     true,
		Volume:   "volume",
		Packages: map[string][]string{"debian": {"davical", "nginx", "php-fpm", "php-pgsql", "postgresql"}},
		Programs: []string{"nginx", "initdb"},
		// siege is needed only with generator=siege; Prepare checks
		// that.
		State: "restored", Cache: "warm",
		Time:   func(p param.Values) time.Duration { return p.Duration("time") + restoreTime },
		Parser: 2,
		Source: []string{
			"siege -f list -t5m -d1 -c20, and -b -c1, of a web CMS with PHP and PostgreSQL: I. Voras, Benchmark of " +
				"FreeBSD, DragonFly, NetBSD and Linux, 2004",
			"RFC 4791, CalDAV", "RFC 5545, iCalendar", "RFC 9112, HTTP/1.1",
		},
	}
}

// metrics are those of the native generator in a closed loop, and additional
// ones of siege.
func metrics() []sample.Metric {
	out := lists.Filter((http.Workload{}).Doc().Metrics, func(m sample.Metric) bool { return m.Name != "queued-share" })
	for _, m := range siege.New().Doc().Metrics {
		if m.Name == "response-mean" || m.Name == "response-max" || m.Name == "concurrency" ||
			m.Name == "failed-share" {
			m.Doc += "; only with siege"
			out = append(out, m)
		}
	}
	return out
}

// Parse reads the samples of a trial.
func (Workload) Parse(raw workload.Raw, p param.Values) ([]sample.Value, error) {
	if p.Text("generator") == Native {
		return http.Workload{}.Parse(raw, p)
	}
	values, err := parseSiege(raw, p)
	return values, fault.Op("cms", err)
}

func parseSiege(raw workload.Raw, p param.Values) ([]sample.Value, error) {
	_, r, err := readSiege(raw, p)
	if err != nil {
		return nil, err
	}
	costs, err := workload.Costs(raw, r.Work, 0, http.CPUPerRequest, workload.JoulesPerRequest,
		workload.GeneratorJoulesPerRequest)
	return append(r.Values, costs...), err
}

// readSiege decodes a trial and parses it with the tool.
func readSiege(raw workload.Raw, p param.Values) (res wire.ExecResult, r tool.Result, err error) {
	if res, err = raw.Exec(workload.ExecBlob); err != nil {
		return res, r, err
	}
	if res.Code != 0 || res.Signal != "" || res.Truncated {
		return res, r, fault.New(fault.Lab, "siege failed with exit code %d %s: %.300q", res.Code, res.Signal, res.Stderr)
	}
	r, err = siege.New().Parse(tool.Output{Stdout: res.Stdout, Stderr: res.Stderr,
		Elapsed: time.Duration(res.ElapsedNS)}, p)
	return res, r, err
}

// Diagnose tells the gates of failed requests, and of a siege that had no CPU
// time left. What the native generator says of itself they read by themselves.
func (Workload) Diagnose(raw workload.Raw, p param.Values) (workload.Diagnostics, bool) {
	if p.Text("generator") == Native {
		return workload.Diagnostics{}, false
	}
	res, r, err := readSiege(raw, p)
	if err != nil {
		return workload.Diagnostics{}, false // Parse says so
	}
	d := workload.LoadOf(res, r.Work, r.Threads)
	d.Errors, d.OwnTime = r.Errors, r.OwnTime
	return d, true
}
