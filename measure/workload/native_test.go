package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

var stage = func(context.Context, param.Values, loop.Env) error { return nil }

func example(volume bool) NativeParser {
	doc := Doc{
		Name: "example",
		Metrics: []sample.Metric{{Name: "throughput", Unit: "op/s", Better: sample.Higher, Primary: true,
			Scale: sample.Ratio}},
		Time: func(param.Values) time.Duration { return time.Second },
	}
	if volume {
		doc.Volume = "volume"
	}
	return Native(doc, loop.Loop{
		Name: "example",
		Params: []param.Spec{{Name: "volume", Kind: param.Text, Default: "/data"},
			{Name: "n", Kind: param.Int, Default: "1"}},
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
		Usage: &facts.Usage{UserSeconds: 0.900001, SystemSeconds: 0.099999},
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
	return wire.Span{Before: facts.Counters{CPU: &facts.CPU{}},
		After: facts.Counters{CPU: &facts.CPU{User: busy / 2, System: busy / 4, Interrupt: busy / 4, Idle: 7}}}
}

var values = param.Values{"n": "1", "volume": "/data"}

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
		t.Error("a damaged span of the host gives no error")
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
		"parameters": {func(r *wire.Result) { r.Params["n"] = "2" }, fault.Lab, "n=2 instead of 1"},
		"no agent":   {func(r *wire.Result) { r.Agent = "" }, fault.Lab, "agent_sha256"},
		"no work":    {func(r *wire.Result) { r.Work = 0 }, fault.Lab, "0 units"},
		"zero":       {func(r *wire.Result) { r.Values[0].Value = 0 }, fault.Lab, "throughput is 0"},
		"forged":     {func(r *wire.Result) { r.Values[0].Metric = "cpu-per-op" }, fault.Lab, "unknown metric"},
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
