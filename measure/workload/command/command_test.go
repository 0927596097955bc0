package command

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/reach/probe"
	"bakeoff/reach/wire"
)

func TestMain(m *testing.M) { workloadtest.Main(m) }

func sh(script string) string { return "/bin/sh\n-c\n" + script }

// busy is a command that takes some CPU time.
var busy = sh("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo took $i steps")

func TestSuite(t *testing.T) {
	workloadtest.Run(t, New(), workloadtest.Options{
		Common:  param.Values{"argv": busy},
		Cells:   []param.Values{{"score": "last-line", "cost": "regexp:took ([0-9]+)", "exit": "any"}, {"argv": sh("exit 3"), "exit": "3"}},
		Partial: true,
	})
}

// trial does what the runner does with one trial.
func trial(t *testing.T, set param.Values) ([]sampleValue, workload.Target, error) {
	t.Helper()
	p := param.Defaults(New().Doc().Params)
	for k, v := range set {
		p[k] = v
	}
	ctx, target := context.Background(), workloadtest.Local(t)
	if err := New().Prepare(ctx, target, p); err != nil {
		return nil, target, err
	}
	if err := New().Reset(ctx, target, p); err != nil {
		return nil, target, err
	}
	raw, err := New().Run(ctx, target, p)
	if err != nil {
		return nil, target, err
	}
	values, err := New().Parse(raw, p)
	var out []sampleValue
	for _, v := range values {
		out = append(out, sampleValue{v.Metric, v.Value})
	}
	return out, target, err
}

type sampleValue struct {
	metric string
	value  float64
}

func find(values []sampleValue, metric string) float64 {
	for _, v := range values {
		if v.metric == metric {
			return v.value
		}
	}
	return math.NaN()
}

func TestMeasures(t *testing.T) {
	values, _, err := trial(t, param.Values{
		"argv":  sh(`sleep 0.05; echo '{"progress":1}'; echo "{\"runs\":[{\"rate\":12.5}],\"took\":\"$X\"}"`),
		"env":   "X=3e-3",
		"score": "json:$.runs[-1].rate", "cost": `json:$["took"]`,
	})
	if err != nil {
		t.Fatal(err)
	}
	if w := find(values, "wall"); !(w >= 0.05 && w < 60) {
		t.Errorf("wall is %g s", w)
	}
	if m := find(values, "memory"); !(m > 100<<10 && m < 1<<30) {
		t.Errorf("memory is %g B", m)
	}
	if s, c := find(values, "score"), find(values, "cost"); s != 12.5 || c != 0.003 {
		t.Errorf("score %g, cost %g", s, c)
	}
}

// Prepare, reset, command and cleanup run in their order, in one directory.
func TestStages(t *testing.T) {
	add := func(word string) string { return sh("echo " + word + " >> log") }
	_, target, err := trial(t, param.Values{
		"prepare": add("prepare"), "reset": add("reset"), "argv": add("run"), "cleanup": add("cleanup"), "dir": "/data",
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(target.Subject.Info().Volumes["/data"], "log"))
	if err != nil || strings.Join(strings.Fields(string(b)), " ") != "prepare reset run cleanup" {
		t.Errorf("log is %q (%v)", b, err)
	}
}

func TestFailuresAreClassed(t *testing.T) {
	for name, c := range map[string]struct {
		set  param.Values
		kind fault.Kind
		says string
	}{
		"exit code":      {param.Values{"argv": sh("echo no luck >&2; exit 3")}, fault.Subject, "exit code 3, and 0 is right: no luck"},
		"two lines":      {param.Values{"argv": sh("echo no space >&2; echo in between >&2; echo tar: previous errors >&2; exit 2")}, fault.Subject, "is right: no space … tar: previous errors"},
		"signal":         {param.Values{"argv": sh("kill -SEGV $$"), "exit": "any"}, fault.Subject, "segmentation fault"},
		"timeout":        {param.Values{"argv": "sleep\n60", "timeout": "100ms"}, fault.Subject, "killed"},
		"no program":     {param.Values{"argv": "/does/not/exist"}, fault.Subject, "cannot be started"},
		"preparation":    {param.Values{"argv": "true", "prepare": sh("echo disk full >&2; exit 1")}, fault.Subject, "prepare: \"/bin/sh\" ended with exit code 1: disk full"},
		"reset":          {param.Values{"argv": "true", "reset": "false"}, fault.Subject, "reset"},
		"cleanup":        {param.Values{"argv": "true", "cleanup": "false"}, fault.Subject, "cleanup"},
		"no number":      {param.Values{"argv": "echo\nnone", "score": "last-line"}, fault.Subject, "score: the last line has no number"},
		"zero":           {param.Values{"argv": "echo\n0", "score": "last-line"}, fault.Subject, "not a positive number"},
		"floods":         {param.Values{"argv": sh("head -c 2000000 /dev/zero"), "cost": "last-line"}, fault.Subject, "more than 1 MiB"},
		"no volume":      {param.Values{"argv": "true", "dir": "/other"}, fault.Unsupported, "no volume /other"},
		"no command":     {param.Values{}, fault.Invalid, "argv is empty"},
		"bad exit":       {param.Values{"argv": "true", "exit": "ok"}, fault.Invalid, "no exit code"},
		"bad variable":   {param.Values{"argv": "true", "env": "=1"}, fault.Invalid, "NAME=VALUE"},
		"bad extraction": {param.Values{"argv": "true", "cost": "first-line"}, fault.Invalid, "cost: \"first-line\" says not where"},
	} {
		values, _, err := trial(t, c.set)
		if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v error %v, want %v and %q", name, values, fault.Of(err), err, c.kind, c.says)
		}
	}
}

// A command that failed is cleaned up after, too.
func TestCleansUpAfterFailure(t *testing.T) {
	p := param.Defaults(New().Doc().Params)
	p["argv"], p["cleanup"], p["dir"] = "/does/not/exist", "touch\ncleaned", "/data"
	target := workloadtest.Local(t)
	if _, err := New().Run(context.Background(), target, p); !fault.Is(err, fault.Subject) {
		t.Errorf("error is %v", err)
	}
	if _, err := os.Stat(filepath.Join(target.Subject.Info().Volumes["/data"], "cleaned")); err != nil {
		t.Errorf("nothing was cleaned: %v", err)
	}
}

func result(argv string, cpu float64) wire.ExecResult {
	return wire.ExecResult{Schema: wire.ExecSchema, Argv: []string{argv}, ElapsedNS: 1e9, Usage: probe.Usage{UserSeconds: cpu}, Stdout: []byte("7\n")}
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
	return wire.Span{Before: probe.Counters{CPU: &probe.CPU{}}, After: probe.Counters{CPU: &probe.CPU{User: busy}}}
}

var params1 = param.Values{"argv": "x", "exit": "0", "score": "last-line"}

// The host's CPU time is the command's in the share that it had beside its
// cleanup; without a host it is absent.
func TestHostCost(t *testing.T) {
	raw := workload.Raw{execBlob: encoded(t, result("x", 3.0003)), cleanupBlob: encoded(t, result("rm", 1.0001)), workload.Host: encoded(t, span(8))}
	got, err := New().Parse(raw, params1)
	if err != nil {
		t.Fatal(err)
	}
	last := got[len(got)-1]
	if last.Metric != "cpu-per-op" || math.Abs(last.Value-6) > 1e-9 {
		t.Errorf("cost is %+v, want 6 s", last)
	}
	delete(raw, workload.Host)
	got, err = New().Parse(raw, params1)
	if err != nil || got[len(got)-1].Metric != "score" {
		t.Errorf("without a host: %v, %v", got, err)
	}
}

// gVisor counts in ticks, of which it finds half: what it says of the command is
// not told, nor what the command had of a trial with a cleanup. The host's time
// of a trial without one is all the command's, however little that found.
func TestTicksOfTheEnvironmentAreNotTold(t *testing.T) {
	values := func(raw workload.Raw) map[string]float64 {
		got, err := New().Parse(raw, params1)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]float64{}
		for _, v := range got {
			out[v.Metric] = v.Value
		}
		return out
	}
	for _, cpu := range []float64{0, 0.07} {
		raw := workload.Raw{execBlob: encoded(t, result("x", cpu)), workload.Host: encoded(t, span(0.2))}
		got := values(raw)
		if _, ok := got["cpu"]; ok || got["cpu-per-op"] != 0.2 {
			t.Errorf("%g s in ticks: %v", cpu, got)
		}
		raw[cleanupBlob] = encoded(t, result("rm", 0.02))
		if got = values(raw); got["cpu-per-op"] != 0 || got["wall"] != 1 {
			t.Errorf("%g s in ticks, with a cleanup: %v", cpu, got)
		}
	}
}

func TestExtract(t *testing.T) {
	for _, c := range []struct {
		spec, out string
		want      float64
		says      string // of the error
	}{
		{"last-line", "a 1\nops/s: 1234.5,\n\n", 1234.5, ""},
		{"last-line", "took 5 of 7 seconds", 7, ""},
		{"last-line", "", 0, "printed nothing"},
		{"last-line", "1\nnothing", 0, "no number"},
		{"last-line", "nan inf 0x10 1_000", 0, "no number"},
		{`regexp:^rate=(\S+)$`, "rate=1\nxrate=2\nrate=3e2\n", 300, ""},
		{`regexp:rate=(\S+)`, "rate=fast", 0, "no number"},
		{`regexp:rate=(\d+)`, "none", 0, "matches"},
		{`regexp:(\d+)`, "1 2\r\n3 4\r\nnone", 3, ""},
		{`regexp:^(\d+)$`, "\n\n7\r\n", 7, ""},
		{`regexp:(` + strings.Repeat("a", 300) + `)`, "", 0, "256 are the most"},
		{`regexp:rate`, "", 0, "0 groups"},
		{`regexp:(a)(b)`, "", 0, "2 groups"},
		{`regexp:(`, "", 0, "missing closing"},
		{`json:$`, "41 42", 42, ""},
		{`json:$.a["b.c"][1]`, `{"a":{"b.c":[1,2.5]}}`, 2.5, ""},
		{`json:$.a[-1]`, `{"a":[1,9]}`, 9, ""},
		{`json:$.a[2]`, `{"a":[1,9]}`, 0, "no element 2"},
		{`json:$.a.b`, `{"a":[1,9]}`, 0, "$.a is no object"},
		{`json:$.b`, `{"a":1}`, 0, `has no "b"`},
		{`json:$.a`, `{"a":true}`, 0, "$.a is no number"},
		{`json:$.a`, `{"a":1} trailing`, 0, "not JSON"},
		{`json:$.a`, ``, 0, "not JSON"},
		{`json:a`, ``, 0, "no path"}, {`json:$..a`, ``, 0, "no path"}, {`json:$[`, ``, 0, "no path"},
		{`json:$["a]`, ``, 0, "no path"}, {`json:$[x]`, ``, 0, "no path"}, {`json:$a`, ``, 0, "no path"},
		{"json:", "", 0, "says not where"}, {"", "", 0, "says not where"},
	} {
		x, err := newExtractor(c.spec)
		var got float64
		if err == nil {
			got, err = x([]byte(c.out))
		}
		if c.says == "" && (err != nil || got != c.want) {
			t.Errorf("%s of %q is %g (%v), want %g", c.spec, c.out, got, err, c.want)
		}
		if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s of %q: %g, error %v, want %q", c.spec, c.out, got, err, c.says)
		}
	}
}

// A stranger's expression and output may not stop a reader for long: one match
// a line is linear in the output, where all matches are not.
func TestExpressionsEnd(t *testing.T) {
	x, err := newExtractor(`regexp:(a)(?:a{0,900}){1,1}b|a`)
	if err != nil {
		t.Fatal(err)
	}
	from := time.Now()
	_, _ = x([]byte(strings.Repeat(strings.Repeat("a", 1000)+"\n", 40)))
	if d := time.Since(from); d > 20*time.Second {
		t.Errorf("40 kB took %v", d)
	}
}

// FuzzExtract gives any expression and any output: what comes is a number.
func FuzzExtract(f *testing.F) {
	f.Add("last-line", "a 1\nb 2")
	f.Add(`regexp:x=(\d+)`, "x=5")
	f.Add(`json:$.a["b"][-1]`, `{"a":{"b":[1,"2"]}}`)
	f.Add("json:$[9223372036854775807]", "[1]")
	f.Fuzz(func(t *testing.T, spec, out string) {
		x, err := newExtractor(spec)
		if err != nil {
			return
		}
		if v, err := x([]byte(out)); err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
			t.Errorf("%q finds %g in %q", spec, v, out)
		}
	})
}

// FuzzParse gives any bytes: what comes is positive and declared.
func FuzzParse(f *testing.F) {
	good := encoded(f, result("x", 1))
	f.Add(good, encoded(f, span(1)), good)
	f.Add(good[:len(good)/2], []byte("{}"), []byte(""))
	f.Add([]byte(`{"schema":"bakeoff/exec/v1","argv":["x"],"elapsed_ns":-1}`), []byte("null"), good)
	f.Add(good, encoded(f, span(1e308)), encoded(f, result("y", -2)))
	f.Fuzz(func(t *testing.T, exec, host, cleanup []byte) {
		got, err := New().Parse(workload.Raw{execBlob: exec, workload.Host: host, cleanupBlob: cleanup}, params1)
		if err != nil {
			return
		}
		doc := New().Doc()
		for _, v := range got {
			m, ok := doc.Metric(v.Metric)
			if !ok || m.Unit != v.Unit || !(v.Value > 0) || math.IsInf(v.Value, 0) {
				t.Errorf("gave %+v", v)
			}
		}
	})
}
