package evidence

import (
	"strings"
	"testing"

	"bakeoff/base/facts"
	"bakeoff/base/param"
	"bakeoff/measure/workload"
	"bakeoff/reach/wire"
)

// carried is a span of a second in which eth0 received so many bytes.
func carried(bytes uint64) *wire.Span {
	return &wire.Span{Before: facts.Counters{Interfaces: []facts.Interface{{Name: "eth0", ReceivedBytes: 7}}},
		After: facts.Counters{AtNS: 1e9, Interfaces: []facts.Interface{{Name: "lo", ReceivedBytes: 1 << 40},
			{Name: "eth0", ReceivedBytes: 7 + bytes}}}}
}

// The bytes on the interface tell that a link is full where the responses differ from the
// responder's, and the time of an environment is its own, not that of its neighbors.
func TestPathGateCountsBytesAndOwnTime(t *testing.T) {
	trial := func(bytes uint64, own float64) Trial {
		x := good()
		x.Path = &workload.Path{Schema: workload.PathSchema, PerSecond: 1e6, Workers: 1, Interface: "eth0",
			ReceivedPerSecond: 2.5e6}
		x.Load = &workload.Diagnostics{Work: 500, Seconds: 1, Counters: carried(bytes)}
		x.Line.Before.CPU, x.Line.After.CPU = &facts.CPU{}, &facts.CPU{User: 1}
		x.Line.Before.AtNS, x.Line.After.AtNS = 0, 1e9
		x.Line.Before.Scope, x.Line.After.Scope = &facts.Scope{CPUSeconds: f(0)}, &facts.Scope{CPUSeconds: &own}
		return x
	}
	const why = "eth0 received 20 Mbit/s, headers included, of the 20 that the network path carries, with the " +
		"environment's CPUs 30 % busy"
	if got := pathGate(trial(25e5, .3)); got != why {
		t.Errorf("%q", got)
	}
	if got := pathGate(trial(2e6, .2)); !strings.HasPrefix(got, "eth0 received 16 Mbit/s") {
		t.Errorf("80 %% of a link, in a closed loop with idle CPUs: %q", got)
	}
	open := trial(2e6, .2)
	open.Cell.Params = param.Values{"rate": "500/s"}
	for name, x := range map[string]Trial{"a busy server": trial(25e5, .95), "half a link": trial(125e4, .2),
		"80 % with busy CPUs": trial(2e6, .3), "80 % at a fixed rate": open} {
		if got := pathGate(x); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	old := trial(25e5, .3)
	if old.Path.Schema = workload.OlderPathSchema; pathGate(old) != "" {
		t.Error("an old run folder is judged by a newer rule")
	}
	held := trial(25e5, .3)
	if held.Line.Before.Scope.Throttled, held.Line.After.Scope.Throttled = f(0), f(.65); pathGate(held) != "" {
		t.Error("an environment at its quota is not idle")
	}
}

// Of a path that is used but not full, the share is known, except where the load has a rate of its own.
func TestPathUse(t *testing.T) {
	x := good()
	x.Path = &workload.Path{
		Schema:            workload.PathSchema,
		PerSecond:         1000,
		Workers:           1,
		Interface:         "eth0",
		ReceivedPerSecond: 2.5e6,
	}
	x.Load = &workload.Diagnostics{Work: 500, Seconds: 1, Counters: carried(2e6)}
	x.Line.Before.CPU, x.Line.After.CPU = &facts.CPU{}, &facts.CPU{User: .4, Idle: .6}
	x.Line.Before.AtNS, x.Line.After.AtNS = 0, 1e9
	x.Line.Before.Scope, x.Line.After.Scope = nil, nil
	if use := pathUse(x); use == nil || use.Rate != 500 || use.Share != .8 || use.Busy < .399 || use.Busy > .401 {
		t.Errorf("%+v", use)
	}
	if pathGate(x) != "" {
		t.Error("the path is not full")
	}
	x.Cell.Params = param.Values{"rate": "500/s"}
	if use := pathUse(x); use != nil {
		t.Errorf("a fixed rate: %+v", use)
	}
	x.Cell.Params, x.Path.Schema = nil, workload.OlderPathSchema
	if use := pathUse(x); use != nil {
		t.Errorf("an old run folder: %+v", use)
	}
	if pathUse(good()) != nil {
		t.Error("a trial without a path")
	}
}

// The CPU time of a generator's process tree, and of others on its CPUs.
func TestLoadOfAForeignGenerator(t *testing.T) {
	res := wire.ExecResult{ElapsedNS: 1e9, Usage: facts.Usage{UserSeconds: .6, SystemSeconds: .38},
		CPUs: &wire.CPUSpan{Set: []int{1}, After: facts.CPU{User: .99, Idle: .01}}}
	full := workload.LoadOf(res, 10, 4)
	if u := full.Generator.Utilisation; u < .979 || u > .981 || full.Starved > .02 {
		t.Errorf("four threads on one CPU: %+v %+v", full, full.Generator)
	}
	res.Usage.UserSeconds = .1
	starved := workload.LoadOf(res, 10, 1)
	x := Trial{Load: &starved}
	if got := starvedGate(x); !strings.Contains(got, "other programs used 51 %") {
		t.Errorf("%q: %+v", got, x.Load)
	}
	res.CPUs.After.Idle = .3
	if got := workload.LoadOf(res, 10, 1); got.Starved != 0 {
		t.Errorf("a CPU with idle time: %+v", got)
	}
	// What its threads waited outranks what others used: a neighbor of lower priority takes
	// only what the generator leaves, and threads of the generator wait for each other.
	res.CPUs.After.Idle = 0
	for waited, want := range map[float64]string{.01: "", .2: "without a CPU for 20 %", 3: "without a CPU for 51 %"} {
		res.WaitedSeconds = &waited
		load := workload.LoadOf(res, 10, 1)
		if got := starvedGate(Trial{Load: &load}); (got != "") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("waited %g s: %q, want %q", waited, got, want)
		}
	}
}
