package compare

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
)

// replayed makes a run as a laboratory does: a contender leaves the run as soon as it is
// decided. It returns the number of blocks in which crun took part.
func replayed(t *testing.T, name string, effect map[string]float64, r *rand.Rand) (Run, int) {
	t.Helper()
	d := analysis.Data{
		Run: name, Baseline: "host", Twin: "host~twin", Margin: 0.0001, Scope: analysis.ScopeMachine, Trials: 2,
		Looks: []int{8, 12, 20}, Alphas: []float64{0.02, 0.02, 0.01}, Ended: analysis.EndedBlocks,
		Cells: []analysis.Cell{{Name: "sha", Workload: "crypto", Metrics: []sample.Metric{
			{Name: "time", Unit: "s/op", Better: sample.Lower, Scale: sample.Ratio, Primary: true}}}},
		Contenders: []analysis.Contender{{Name: "host"}, {Name: "crun"}, {Name: "runc"}, {Name: "host~twin", TwinOf: "host"}},
	}
	part, left := 0, map[string]bool{}
	for b := range 20 {
		position := 0
		for range 2 {
			for _, i := range r.Perm(len(d.Contenders)) {
				c := d.Contenders[i].Name
				if left[c] && c != d.Twin {
					continue
				}
				d.Observations = append(d.Observations, analysis.Observation{Block: b, Position: position, Contender: c,
					Cell: "sha", Values: []sample.Value{{Metric: "time", Value: math.Exp(effect[c] + 0.005*r.NormFloat64())}}})
				position++
			}
		}
		if !left["crun"] {
			part++
		}
		now := analysis.Analyse(d)
		if left = now.Decided(); now.AllDecided() && b < 19 {
			t.Fatalf("all is decided after block %d", b)
		}
	}
	text, err := json.Marshal(analysis.Analyse(d))
	if err != nil {
		t.Fatal(err)
	}
	res, err := analysis.ParseResults(text)
	if err != nil {
		t.Fatal(err)
	}
	return Run{Results: res}, part
}

// A contender that is decided leaves the run, and lacks no value in the blocks after that.
func TestAContenderThatLeft(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	// runc is undecided until the end: it equals the baseline, but for a margin that is too small.
	draw := func(name string, slower float64) Run {
		run, part := replayed(t, name, map[string]float64{"crun": 0.5 + slower}, r)
		if part >= run.Results.Blocks || Part(run.Results, "crun") != part {
			t.Fatalf("crun took part in %d of %d blocks, not in %d", part, run.Results.Blocks, Part(run.Results, "crun"))
		}
		return run
	}
	old, repeats := draw("old", 0), []Run{draw("2", 0), draw("3", 0), draw("4", 0)}
	for _, by := range []By{Relative, Direct} {
		slower := draw("new", 0.7)
		compared := func() *Change {
			row := row(t, two(t, old, slower, Option{By: by, Repeats: repeats}), "crun")
			if by == Direct {
				return row.Direct
			}
			return row.Relative
		}
		if c := compared(); c.Withheld != "" || c.Verdict != analysis.Worse {
			t.Errorf("%s: %q, %s", by, c.Withheld, c.Verdict)
		}
		// Without the value of a block in which it took part.
		for i, s := range slower.Results.Summaries {
			if s.Contender == "crun" {
				slower.Results.Summaries[i].Samples = append(s.Samples[:4:4], s.Samples[6:]...)
			}
		}
		if c := compared(); c.Withheld == "" || c.Verdict != analysis.Inconclusive {
			t.Errorf("%s: one block less: %q, %s", by, c.Withheld, c.Verdict)
		}
	}
}

// Who was not decided did not leave, and values are missing.
func TestAContenderThatWasNotDecidedDidNotLeave(t *testing.T) {
	limit := func(o analysis.Outcome) []analysis.Limited {
		return []analysis.Limited{{Contender: "crun", Outcome: o}}
	}
	for name, x := range map[string]struct {
		change func(*analysis.Results)
		want   int
	}{
		"a verdict": {func(r *analysis.Results) { r.Comparisons[0].Verdict = analysis.Worse }, 5},
		"none":      {func(r *analysis.Results) {}, 8},
		"another's": {func(r *analysis.Results) { r.Comparisons[1].Verdict = analysis.Worse }, 8},
		"a check that withholds it": {func(r *analysis.Results) {
			r.Comparisons[0].Gates = []analysis.Gate{{Name: "errors"}}
		}, 5},
		"a run that ended decided": {func(r *analysis.Results) { r.Ended = analysis.EndedStuck }, 5},
		"a limit":                  {func(r *analysis.Results) { r.Limits = limit(analysis.Kept) }, 5},
		"a limit that is not decided": {func(r *analysis.Results) {
			r.Comparisons[0].Verdict, r.Limits = analysis.Worse, limit(analysis.Undecided)
		}, 8},
		"another metric until the end": {func(r *analysis.Results) {
			r.Comparisons[0].Verdict = analysis.Worse
			r.Summaries = append(r.Summaries, analysis.Summary{Contender: "crun", FailedAt: []analysis.Place{{Block: 7}}})
		}, 8},
	} {
		run := world{blocks: 8}.run("run", rand.New(rand.NewPCG(1, 1))).Results
		for i := range run.Comparisons {
			run.Comparisons[i].Verdict = analysis.Inconclusive
		}
		for i, s := range run.Summaries {
			if s.Contender == "crun" {
				run.Summaries[i].Samples = s.Samples[:10]
			}
		}
		x.change(&run)
		if got := Part(run, "crun"); got != x.want {
			t.Errorf("%s: took part in %d blocks, want %d", name, got, x.want)
		}
		if got := Part(run, "host"); got != 8 {
			t.Errorf("%s: the baseline took part in %d blocks", name, got)
		}
	}
}
