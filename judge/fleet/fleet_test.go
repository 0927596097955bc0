package fleet_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
	"bakeoff/judge/fleet"
	"bakeoff/judge/history"
	"bakeoff/judge/history/replay"
	"bakeoff/judge/noise"
)

// runsOn makes one run on each of some machines, which differ with a standard deviation
// around a mean difference.
func runsOn(machines int, between, effect float64, stream uint64) []history.Run {
	w := replay.World{Noise: noise.Reference, Runs: machines, Between: between, Step: effect}
	runs := w.Make(rand.New(rand.NewPCG(5, stream)))
	for i := range runs {
		runs[i].Labels[history.MachineLabel] = fmt.Sprintf("m%d", i)
	}
	return runs
}

func judged(t *testing.T, runs []history.Run) (fleet.Lab, fleet.Comparison) {
	t.Helper()
	r, err := fleet.Of(runs, fleet.Option{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Labs) != 1 || len(r.Labs[0].Comparisons) != 1 {
		t.Fatalf("%+v", r)
	}
	return r.Labs[0], r.Labs[0].Comparisons[0]
}

// Machines that differ by 0, 2 and 5 % around no difference are called different in at
// most 5 % of the replays.
func TestFalseAlarms(t *testing.T) {
	const replays = 2000
	for _, between := range []float64{0, 0.02, 0.05} {
		called := 0
		for i := range uint64(replays) {
			if _, c := judged(t, runsOn(5, between, 0, i)); c.Verdict == analysis.Better || c.Verdict == analysis.Worse {
				called++
			}
		}
		// 5 % and three standard errors of the simulation.
		if limit := replays * (0.05 + 3*math.Sqrt(0.05*0.95/replays)); float64(called) > limit {
			t.Errorf("machines differ by %v: %d of %d called different", between, called, replays)
		}
	}
}

// A metric that is primary on some machines only is judged.
func TestAPrimaryMetricOfSomeMachinesIsJudged(t *testing.T) {
	for lost := range 10 {
		runs := runsOn(10, 0.01, math.Log(1.05), 1)
		runs[lost].Results.Cells[0].Metrics[0].Primary = false
		if l, c := judged(t, runs); l.Judged != 1 || !c.Primary || c.Verdict != analysis.Worse || c.Counted != 10 {
			t.Errorf("without the mark on machine %d: %+v", lost, c)
		}
	}
}

// A run that the contender left early, because it was decided, counts.
func TestAContenderThatLeft(t *testing.T) {
	runs := runsOn(5, 0.01, math.Log(1.1), 1)
	for i := range runs {
		res := &runs[i].Results
		res.Blocks, res.Comparisons[0].Verdict = 8, analysis.Worse
		res.Summaries[1].Samples = res.Summaries[1].Samples[:10]
	}
	if _, c := judged(t, runs); c.Counted != 5 || c.Verdict != analysis.Worse {
		t.Errorf("%+v", c)
	}
}

func TestADifferenceOfAllMachinesIsFound(t *testing.T) {
	l, c := judged(t, runsOn(10, 0.01, math.Log(1.05), 1))
	if c.Verdict != analysis.Worse || c.BeyondMargin == nil || !*c.BeyondMargin || c.Counted != 10 || c.Agree != 10 {
		t.Errorf("5 %% slower on ten machines: %+v", c)
	}
	if *c.Ratio < 1.03 || *c.Ratio > 1.07 || *c.CI[0] > *c.Ratio || *c.CI[1] < *c.Ratio || *c.Next[1] < *c.CI[1] {
		t.Errorf("mean %v, interval %v to %v, next %v to %v", *c.Ratio, *c.CI[0], *c.CI[1], *c.Next[0], *c.Next[1])
	}
	if len(l.Machines) != 10 || l.Machines[0].Name != "m0" || len(l.Differ) != 0 || len(l.Notes) == 0 {
		t.Errorf("%+v", l)
	}
}

// What a verdict needs, and what withholds it.
func TestNoVerdict(t *testing.T) {
	few := runsOn(4, 0, math.Log(1.05), 1)
	for _, tt := range []struct {
		name   string
		runs   []history.Run
		reason string
	}{
		{"four machines", few, "4 machines counted; a verdict needs 5 machines"},
		{"one machine", few[:1], "1 machine counted"},
		{"a failure", broken(runsOn(6, 0, math.Log(1.05), 1), 1, fail), "failed on 1 machine"},
		{"machines that were left out", broken(runsOn(8, 0, math.Log(1.05), 1), 2, unplanned), "may be a selection"},
	} {
		_, c := judged(t, tt.runs)
		if c.Verdict != analysis.Inconclusive || !strings.Contains(c.Reason, tt.reason) {
			t.Errorf("%s: %s: %q", tt.name, c.Verdict, c.Reason)
		}
	}
	_, c := judged(t, broken(runsOn(8, 0, math.Log(1.05), 1), 1, unplanned))
	if c.Verdict != analysis.Worse || c.Counted != 7 || c.Machines[0].Reason == "" || c.Machines[0].Ratio != nil {
		t.Errorf("one of eight left out: %+v", c)
	}
	_, c = judged(t, broken(runsOn(8, 0, math.Log(1.05), 1), 1, interrupt))
	if c.Counted != 7 || !strings.Contains(c.Machines[0].Reason, "unfinished") {
		t.Errorf("one of eight interrupted: %+v", c)
	}
	if _, c = judged(t, runsOn(5, 0.05, math.Log(1.03), 3)); c.Verdict == analysis.Inconclusive && c.More == nil {
		t.Errorf("inconclusive without a number of machines: %+v", c)
	}
}

// broken breaks the runs of the first n machines.
func broken(runs []history.Run, n int, breakIt func(*history.Run)) []history.Run {
	for i := range n {
		breakIt(&runs[i])
	}
	return runs
}

func fail(r *history.Run) {
	for i, s := range r.Results.Summaries {
		if s.Contender == replay.Contender {
			r.Results.Summaries[i].Failures = 1
			r.Results.Summaries[i].FailedAt = []analysis.Place{{Block: s.Samples[0].Block, Position: s.Samples[0].Position}}
			r.Results.Summaries[i].Samples = s.Samples[1:]
		}
	}
}

func interrupt(r *history.Run) {
	r.Results.Blocks, r.Results.Ended = 1, analysis.EndedInterrupted
	for i, s := range r.Results.Summaries {
		r.Results.Summaries[i].Samples = s.Samples[:1]
	}
}

func unplanned(r *history.Run) { r.Unplanned = []string{"a trial is missing"} }

// Several runs of a machine are one number, and machines of one name stay apart.
func TestMachines(t *testing.T) {
	runs := runsOn(6, 0, math.Log(1.05), 1)
	runs[1].Labels[history.MachineLabel] = "m0"
	l, c := judged(t, runs)
	if len(l.Machines) != 5 || l.Machines[0].Runs != 2 || c.Counted != 5 || c.Machines[0].Runs != 2 {
		t.Errorf("two runs of one machine: %+v", l.Machines)
	}
	runs = runsOn(6, 0, 0, 1)
	for _, facts := range runs[2].Facts {
		if facts["cpu.model"] != "" {
			facts["cpu.model"] = "another"
		}
	}
	runs[2].Labels[history.MachineLabel] = "m0"
	l, _ = judged(t, runs)
	if len(l.Machines) != 6 || l.Machines[1].Name != "m0 (2)" || len(l.Differ) != 1 ||
		!strings.Contains(l.Differ[0], "another, simulated") {
		t.Errorf("two machines of one name: %+v, %q", l.Machines, l.Differ)
	}
}

// Machines that were registered together count if they have no run, and only together.
func TestRegistered(t *testing.T) {
	registered := func(n, of int, name string) []history.Run {
		runs := runsOn(of, 0, math.Log(1.05), 1)
		for _, r := range runs {
			r.Labels[history.FleetLabel] = history.FleetValue(n, name)
		}
		return runs
	}
	l, c := judged(t, registered(6, 5, "x"))
	if l.Registered == nil || *l.Registered != 6 || c.Verdict != analysis.Worse ||
		!strings.Contains(l.Notes[0], "6 machines and the comparisons were registered before the first run; 5 of them") {
		t.Errorf("five of six: %+v, %s: %s", l.Notes, c.Verdict, c.Reason)
	}
	_, c = judged(t, registered(8, 6, "x"))
	if c.Verdict != analysis.Inconclusive || !strings.HasPrefix(c.Reason, "2 machines of 8 machines have no number") {
		t.Errorf("six of eight: %s: %s", c.Verdict, c.Reason)
	}
	mixed := registered(6, 6, "x")
	mixed[3].Labels[history.FleetLabel] = history.FleetValue(6, "y")
	for name, runs := range map[string][]history.Run{"two registrations": mixed, "more than registered": registered(5, 6,
		"x"), "none": runsOn(6, 0, 0, 1), "a strange label": registered(-1, 6, "x")} {
		if l, _ := judged(t, runs); l.Registered != nil || !strings.Contains(l.Notes[0], "chosen after their runs") {
			t.Errorf("%s: %+v", name, l.Notes)
		}
	}
}

func TestMistakes(t *testing.T) {
	runs := runsOn(5, 0, 0, 1)
	runs[1].Results.Baseline = replay.Contender
	for name, err := range map[string]error{
		"two baselines": func() error { _, err := fleet.Of(runs, fleet.Option{}); return err }(),
		"alpha":         func() error { _, err := fleet.Of(nil, fleet.Option{Alpha: 2}); return err }(),
	} {
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
