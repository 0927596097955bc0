// Package workloadtest is the suite that every workload passes.
//
// The test binary of a workload is its own agent: its TestMain is
//
//	func TestMain(m *testing.M) { workloadtest.Main(m, Loop()) }
package workloadtest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/provision/driver"
	"bakeoff/reach/agent"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

// Main runs the tests, or the agent with these loops if the test binary was
// started as an agent.
func Main(m *testing.M, loops ...loop.Loop) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		os.Exit(agent.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, loops))
	}
	// With the race detector a process waits a second before it ends; the
	// many agents need not.
	os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"))
	os.Exit(m.Run())
}

// Options configure the suite for a workload.
type Options struct {
	// Cells are parameters to run it with, in addition to its defaults,
	// which complete each cell.
	Cells []param.Values
	// Common parameters apply to every cell, including that of the
	// defaults: a short time, small files.
	Common param.Values
	// Target creates the target; nil is Local.
	Target func(t *testing.T) execution.Target
	// Partial says that a cell need not give every declared metric.
	Partial bool
	// Void reports whether an error of Parse is the lab's; the suite then
	// repeats the trial, as a runner repeats the block.
	Void func(error) bool
}

// Run runs w as the trial runner does, and checks it against its Doc.
func Run(t *testing.T, w execution.Runner, o Options) {
	t.Run("doc", func(t *testing.T) { checkDoc(t, w.Doc()) })
	if o.Target == nil {
		o.Target = Local
	}
	for _, c := range append([]param.Values{nil}, o.Cells...) {
		p := param.Defaults(w.Doc().Params)
		maps.Copy(p, o.Common)
		maps.Copy(p, c)
		t.Run(cellName(c), func(t *testing.T) { runCell(t, w, p, o) })
	}
}

func cellName(c param.Values) string {
	if len(c) == 0 {
		return "defaults"
	}
	return strings.Join(c.Args(), ",")
}

var name = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// checkDoc checks what reference pages and lab files require.
func checkDoc(t *testing.T, d workload.Doc) {
	if !name.MatchString(d.Name) {
		t.Errorf("invalid name %q", d.Name)
	}
	if d.Summary == "" || strings.HasSuffix(d.Summary, ".") {
		t.Errorf("the summary %q is not a sentence without its full stop", d.Summary)
	}
	if len(d.Source) == 0 {
		t.Error("no source for the definition of the measurement")
	}
	if !slices.Contains([]string{"fresh", "restored", "carried"}, d.State) {
		t.Errorf("the state %q is none of fresh, restored, carried", d.State)
	}
	if d.Parser < 1 {
		t.Errorf("the version of its parser must be at least 1 (got %d)", d.Parser)
	}
	if d.Cache == "" {
		t.Error("the state of caches is not documented")
	}
	checkMetrics(t, d.Metrics)
	checkParams(t, d)
	if d.Time == nil || d.Time(param.Defaults(d.Params)) <= 0 {
		t.Error("no estimate of its time")
	}
}

func checkMetrics(t *testing.T, metrics []sample.Metric) {
	seen, primary := map[string]bool{}, 0
	for _, m := range metrics {
		if !name.MatchString(m.Name) || seen[m.Name] {
			t.Errorf("metric %q: no name, or twice", m.Name)
		}
		seen[m.Name] = true
		if m.Unit == "" || m.Doc == "" {
			t.Errorf("metric %s: unit %q, doc %q", m.Name, m.Unit, m.Doc)
		}
		if m.Better != sample.Higher && m.Better != sample.Lower {
			t.Errorf("metric %s: better is %q", m.Name, m.Better)
		}
		if m.Scale != sample.Ratio && m.Scale != sample.Difference {
			t.Errorf("metric %s: scale is %q", m.Name, m.Scale)
		}
		if m.Primary {
			primary++
		}
	}
	if primary == 0 || primary > 2 {
		t.Errorf("%d primary metrics instead of one or two", primary)
	}
}

func checkParams(t *testing.T, d workload.Doc) {
	seen := map[string]bool{}
	for _, s := range d.Params {
		if !name.MatchString(s.Name) || seen[s.Name] {
			t.Errorf("parameter %q: no name, or twice", s.Name)
		}
		seen[s.Name] = true
		if s.Doc == "" {
			t.Errorf("parameter %s is not described", s.Name)
		}
		if s.Default == "" {
			continue
		}
		if c, err := s.Canonical(s.Default); err != nil || c != s.Default {
			t.Errorf("parameter %s: the default %q should be %q (%v)", s.Name, s.Default, c, err)
		}
	}
	if d.Volume != "" && !seen[d.Volume] {
		t.Errorf("the volume is to be in the parameter %q, which there is not", d.Volume)
	}
}

// runCell does twice what a trial runner does with one environment and cell.
func runCell(t *testing.T, w execution.Runner, p param.Values, o Options) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	target := o.Target(t)
	var raw workload.Raw
	for i := range 2 {
		if err := w.Prepare(ctx, target, p); err != nil {
			t.Fatalf("Prepare, time %d: %v", i+1, err)
		}
		if err := w.Reset(ctx, target, p); err != nil {
			t.Fatalf("Reset, time %d: %v", i+1, err)
		}
		var err error
		if raw, err = w.Run(ctx, target, p); err != nil {
			t.Fatalf("Run, time %d: %v", i+1, err)
		}
	}
	for range 3 {
		_, err := w.Parse(raw, p)
		if err == nil || o.Void == nil || !o.Void(err) {
			break
		}
		t.Logf("void, and repeated: %v", err)
		if raw, err = w.Run(ctx, target, p); err != nil {
			t.Fatalf("Run, after a void trial: %v", err)
		}
	}
	for b := range raw {
		if !regexp.MustCompile(`^[a-z0-9.-]+$`).MatchString(b) {
			t.Errorf("the blob %q has no name for a file", b)
		}
	}
	checkNative(t, raw, p)
	raw[workload.Host] = hostSpan(t, 3, true)
	checkFinerTime(t, w, raw, p)
	raw[workload.Host] = hostSpan(t, 3, false)
	checkParse(t, w, raw, p, o.Partial)
	checkOtherEnd(t, w, raw, p)
	checkDamage(t, w, raw, p)
}

// checkNative checks the result of a native workload.
func checkNative(t *testing.T, raw workload.Raw, p param.Values) {
	var res wire.Result
	if err := json.Unmarshal(raw[workload.Work], &res); err != nil {
		return // not a native workload
	}
	for _, wrong := range faultsOf(res, p.Duration("time")) {
		t.Error(wrong)
	}
}

// faultsOf returns what is wrong with a result: its timed part must have the
// requested length, it must have an answer, and its rate must agree with its
// work.
func faultsOf(res wire.Result, asked time.Duration) (out []string) {
	elapsed := time.Duration(res.ElapsedNS)
	if elapsed < asked {
		out = append(out, fmt.Sprintf("the timed part took %v of %v", elapsed, asked))
	}
	if res.Check.Answer == "" {
		out = append(out, "the answer that was verified is not told")
	}
	for _, v := range res.Values {
		if v.Metric != "throughput" || v.Unit != res.WorkUnit+"/s" || elapsed <= 0 {
			continue
		}
		if rate := res.Work / elapsed.Seconds(); math.Abs(v.Value/rate-1) > 1e-3 {
			out = append(out, fmt.Sprintf("%s is %g %s, and %g %s in %v are %g", v.Metric, v.Value, v.Unit, res.Work,
				res.WorkUnit, elapsed, rate))
		}
	}
	return out
}

// hostSpan is what the trial runner adds: a host whose CPUs were busy for some
// seconds, with an energy counter. It has CPU time in ticks, or in nanoseconds
// without any tick.
func hostSpan(t *testing.T, busy float64, nanoseconds bool) []byte {
	before, after := 100.0, 142.0
	span := wire.Span{
		Before: facts.Counters{AtNS: 1, CPU: &facts.CPU{User: 10, Idle: 5}, Joules: &before},
		After:  facts.Counters{AtNS: 2, CPU: &facts.CPU{User: 10 + busy, Idle: 6}, Joules: &after},
	}
	if nanoseconds {
		from, to := int64(7e9), int64(7e9+busy*1e9)
		span.After.CPU.User = span.Before.CPU.User
		span.Before.TaskNS, span.After.TaskNS = &from, &to
		span.Before.CPUSource, span.After.CPUSource = facts.SourceSchedstat, facts.SourceSchedstat
	}
	b, err := json.Marshal(span)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// checkFinerTime checks that CPU time in nanoseconds counts even without any
// tick, and gives the same cost as in ticks.
func checkFinerTime(t *testing.T, w execution.Runner, raw workload.Raw, p param.Values) {
	fine, err := w.Parse(raw, p)
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	ticks := maps.Clone(raw)
	ticks[workload.Host] = hostSpan(t, 3, false)
	if coarse, err := w.Parse(ticks, p); err != nil || !slices.Equal(fine, coarse) {
		t.Errorf("the same time in nanoseconds gives %v, in ticks %v (%v)", fine, coarse, err)
	}
}

// checkOtherEnd checks that a workload with a load generator, and no other,
// reports the costs of the generator's separate host, and that the other values
// do not change.
func checkOtherEnd(t *testing.T, w execution.Runner, raw workload.Raw, p param.Values) {
	near, err := w.Parse(raw, p)
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	raw = maps.Clone(raw)
	raw[workload.GeneratorHost] = hostSpan(t, 3, true)
	both, err := w.Parse(raw, p)
	if err != nil {
		t.Fatalf("Parse, with load from another host: %v", err)
	}
	if wrong := otherEnd(w.Doc(), near, both); wrong != "" {
		t.Error(wrong)
	}
}

// otherEnd returns what is wrong with the values of a trial with a load
// generator on another host (both), compared with the same trial without; "" if
// nothing.
func otherEnd(d workload.Doc, near, both []sample.Value) string {
	told := 0
	rest := slices.DeleteFunc(slices.Clone(both), func(v sample.Value) bool {
		m, _ := d.Metric(v.Metric)
		if m.GeneratorHost {
			told++
		}
		return m.GeneratorHost
	})
	switch want := map[bool]int{true: 1}[d.Peer]; {
	case told != want:
		return fmt.Sprintf("load from another host gives %d values of what that spent, and %d is right", told, want)
	case !slices.Equal(near, rest):
		return fmt.Sprintf("load from another host changes other values: %v, without it %v", rest, near)
	}
	return ""
}

// checkParse checks that Parse is pure and gives the declared metrics.
func checkParse(t *testing.T, w execution.Runner, raw workload.Raw, p param.Values, partial bool) {
	before := maps.Clone(raw)
	for k, b := range before {
		before[k] = slices.Clone(b)
	}
	values, err := w.Parse(raw, p)
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	again, err := w.Parse(raw, p)
	if err != nil || !slices.Equal(values, again) {
		t.Errorf("a second Parse gives %v (%v), the first gave %v", again, err, values)
	}
	if !maps.EqualFunc(raw, before, slices.Equal[[]byte]) {
		t.Error("Parse changed the raw bytes")
	}
	seen := map[string]bool{}
	for _, v := range values {
		m, ok := w.Doc().Metric(v.Metric)
		if !ok || seen[v.Metric] {
			t.Errorf("metric %q: not declared, or twice", v.Metric)
		}
		seen[v.Metric] = true
		if v.Unit != m.Unit {
			t.Errorf("metric %s: unit %q, declared %q", v.Metric, v.Unit, m.Unit)
		}
		if m.Scale == sample.Ratio && !(v.Value > 0) {
			t.Errorf("metric %s is %g", v.Metric, v.Value)
		}
	}
	for _, m := range w.Doc().Metrics {
		if !seen[m.Name] && !partial {
			t.Errorf("metric %s is missing", m.Name)
		}
	}
}

// checkDamage checks that Parse refuses incomplete and invalid results.
func checkDamage(t *testing.T, w execution.Runner, raw workload.Raw, p param.Values) {
	refuse := func(what string, b []byte) {
		t.Helper()
		bad := maps.Clone(raw)
		bad[workload.Work] = b
		if b == nil {
			delete(bad, workload.Work)
		}
		if values, err := w.Parse(bad, p); err == nil {
			t.Errorf("Parse of a result that %s gives %v", what, values)
		}
	}
	good, ok := raw[workload.Work]
	if !ok {
		if _, err := w.Parse(workload.Raw{}, p); err == nil {
			t.Error("Parse accepts empty output")
		}
		return
	}
	refuse("is not there", nil)
	refuse("is empty", []byte{})
	refuse("is cut in half", good[:len(good)/2])
	refuse("lacks its last brace", good[:len(strings.TrimRight(string(good), "}\n "))])
	refuse("has something after it", append(slices.Clone(good), '1'))
	refuse("has another schema", []byte(strings.Replace(string(good), wire.WorkSchema, "bakeoff/work/v0", 1)))
	refuse("has a field too many", []byte(strings.Replace(string(good), "{", `{"more":1,`, 1)))
	refuse("has no values", edit(t, good, func(r *wire.Result) { r.Values = nil }))
	refuse("has an unknown unit", edit(t, good, func(r *wire.Result) { r.Values[0].Unit = "furlong" }))
	refuse("has an unknown metric", edit(t, good, func(r *wire.Result) { r.Values[0].Metric = "beauty" }))
	refuse("has a value twice", edit(t, good, func(r *wire.Result) { r.Values = append(r.Values, r.Values[0]) }))
	refuse("is of another workload", edit(t, good, func(r *wire.Result) { r.Loop = "other" }))
	refuse("took no time", edit(t, good, func(r *wire.Result) { r.ElapsedNS = 0 }))
	bad := maps.Clone(raw)
	bad[workload.Work] = edit(t, good, func(r *wire.Result) { r.Check.Verified = false })
	if _, err := w.Parse(bad, p); !fault.Is(err, fault.Subject) {
		t.Errorf("a result that was not verified: got %v, want an error of kind subject", err)
	}
}

// edit returns the result with a change.
func edit(t *testing.T, b []byte, change func(*wire.Result)) []byte {
	t.Helper()
	var r wire.Result
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	change(&r)
	out, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Local is a target on this machine, without any isolation: the test binary as
// agent, temporary directories as scratch and as the volume /data.
func Local(t *testing.T) execution.Target {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return execution.Target{
		State: map[string]string{},
		Subject: &Instance{Information: driver.Info{
			Agent:   self,
			Scratch: t.TempDir(),
			Volumes: map[string]string{"/data": t.TempDir()},
		}},
	}
}

// Instance is this machine as an environment.
type Instance struct {
	local.Conn
	Information driver.Info
}

// Info returns the instance's Information.
func (i *Instance) Info() driver.Info { return i.Information }

// Diagnose does nothing.
func (i *Instance) Diagnose(context.Context) []byte { return nil }

// Close does nothing.
func (i *Instance) Close(context.Context) error { return nil }
