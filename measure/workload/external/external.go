// Package external makes workloads of tools: it finds a tool's program in the
// environment, brings up the server that the tool needs, runs it, and keeps
// what it printed. Each workload has the name of its tool.
package external

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/database"
	"bakeoff/measure/tool"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/http"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// New makes a workload of a tool.
func New(x tool.Tool) workload.Workload { return external{x} }

type external struct{ tool tool.Tool }

// The blobs of a trial, beside the files that the tool keeps and
// workload.Facts.
const execBlob = "exec.json" // an wire.ExecResult

func (e external) Doc() workload.Doc {
	d := e.tool.Doc()
	out := workload.Doc{
		Name: d.Name, Summary: d.Summary, Params: slices.Clone(d.Params),
		Metrics: append(append(slices.Clone(d.Metrics), workload.CPUPerOp), e.energies()...),
		Volume:  d.Volume, State: d.State, Cache: d.Cache, Time: d.Time, Parser: d.Parser, Source: d.Source,
		Packages: d.Packages, Programs: []string{d.Program},
	}
	if d.Server == tool.Database {
		out.Params = append(out.Params, database.Params()...)
	}
	if d.Server == tool.Web {
		web := http.Workload{}.Doc()
		out.Params = append(out.Params, http.ServerParams()...)
		out.Peer = true
		out.PeerPackages, out.PeerPrograms = d.Packages, []string{d.Program}
		out.Packages, out.Programs = web.Packages, web.Programs
	}
	return out
}

// energies are the metrics of energy: where the tool makes load from outside,
// of both ends.
func (e external) energies() []sample.Metric {
	if e.tool.Doc().Server == tool.Web {
		return []sample.Metric{workload.JoulesPerOp, workload.GeneratorJoulesPerOp}
	}
	return []sample.Metric{workload.JoulesPerOp}
}

// limit bounds one command of a tool. What runs inside may be slow; what makes
// the load from outside looks at the clock itself.
func (e external) limit(p param.Values) time.Duration {
	d := e.tool.Doc()
	if d.Server == tool.Web {
		return 2*d.Time(p) + 30*time.Second
	}
	return 5*d.Time(p) + time.Minute
}

// Prepare finds the program, brings up its server, and runs what the tool
// wants to have run beforehand.
func (e external) Prepare(ctx context.Context, t workload.Target, p param.Values) error {
	err := e.prepare(ctx, t, p)
	return fault.Op(e.tool.Doc().Name, err)
}

func (e external) prepare(ctx context.Context, t workload.Target, p param.Values) error {
	s, err := e.site(t, p)
	if err != nil {
		return err
	}
	if err := s.find(ctx); err != nil {
		return err
	}
	at, err := s.place(ctx)
	if err != nil {
		return err
	}
	if err := s.serve(ctx, &at); err != nil {
		return err
	}
	// What no trial could use is refused before any.
	if _, err := e.tool.Command(p, at); err != nil {
		return err
	}
	if n, ok := e.tool.(tool.Noter); ok {
		for name, note := range n.Notes(p, at) {
			s.known.Facts[name] = note
		}
	}
	if err := s.remember(at); err != nil {
		return err
	}
	if q, ok := e.tool.(tool.Preparer); ok {
		cmds, err := q.Prepare(p, at)
		return s.aside(ctx, cmds, err)
	}
	return nil
}

// Reset runs what the tool wants to have run before each trial.
func (e external) Reset(ctx context.Context, t workload.Target, p param.Values) error {
	err := e.reset(ctx, t, p)
	return fault.Op(e.tool.Doc().Name, err)
}

func (e external) reset(ctx context.Context, t workload.Target, p param.Values) error {
	s, err := e.site(t, p)
	if err != nil {
		return err
	}
	if err := s.recall(); err != nil {
		return err
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	q, ok := e.tool.(tool.Resetter)
	if !ok {
		return nil
	}
	cmds, err := q.Reset(p, s.known.At)
	return s.aside(ctx, cmds, err)
}

// Run does one trial.
func (e external) Run(ctx context.Context, t workload.Target, p param.Values) (workload.Raw, error) {
	raw, err := e.run(ctx, t, p)
	return raw, fault.Op(e.tool.Doc().Name, err)
}

func (e external) run(ctx context.Context, t workload.Target, p param.Values) (workload.Raw, error) {
	s, err := e.site(t, p)
	if err != nil {
		return nil, err
	}
	if err := s.recall(); err != nil {
		return nil, err
	}
	cmd, err := e.tool.Command(p, s.known.At)
	if err != nil {
		return nil, err
	}
	facts, err := json.Marshal(s.known.Facts)
	if err != nil {
		return nil, fault.Wrap(fault.Lab, "facts", err)
	}
	raw := workload.Raw{workload.Facts: facts}
	if err := s.setup(ctx, cmd); err != nil {
		return raw, err
	}
	out, said, err := s.exec(ctx, cmd)
	if len(out) > 0 {
		raw[execBlob] = out
	}
	if len(said) > 0 {
		raw[workload.Stderr] = said
	}
	if err != nil {
		return raw, err
	}
	return raw, s.keep(ctx, cmd, raw)
}

// known is what Prepare found out and Run needs.
type known struct {
	Program string            `json:"program"` // its path
	At      tool.Place        `json:"at"`
	Facts   map[string]string `json:"facts"`
}

// site is where a tool runs: the environment, or the other end.
type site struct {
	tool    tool.Tool
	params  param.Values
	target  workload.Target
	conn    conn.Conn
	agent   string
	dir     string // of the tool's own
	limit   time.Duration
	known   known
	program string // as Doc names it
}

func (e external) site(t workload.Target, p param.Values) (*site, error) {
	d := e.tool.Doc()
	if t.Subject == nil {
		return nil, fault.New(fault.Lab, "there is no environment")
	}
	info := t.Subject.Info()
	s := &site{tool: e.tool, params: p, target: t, limit: e.limit(p), program: d.Program,
		conn: t.Subject, agent: info.Agent, dir: path.Join(info.Scratch, "bakeoff-"+d.Name)}
	if d.Server == tool.Web {
		if t.Peer == nil || t.PeerAgent == "" || t.PeerDir == "" {
			return nil, fault.New(fault.Lab, "there is no other end to generate the load")
		}
		s.conn, s.agent, s.dir = t.Peer, t.PeerAgent, path.Join(t.PeerDir, "bakeoff-"+d.Name)
	}
	return s, nil
}

// stateKey is where known is kept between calls.
func (s *site) stateKey() string { return "tool." + s.tool.Doc().Name }

func (s *site) remember(at tool.Place) error {
	s.known.At = at
	b, err := json.Marshal(s.known)
	if err != nil {
		return fault.Wrap(fault.Lab, "remember", err)
	}
	s.target.State[s.stateKey()] = string(b)
	return nil
}

func (s *site) recall() error {
	text, ok := s.target.State[s.stateKey()]
	if !ok {
		return fault.New(fault.Lab, "it was not prepared")
	}
	return fault.Wrap(fault.Lab, "recall", json.Unmarshal([]byte(text), &s.known))
}

// aside runs commands that are not measured; each must end with 0.
func (s *site) aside(ctx context.Context, cmds []tool.Command, err error) error {
	for _, cmd := range cmds {
		if err := s.setup(ctx, cmd); err != nil {
			return err
		}
		out, _, err := s.exec(ctx, cmd)
		if err != nil {
			return err
		}
		res, err := decode(out)
		if err != nil {
			return fault.Wrap(fault.Lab, cmd.Argv[0], err)
		}
		if err := ended(res); err != nil {
			return err
		}
	}
	return err
}

// Parse reads the samples of a trial.
func (e external) Parse(raw workload.Raw, p param.Values) ([]sample.Value, error) {
	values, err := e.parse(raw, p)
	return values, fault.Op(e.tool.Doc().Name, err)
}

func (e external) parse(raw workload.Raw, p param.Values) ([]sample.Value, error) {
	_, r, err := e.read(raw, p)
	if err != nil {
		return nil, err
	}
	if err := declared(e.tool.Doc(), r.Values); err != nil {
		return nil, err
	}
	values := r.Values
	cost, err := workload.HostCost(raw, r.Work)
	if err != nil {
		return nil, err
	}
	if cost != nil {
		values = append(values, sample.Value{Metric: workload.CPUPerOp.Name, Unit: workload.CPUPerOp.Unit, Value: *cost})
	}
	energy, err := workload.Energy(raw, r.Work, 0, e.energies()...)
	return append(values, energy...), err
}

// read decodes a trial and has the tool parse it.
func (e external) read(raw workload.Raw, p param.Values) (res wire.ExecResult, r tool.Result, err error) {
	b, ok := raw[execBlob]
	if !ok {
		return res, r, fmt.Errorf("%s: %w", execBlob, workload.ErrNoBlob)
	}
	if res, err = decode(b); err != nil {
		return res, r, fmt.Errorf("%s: %w", execBlob, err)
	}
	if got := path.Base(res.Argv[0]); got != e.tool.Doc().Program {
		return res, r, fmt.Errorf("%s: is of the program %q", execBlob, got)
	}
	if err := e.hung(res, p); err != nil {
		return res, r, err
	}
	if err := ended(res); err != nil {
		return res, r, err
	}
	if res.Truncated {
		return res, r, fault.New(fault.Subject, "the program printed more than 1 MiB")
	}
	out := tool.Output{Stdout: res.Stdout, Stderr: res.Stderr, Elapsed: time.Duration(res.ElapsedNS), Files: map[string][]byte{}}
	for name, b := range raw {
		switch name {
		case execBlob, workload.Facts, workload.Host, workload.GeneratorHost, workload.Stderr:
		default:
			out.Files[name] = b
		}
	}
	if b, ok := raw[workload.Facts]; ok {
		if err := json.Unmarshal(b, &out.Facts); err != nil {
			return res, r, fmt.Errorf("%s: %w", workload.Facts, err)
		}
	}
	r, err = e.tool.Parse(out, p)
	return res, r, err
}

// hung classes a program that did not end by itself. Inside the environment
// that may be the environment's doing. A generator outside bounds every wait
// for an answer and ends by the clock: one that does not end has a fault of its
// own, and whom it happened to ask is not to blame.
func (e external) hung(res wire.ExecResult, p param.Values) error {
	took := time.Duration(res.ElapsedNS)
	if res.Signal != syscall.SIGKILL.String() || took < e.limit(p) {
		return nil
	}
	d := e.tool.Doc()
	kind, where := fault.Subject, ""
	if d.Server == tool.Web {
		kind, where = fault.Lab, ", outside the environment,"
	}
	return fault.New(kind, "%s%s had not ended after %v, of which its work should have taken %v, and was killed",
		d.Program, where, took.Round(time.Second), d.Time(p).Round(time.Second))
}

// Testify tells the gates what the trial's output says against it.
func (e external) Testify(raw workload.Raw, p param.Values) (workload.Testimony, bool) {
	res, r, err := e.read(raw, p)
	if err != nil {
		return workload.Testimony{}, false // Parse says so
	}
	t := workload.Testimony{Errors: r.Errors}
	if r.Threads > 0 {
		u := res.Usage.CPUSeconds() / (float64(res.ElapsedNS) / 1e9 * float64(r.Threads))
		t.Generator = &wire.Generator{Utilisation: min(1, u)}
	}
	return t, true
}

// declared checks values against what the tool declares: its own units, no
// metric twice, and the primary one, without which the trial measured nothing.
func declared(d tool.Doc, values []sample.Value) error {
	seen := map[string]bool{}
	for _, v := range values {
		m, ok := d.Metric(v.Metric)
		switch {
		case !ok || seen[v.Metric]:
			return fmt.Errorf("metric %q is not declared, or comes twice", v.Metric)
		case v.Unit != m.Unit:
			return fmt.Errorf("%s is in %q, and %q is right", v.Metric, v.Unit, m.Unit)
		}
		seen[v.Metric] = true
	}
	for _, m := range d.Metrics {
		if m.Primary && !seen[m.Name] {
			var all []string
			for _, v := range values {
				all = append(all, v.Metric)
			}
			return fault.New(fault.Subject, "the program could not measure %s (but %s)", m.Name, strings.Join(all, ", "))
		}
	}
	return nil
}
