package analysis

import (
	"math"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/sample"
)

// counted is a run of two contenders that count instructions: a block has two trials of
// each side, with these values.
func counted(us, them [][2]float64) Data {
	m := sample.LowerRatio("instructions", "instruction", "")
	m.Primary, m.Exact = true, true
	d := Data{Run: "r", Baseline: "old", Margin: 0.02, Looks: []int{6}, Alphas: []float64{.05}, Scope: ScopeMachine,
		Trials: 2, Contenders: []Contender{{Name: "old"}, {Name: "new"}},
		Cells: []Cell{{Name: "boot", Workload: "boot", Metrics: []sample.Metric{m}}}}
	for b := range us {
		for i, side := range []struct {
			name string
			v    float64
		}{{"old", them[b][0]}, {"new", us[b][0]}, {"new", us[b][1]}, {"old", them[b][1]}} {
			d.Observations = append(d.Observations, Observation{Block: b, Position: i, Contender: side.name, Cell: "boot",
				Values: []sample.Value{m.Of(side.v)}})
		}
	}
	return d
}

func TestExactIsDecidedByOneBlock(t *testing.T) {
	const base = 1_421_153_544
	for _, tt := range []struct {
		us      float64
		verdict Verdict
		beyond  *bool
	}{
		{base, Equivalent, nil}, {base + 1, Equivalent, nil}, {base * 1.03, Worse, new(true)}, {base * .9, Better, new(true)},
	} {
		r := Analyse(counted([][2]float64{{tt.us, tt.us}}, [][2]float64{{base, base}}))
		c := r.Comparisons[0]
		if c.Verdict != tt.verdict || c.Exact == nil || c.Exact.Difference != tt.us-base || c.Exact.Trials != 4 ||
			c.CI[0] == nil || *c.CI[0] != *c.CI[1] || *c.Ratio != *c.CI[0] || c.Alpha != nil {
			t.Errorf("%v: got %+v, %+v", tt.us, c, c.Exact)
		}
		if math.Abs(*c.Ratio-tt.us/base) > 1e-12 {
			t.Errorf("%v: ratio %v", tt.us, *c.Ratio)
		}
		if (c.BeyondMargin == nil) != (tt.beyond == nil) {
			t.Errorf("%v: beyond the margin: %v", tt.us, c.BeyondMargin)
		}
		if !r.AllDecided() || r.WhyDecided() != EndedDecided {
			t.Errorf("%v: the run goes on", tt.us)
		}
		if !r.Summaries[0].Deterministic {
			t.Error("the baseline is not deterministic")
		}
	}
}

// A run may demand more trials: it goes on until each side has them.
func TestExactTrials(t *testing.T) {
	values := [][2]float64{{110, 110}, {110, 110}, {110, 110}, {110, 110}}
	base := [][2]float64{{100, 100}, {100, 100}, {100, 100}, {100, 100}}
	for _, tt := range []struct{ demanded, blocks, trials int }{{0, 1, 4}, {2, 1, 4}, {3, 1, 0}, {3, 2, 8}, {5, 2, 0},
		{5, 3, 12}, {6, 3, 12}, {7, 3, 0}, {7, 4, 16}} {
		d := counted(values[:tt.blocks], base[:tt.blocks])
		d.ExactTrials = tt.demanded
		r := Analyse(d)
		c := r.Comparisons[0]
		if exact := c.Exact != nil; exact != (tt.trials > 0) || exact && c.Exact.Trials != tt.trials ||
			exact != (c.Verdict == Worse) || r.AllDecided() != exact || r.Summaries[0].Deterministic != exact {
			t.Errorf("%d trials must agree, %d blocks: %s, %+v, the run is decided: %v", tt.demanded, tt.blocks, c.Verdict,
				c.Exact, r.AllDecided())
		}
	}
}

// Disturbances of time do not change a count; a wrong answer does.
func TestExactIgnoresNoise(t *testing.T) {
	d := counted([][2]float64{{5, 5}}, [][2]float64{{4, 4}})
	for i := range d.Observations {
		d.Observations[i].Gates = map[string]string{"steal": "7 % stolen", "cpu-wait": "it waited"}
	}
	if c := Analyse(d).Comparisons[0]; c.Verdict != Worse || len(c.Gates) != 0 {
		t.Errorf("got %v, %v", c.Verdict, c.Gates)
	}
	d.Observations[0].Gates["answer"] = "wrong"
	if c := Analyse(d).Comparisons[0]; c.Verdict != Inconclusive || len(c.Gates) != 1 {
		t.Errorf("got %v, %v", c.Verdict, c.Gates)
	}
}

// Without agreement no comparison is called deterministic, and one block decides nothing.
func TestExactNeedsAgreement(t *testing.T) {
	warned := func(c Comparison) bool {
		return slices.ContainsFunc(c.Warnings, func(w string) bool { return strings.Contains(w, "not deterministic") })
	}
	r := Analyse(counted([][2]float64{{5, 5}}, [][2]float64{{4, 4.5}}))
	if c := r.Comparisons[0]; c.Exact != nil || c.Verdict != Inconclusive || !warned(c) || r.AllDecided() ||
		r.Summaries[0].Deterministic {
		t.Errorf("got %+v", c)
	}
	// The first block agreed: its verdict stays, and the word goes.
	c := Analyse(counted([][2]float64{{5, 5}, {5, 6}}, [][2]float64{{4, 4}, {4, 4}})).Comparisons[0]
	if c.Exact != nil || c.Verdict != Worse || c.Blocks != 1 || !warned(c) {
		t.Errorf("got %+v", c)
	}
	// One trial of each side agrees with nothing.
	d := counted([][2]float64{{5, 5}}, [][2]float64{{4, 4}})
	d.Trials, d.Observations = 1, d.Observations[:2]
	if c := Analyse(d).Comparisons[0]; c.Exact != nil || c.Verdict != Inconclusive {
		t.Errorf("one trial of each side: %+v", c)
	}
	d = counted([][2]float64{{5, 5}}, [][2]float64{{4, 4}})
	d.Observations[1].Failed = true
	if c := Analyse(d).Comparisons[0]; c.Exact != nil || c.Verdict != Inconclusive {
		t.Errorf("a failed trial: %+v", c)
	}
}

// A contender that takes part no longer does not keep a run going whose other comparisons
// are exact; one that may still come does.
func TestExactWithoutAContenderThatIsGone(t *testing.T) {
	for _, gone := range []bool{true, false} {
		d := counted([][2]float64{{5, 5}}, [][2]float64{{4, 4}})
		d.Contenders = append(d.Contenders, Contender{Name: "absent"})
		d.Missing = []Missing{{Contender: "absent", Cell: "boot", Reason: "not installed", Gone: gone}}
		if r := Analyse(d); r.AllDecided() != gone || gone && r.WhyDecided() != EndedStuck {
			t.Errorf("gone %v: decided %v, %s", gone, r.AllDecided(), r.WhyDecided())
		}
	}
}
