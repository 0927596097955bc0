// Package cms is the workload of a web application with its database: DAViCal
// as the system packages it (PHP and PostgreSQL), behind nginx and PHP's own
// FastCGI manager, with a seeded database that is restored before each trial.
//
// The pages are those that anybody may see: the page to log in, whole public
// calendars, and single events. Each takes a connection to the database and
// several queries. What is in them is known, so a response is not only there
// but right.
package cms

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/database"
	"bakeoff/measure/tool"
	"bakeoff/measure/tool/siege"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/http"
	"bakeoff/reach/wire"
)

// Workload measures the application.
type Workload struct{}

// New returns the workload.
func New() workload.Workload { return Workload{} }

// restoreTime is what a trial takes beside its timed part, about.
const restoreTime = 2 * time.Second

// Doc describes the workload.
func (Workload) Doc() workload.Doc {
	own := []param.Spec{
		{Name: "generator", Kind: param.Text, Default: native, Enum: []string{native, "siege"}, Doc: "load generator; the native one compares every body byte for byte, siege sees statuses"},
		{Name: "pages", Kind: param.Text, Default: all, Enum: []string{all, "login", "calendar", "event"}, Doc: "which pages are asked for in turn: the one to log in, everybody's calendar, an event of each, or all of them"},
		{Name: "connections", Kind: param.Int, Default: "20", Min: 1, Max: 1000, Doc: "clients at a time"},
		{Name: "delay", Kind: param.Duration, Doc: "each client of siege pauses for up to this before a request; without pauses when not set"},
		{Name: "time", Kind: param.Duration, Default: "5s", Doc: "length of the timed part; whole seconds with siege"},
		{Name: "timeout", Kind: param.Duration, Default: "10s", Doc: "longest wait for a response, after which it is an error"},
		{Name: "keepalive", Kind: param.Bool, Default: "false", Doc: "whether a connection serves many requests; otherwise each opens its own. The page to log in has no length, and siege would wait for its end"},
		{Name: "processes", Kind: param.Int, Default: "4", Min: 1, Max: 256, Doc: "processes of PHP"},
		{Name: "users", Kind: param.Int, Default: "20", Min: 1, Max: 1000, Doc: "users in the database, each with a public calendar"},
		{Name: "events", Kind: param.Int, Default: "20", Min: 1, Max: 1000, Doc: "events in each calendar"},
		{Name: "volume", Kind: param.Text, Default: "/data", Doc: "declared path of the volume for the database"},
	}
	return workload.Doc{
		Name:     "cms",
		Summary:  "a web application (DAViCal: PHP and PostgreSQL behind nginx) under load from outside, its database restored before each trial",
		Metrics:  metrics(),
		Params:   append(own, database.Params()...),
		Peer:     true,
		Volume:   "volume",
		Packages: map[string][]string{"debian": {"davical", "nginx", "php-fpm", "php-pgsql", "postgresql"}},
		Programs: []string{"nginx", "initdb"},
		// siege only where it is asked for: Prepare says when it is absent.
		State: "restored", Cache: "warm",
		Time:   func(p param.Values) time.Duration { return p.Duration("time") + restoreTime },
		Parser: 1,
		Source: []string{
			"siege -f list -t5m -d1 -c20, and -b -c1, of a web CMS with PHP and PostgreSQL: I. Voras, Benchmark of FreeBSD, DragonFly, NetBSD and Linux, 2004",
			"RFC 4791, CalDAV", "RFC 5545, iCalendar", "RFC 9112, HTTP/1.1",
		},
	}
}

// metrics are those of the native generator in a closed loop, and what siege
// can tell beside.
func metrics() []sample.Metric {
	var out []sample.Metric
	for _, m := range (http.Workload{}).Doc().Metrics {
		if m.Name != "queued-share" {
			out = append(out, m)
		}
	}
	for _, m := range siege.New().Doc().Metrics {
		if m.Name == "response-mean" || m.Name == "response-max" || m.Name == "failed-share" {
			m.Doc += "; with siege"
			out = append(out, m)
		}
	}
	return out
}

// Prepare brings up database, application and web server, fills the database,
// and sees that every page is what it should be.
func (Workload) Prepare(ctx context.Context, t workload.Target, p param.Values) error {
	return fault.Op("cms: prepare", prepare(ctx, t, p))
}

// refused says what no trial could use.
func refused(p param.Values) error {
	isNative, login := p.Text("generator") == native, p.Text("pages") == all || p.Text("pages") == "login"
	switch {
	case isNative && p.Duration("delay") > 0:
		return fault.WithFix(fault.New(fault.Invalid, "delay: clients that pause need siege"), "write generator: siege, or no delay")
	case !isNative && login && p.Bool("keepalive"):
		return fault.WithFix(fault.New(fault.Invalid, "keepalive: siege waits for ever for the end of a page without a length"), "write keepalive: false, or pages: calendar")
	}
	return nil
}

func prepare(ctx context.Context, t workload.Target, p param.Values) error {
	if err := refused(p); err != nil {
		return err
	}
	s, up, err := shared(t, p)
	if !up && err == nil {
		s, err = bring(ctx, t, p)
	}
	if err != nil {
		return err
	}
	if !s.known.has(s.asked()) {
		if err := s.look(ctx); err != nil {
			return err
		}
		if err := s.remember(t.Shared, s.sharedKey()); err != nil {
			return err
		}
	}
	if p.Text("generator") != native {
		if err := s.findSiege(ctx); err != nil {
			return err
		}
	}
	return s.remember(t.State, stateKey)
}

// bring brings up what another cell of the same environment has not.
func bring(ctx context.Context, t workload.Target, p param.Values) (*site, error) {
	s, err := newSite(ctx, t, p)
	if err == nil {
		err = s.start(ctx)
	}
	if err == nil {
		err = s.restore(ctx)
	}
	return s, err
}

// Reset restores the database, and asks for every page once: that it is still
// the same, and warm.
func (Workload) Reset(ctx context.Context, t workload.Target, p param.Values) error {
	err := func() error {
		s, err := recall(t, p)
		if err != nil {
			return err
		}
		if err := s.restore(ctx); err != nil {
			return err
		}
		return s.look(ctx)
	}()
	return fault.Op("cms: reset", err)
}

// Run does one trial from the other end.
func (Workload) Run(ctx context.Context, t workload.Target, p param.Values) (workload.Raw, error) {
	s, err := recall(t, p)
	if err != nil {
		return nil, fault.Op("cms", err)
	}
	facts, err := json.Marshal(s.known.Facts)
	if err != nil {
		return nil, fault.Wrap(fault.Lab, "cms: facts", err)
	}
	raw := workload.Raw{workload.Facts: facts}
	ctx, cancel := context.WithTimeout(ctx, p.Duration("time")+3*p.Duration("timeout")+time.Minute)
	defer cancel()
	if p.Text("generator") == native {
		err = s.native(ctx, raw)
	} else {
		err = s.siege(ctx, raw)
	}
	return raw, fault.Op("cms", err)
}

// Parse reads the samples of a trial.
func (Workload) Parse(raw workload.Raw, p param.Values) ([]sample.Value, error) {
	if p.Text("generator") == native {
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
	cost, err := workload.HostCost(raw, r.Work)
	if err != nil {
		return nil, err
	}
	if cost != nil {
		r.Values = append(r.Values, sample.Value{Metric: "cpu-per-request", Unit: "s/request", Value: *cost})
	}
	energy, err := workload.Energy(raw, r.Work, 0, workload.JoulesPerRequest, workload.GeneratorJoulesPerRequest)
	return append(r.Values, energy...), err
}

// readSiege decodes a trial and has the tool parse it.
func readSiege(raw workload.Raw, p param.Values) (res wire.ExecResult, r tool.Result, err error) {
	b, ok := raw[execBlob]
	if !ok {
		return res, r, fmt.Errorf("%s: %w", execBlob, workload.ErrNoBlob)
	}
	if res, err = decodeExec(b); err != nil {
		return res, r, fmt.Errorf("%s: %w", execBlob, err)
	}
	if res.Code != 0 || res.Signal != "" || res.Truncated {
		return res, r, fault.New(fault.Lab, "siege ended with exit code %d %s: %.300q", res.Code, res.Signal, res.Stderr)
	}
	r, err = siege.New().Parse(tool.Output{Stdout: res.Stdout, Stderr: res.Stderr, Elapsed: time.Duration(res.ElapsedNS)}, p)
	return res, r, err
}

// Testify tells the gates of failed requests, and of a siege that had no CPU
// time left. What the native generator says of itself they read by themselves.
func (Workload) Testify(raw workload.Raw, p param.Values) (workload.Testimony, bool) {
	if p.Text("generator") == native {
		return workload.Testimony{}, false
	}
	res, r, err := readSiege(raw, p)
	if err != nil {
		return workload.Testimony{}, false // Parse says so
	}
	used := res.Usage.CPUSeconds() / (float64(res.ElapsedNS) / 1e9)
	return workload.Testimony{Errors: r.Errors, Generator: &wire.Generator{Utilisation: min(1, used)}}, true
}
