package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/loop"
	"bakeoff/reach/probe"
	"bakeoff/reach/wire"
)

// subject is an environment whose agent answers as told.
type subject struct {
	driver.Instance
	info           driver.Info
	stdout, stderr string
	exit           conn.Exit
	err            error
	ran            [][]string
}

func (s *subject) Info() driver.Info { return s.info }

func (s *subject) Exec(_ context.Context, cmd conn.Cmd) (conn.Exit, error) {
	s.ran = append(s.ran, cmd.Argv)
	io.WriteString(cmd.Stdout, s.stdout)
	io.WriteString(cmd.Stderr, s.stderr)
	return s.exit, s.err
}

func (s *subject) Push(context.Context, string, fs.FileMode, io.Reader) error { panic("not used") }
func (s *subject) Pull(context.Context, string, io.Writer) error              { panic("not used") }
func (s *subject) Dial(context.Context, string, string) (net.Conn, error)     { panic("not used") }

var stage = func(context.Context, param.Values, loop.Env) error { return nil }

func example(volume bool) Workload {
	doc := Doc{
		Name:    "example",
		Metrics: []sample.Metric{{Name: "throughput", Unit: "op/s", Better: sample.Higher, Primary: true, Scale: sample.Ratio}},
		Time:    func(param.Values) time.Duration { return time.Second },
	}
	if volume {
		doc.Volume = "volume"
	}
	return Native(doc, loop.Loop{
		Name:    "example",
		Params:  []param.Spec{{Name: "volume", Kind: param.Text, Default: "/data"}, {Name: "n", Kind: param.Int, Default: "1"}},
		Prepare: stage,
	})
}

func result() wire.Result {
	cpu := 0.5
	return wire.Result{
		Schema: wire.WorkSchema, Loop: "example", Params: param.Values{"n": "1", "volume": "/data"},
		Values: []sample.Value{{Metric: "throughput", Unit: "op/s", Value: 100}},
		Work:   50, WorkUnit: "op", ElapsedNS: 5e8, WorkerCPUSeconds: &cpu,
		Check: wire.Check{Verified: true, Answer: "42"},
		Usage: &probe.Usage{UserSeconds: 0.900001, SystemSeconds: 0.099999},
		Agent: strings.Repeat("a", 64),
	}
}

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func span(busy float64) wire.Span {
	return wire.Span{Before: probe.Counters{CPU: &probe.CPU{}}, After: probe.Counters{CPU: &probe.CPU{User: busy / 2, System: busy / 4, Interrupt: busy / 4, Idle: 7}}}
}

var values = param.Values{"n": "1", "volume": "/data"}

func TestRunAsksTheAgent(t *testing.T) {
	s := &subject{info: driver.Info{Agent: "/a", Scratch: "/tmp/s", Volumes: map[string]string{"/data": "/srv/v"}}, stdout: "{}"}
	ctx := context.Background()
	raw, err := example(false).Run(ctx, Target{Subject: s}, values)
	if err != nil || string(raw[Work]) != "{}" {
		t.Fatalf("raw %q, error %v", raw, err)
	}
	if got, want := strings.Join(s.ran[0], " "), "/a work example --json --stage run --dir /tmp/s/bakeoff-example --hash-file /tmp/s/bakeoff-agent.sha256 n=1 volume=/data"; got != want {
		t.Errorf("ran %q, want %q", got, want)
	}
	if err := example(true).Prepare(ctx, Target{Subject: s}, values); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(s.ran[1], " "); !strings.Contains(got, "--stage prepare --dir /srv/v/bakeoff-example") {
		t.Errorf("ran %q: the volume is at /srv/v", got)
	}
	if err := example(true).Reset(ctx, Target{Subject: s}, values); err != nil || len(s.ran) != 2 {
		t.Errorf("a loop without a stage was run for it: %v, %v", s.ran[2:], err)
	}
}

func TestRunClassesFailures(t *testing.T) {
	for name, c := range map[string]struct {
		s    subject
		kind fault.Kind
		says string
	}{
		"wrong answer":    {subject{exit: conn.Exit{Code: 1}, stderr: "noise\nbakeoff-agent: work example: counted 3\x1b, 4 is right\n"}, fault.Subject, "example: work example: counted 3�, 4 is right"},
		"other parameter": {subject{exit: conn.Exit{Code: 2}, stderr: "m is not a parameter"}, fault.Lab, "m is not a parameter"},
		"not there":       {subject{exit: conn.Exit{Code: 3}, stderr: "no such thing on this system"}, fault.Unsupported, "no such thing"},
		"agent failed":    {subject{exit: conn.Exit{Code: 4}}, fault.Lab, "exit code 4"},
		"out of memory":   {subject{exit: conn.Exit{Code: 137, Signal: "killed"}}, fault.Subject, "killed"},
		"no agent":        {subject{err: fault.New(fault.NotFound, "/a")}, fault.Lab, "agent is missing"},
		"broken way":      {subject{err: fault.New(fault.Lab, "ssh: gone")}, fault.Lab, "ssh: gone"},
		"guest died":      {subject{err: fault.New(fault.Subject, "kernel panic")}, fault.Subject, "kernel panic"},
		"unclassed":       {subject{err: errors.New("what")}, fault.Lab, "what"},
		"floods":          {subject{stdout: strings.Repeat("x", maxResult+1)}, fault.Lab, "printed more"},
	} {
		raw, err := example(false).Run(context.Background(), Target{Subject: &c.s}, values)
		if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v error %v, want %v and %q", name, fault.Of(err), err, c.kind, c.says)
		}
		if c.s.stderr != "" && string(raw[Stderr]) != c.s.stderr {
			t.Errorf("%s: what the agent said is lost", name)
		}
	}
}

func TestRunRefusesAnUndeclaredVolume(t *testing.T) {
	s := &subject{}
	_, err := example(true).Run(context.Background(), Target{Subject: s}, values)
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(fault.Fix(err), "volumes: {/data") || len(s.ran) != 0 {
		t.Errorf("error %v, fix %q, ran %v", err, fault.Fix(err), s.ran)
	}
}

func TestParseGivesCost(t *testing.T) {
	w := example(false)
	raw := Raw{Work: encoded(t, result()), Host: encoded(t, span(3))}
	got, err := w.Parse(raw, values)
	if err != nil || len(got) != 2 {
		t.Fatalf("values %v, error %v", got, err)
	}
	// 3 s busy, half of the agent's own CPU in the timed part, 50 units.
	if v := got[1]; v.Metric != "cpu-per-op" || v.Unit != "s/op" || math.Abs(v.Value-3*0.5/50) > 1e-12 {
		t.Errorf("cost is %+v", v)
	}
}

// What the host cannot tell is absent. It never is zero.
func TestParseWithoutCost(t *testing.T) {
	unknown := result()
	unknown.WorkerCPUSeconds = nil
	idle := result()
	*idle.WorkerCPUSeconds = 0
	// As gVisor has it of a thread that computed for 0.2 s.
	ticks := result()
	*ticks.WorkerCPUSeconds, ticks.Usage.UserSeconds, ticks.Usage.SystemSeconds = 0.12000000000000001, 0.24, 0
	for name, raw := range map[string]Raw{
		"no host":              {Work: encoded(t, result())},
		"no CPU in it":         {Work: encoded(t, result()), Host: encoded(t, wire.Span{})},
		"less than a tick":     {Work: encoded(t, result()), Host: encoded(t, span(0))},
		"share not known":      {Work: encoded(t, unknown), Host: encoded(t, span(1))},
		"counted in ticks":     {Work: encoded(t, ticks), Host: encoded(t, span(1))},
		"below the resolution": {Work: encoded(t, idle), Host: encoded(t, span(1))},
	} {
		got, err := example(false).Parse(raw, values)
		if err != nil || len(got) != 1 || got[0].Metric != "throughput" {
			t.Errorf("%s: values %v, error %v", name, got, err)
		}
	}
	if _, err := example(false).Parse(Raw{Work: encoded(t, result()), Host: []byte("{")}, values); err == nil {
		t.Error("a damaged span of the host is no error")
	}
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*wire.Result)
		kind   fault.Kind
		says   string
	}{
		"schema":     {func(r *wire.Result) { r.Schema = "x" }, fault.Lab, "schema"},
		"not proven": {func(r *wire.Result) { r.Check.Verified = false }, fault.Subject, "did not verify"},
		"parameters": {func(r *wire.Result) { r.Params["n"] = "2" }, fault.Lab, "n=2, not 1"},
		"no agent":   {func(r *wire.Result) { r.Agent = "" }, fault.Lab, "agent_sha256"},
		"no work":    {func(r *wire.Result) { r.Work = 0 }, fault.Lab, "0 units"},
		"zero":       {func(r *wire.Result) { r.Values[0].Value = 0 }, fault.Lab, "throughput is 0"},
		"forged":     {func(r *wire.Result) { r.Values[0].Metric = "cpu-per-op" }, fault.Lab, "not a metric"},
		"missing":    {func(r *wire.Result) { r.Values = nil }, fault.Lab, "throughput is missing"},
	} {
		r := result()
		c.change(&r)
		_, err := example(false).Parse(Raw{Work: encoded(t, r)}, values)
		if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want %v and %q", name, err, c.kind, c.says)
		}
	}
	if _, err := example(false).Parse(Raw{}, values); !errors.Is(err, ErrNoBlob) {
		t.Errorf("without a blob the error is %v", err)
	}
}

// FuzzParse gives any bytes to Parse. What it takes must be what was declared.
func FuzzParse(f *testing.F) {
	good, host := encoded(f, result()), encoded(f, span(3))
	f.Add(good, host)
	f.Add(good[:len(good)-1], host)
	f.Add([]byte("{}"), []byte("null"))
	f.Add(bytes.Replace(good, []byte("100"), []byte("1e999"), 1), host)
	f.Add(good, []byte(`{"before":{"cpu":null},"after":{"cpu":{"user":-1e300}}}`))
	w := example(false)
	f.Fuzz(func(t *testing.T, work, host []byte) {
		raw := Raw{Work: work, Host: host}
		got, err := w.Parse(raw, values)
		again, err2 := w.Parse(raw, values)
		if (err == nil) != (err2 == nil) || len(got) != len(again) {
			t.Fatal("Parse is not pure")
		}
		if err != nil {
			return
		}
		for _, v := range got {
			m, ok := w.Doc().Metric(v.Metric)
			if !ok || m.Unit != v.Unit || !(v.Value > 0) || math.IsInf(v.Value, 0) {
				t.Errorf("gave %+v", v)
			}
		}
	})
}
