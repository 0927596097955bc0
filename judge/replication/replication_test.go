package replication

import (
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
)

// results has one primary comparison of contender b against a.
func results(v analysis.Verdict, low, high float64, beyond bool) analysis.Results {
	cell := analysis.Cell{Name: "c", Workload: "command", Metrics: []sample.Metric{{Name: "time", Unit: "s",
		Better: sample.Lower, Primary: true}}}
	mid := (low + high) / 2
	c := analysis.Comparison{Contender: "b", Baseline: "a", Cell: "c", Metric: "time", Unit: "s", Better: sample.Lower,
		Primary: true, Verdict: v, Ratio: &mid, CI: analysis.Interval{&low, &high}}
	if v == analysis.Better || v == analysis.Worse {
		c.BeyondMargin = &beyond
	}
	return analysis.Results{Run: "r", Baseline: "a", Margin: 0.02, Cells: []analysis.Cell{cell},
		Contenders:  []analysis.Contender{{Name: "a"}, {Name: "b"}, {Name: "a~twin", TwinOf: "a"}},
		Comparisons: []analysis.Comparison{c}}
}

func TestOutcomes(t *testing.T) {
	better := results(analysis.Better, 0.50, 0.52, true)
	slightly := results(analysis.Better, 0.97, 0.995, false)
	equal := results(analysis.Equivalent, 0.99, 1.01, false)
	gated := results(analysis.Inconclusive, 0.9, 1.1, false)
	gated.Comparisons[0].Gates = []analysis.Gate{{Name: "order", Reason: "the order matters"}}
	failed := results(analysis.Inconclusive, 0.9, 1.1, false)
	failed.Comparisons[0].CI, failed.Comparisons[0].Ratio = analysis.Interval{}, nil
	failed.Comparisons[0].Failures = analysis.Failures{Contender: 3, Of: 3}
	twin := results(analysis.Better, 0.50, 0.52, true)
	twin.Twin = &analysis.Twin{Different: true}
	absent := results(analysis.Better, 0.50, 0.52, true)
	absent.Comparisons = nil
	work := results(analysis.Better, 0.50, 0.52, true)
	work.Cells[0].Workload = "crypto"
	for name, x := range map[string]struct {
		there, here analysis.Results
		want        Outcome
		size        bool
	}{
		"the same":                  {better, better, Holds, false},
		"another size":              {better, results(analysis.Better, 0.8, 0.82, true), Holds, true},
		"a little apart":            {better, results(analysis.Better, 0.525, 0.53, true), Holds, false},
		"opposite":                  {better, results(analysis.Worse, 1.01, 1.02, false), Fails, false},
		"equivalent instead":        {better, equal, Fails, false},
		"small, then equivalent":    {slightly, equal, Inconclusive, false},
		"equivalent, then large":    {equal, better, Fails, false},
		"equivalent, then small":    {equal, slightly, Inconclusive, false},
		"equivalent twice":          {equal, equal, Holds, false},
		"wide":                      {better, results(analysis.Inconclusive, 0.5, 1.5, false), Inconclusive, false},
		"no difference, and apart":  {better, results(analysis.Inconclusive, 0.9, 1.1, false), Fails, false},
		"a check failed":            {better, gated, Inconclusive, false},
		"the contender failed":      {better, failed, Fails, false},
		"the twin differs":          {better, twin, Inconclusive, false},
		"it was not measured":       {better, absent, Inconclusive, false},
		"the work is not the same":  {better, work, Inconclusive, false},
		"an interval of foreign 0s": {better, results(analysis.Inconclusive, 0, 0, false), Inconclusive, false},
	} {
		all, err := Of(x.there, x.here)
		if err != nil || len(all) != 1 || all[0].Outcome != x.want || all[0].OtherSize != x.size {
			t.Errorf("%s: %+v, %v", name, all, err)
			continue
		}
		if s := Summarize(all); s.Outcome != x.want {
			t.Errorf("%s: %v", name, s)
		}
	}
	for _, nothing := range []analysis.Results{gated, twin} {
		if _, err := Of(nothing, better); !fault.Is(err, fault.Invalid) || len(Claims(nothing)) != 0 {
			t.Errorf("a run without a verdict: %v", err)
		}
	}
	if len(Claims(better)) != 1 {
		t.Error("a verdict is not counted")
	}
}

func TestSummary(t *testing.T) {
	all := []Comparison{{Outcome: Holds}, {Outcome: Holds, OtherSize: true}}
	if s := Summarize(all); s.Outcome != Holds || s.OtherSize != 1 {
		t.Errorf("%+v", s)
	}
	all = append(all, Comparison{Outcome: Inconclusive})
	if s := Summarize(all); s.Outcome != Inconclusive {
		t.Errorf("%+v", s)
	}
	all = append(all, Comparison{Outcome: Fails})
	const want = "does not hold: 4 verdicts (holds: 2, does not hold: 1, inconclusive: 1, holds with another size: 1)"
	if got := Summarize(all).String(); got != want {
		t.Error(got)
	}
	if s := Summarize(nil); s.Outcome != Inconclusive {
		t.Errorf("nothing: %+v", s)
	}
}
