package evidence

import (
	"strings"
	"testing"

	"bakeoff/base/facts"
	"bakeoff/base/param"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/workload"
)

// A trial has every caveat that applies: that of its program, and that of a guest whose
// clock stands still while it is frozen.
func TestCaveatsAddUp(t *testing.T) {
	r := record(t)
	p := &plan.Plan{Contenders: []plan.Contender{{Contender: manifest.Contender{Name: "crun"}}},
		Cells: []plan.Cell{{Cell: manifest.Cell{Name: "fast", Workload: "fixture", Params: param.Values{}}}}}
	files, err := r.run.WriteRaw(plan.Slot{Block: 7, Contender: "crun", Cell: "fast"},
		map[string][]byte{workload.Facts: []byte(`{"` + workload.Caveat + `":"fits in memory"}`)})
	if err != nil {
		t.Fatal(err)
	}
	frozen := &store.Clock{InsideNS: 1e9, OutsideNS: 1e9, PausedNS: 1e9, LostNS: 9e8}
	for want, line := range map[string]store.Trial{
		"":                               {},
		"fits in memory":                 {Raw: files},
		frozenClock:                      {Clock: frozen},
		"fits in memory; " + frozenClock: {Raw: files, Clock: frozen},
	} {
		line.Cell = "fast"
		o, err := NewReader(r.run, today).observe(p, store.Line{Type: store.LineTrial, Contender: "crun",
			Status: store.Subject, Trial: &line})
		if err != nil || o.Caveat != want {
			t.Errorf("caveat %q, want %q: %v", o.Caveat, want, err)
		}
	}
}

// At the bound of 5 % nothing was stolen too much; above it, it was.
func TestStolenAtTheBound(t *testing.T) {
	before := facts.Counters{CPU: &facts.CPU{}}
	for steal, want := range map[float64]float64{.05: 0, .0500001: .0500001} {
		after := facts.Counters{CPU: &facts.CPU{User: .45, Idle: 1 - .45 - steal, Steal: steal}}
		if got := stolenShare(before, after); got < want*(1-1e-9) || got > want*(1+1e-9) {
			t.Errorf("%v of a second stolen: %v, want %v", steal, got, want)
		}
	}
}

// Stolen time is time that the environment's CPUs had: a path was full although they were
// half idle, whoever had the other half.
func TestAFullPathOfStolenCPUs(t *testing.T) {
	trial := good()
	trial.Path.PerSecond, trial.Path.Workers = 10100, 0
	trial.Line.Before.CPU.Steal, trial.Line.Before.CPU.IOWait = .3, .2
	*trial.Line.After.CPU = facts.CPU{User: 11.2, Idle: 10.1, IOWait: .3, Steal: .9} // two CPUs, for a second
	if got := pathGate(trial); !strings.Contains(got, "with the environment's CPUs 60 % busy") {
		t.Errorf("%q", got)
	}
}

// A path that nobody understands is not there: the gate says nothing about it, whatever
// its schema.
func TestPathsAreRead(t *testing.T) {
	cell := plan.Cell{Cell: manifest.Cell{Name: "fast", Workload: "fixture"}}
	for text, want := range map[string]bool{
		`{"schema":"` + workload.PathSchema + `","responses_per_second":5}`: true,
		`{"schema":"other","responses_per_second":5}`:                       false,
		`{`: false,
	} {
		got := TrialOf(fixture{}, cell, store.Line{}, workload.Raw{workload.PathBlob: []byte(text)})
		if (got.Path != nil) != want || want && got.Path.PerSecond != 5 {
			t.Errorf("%s: %+v", text, got.Path)
		}
	}
}
