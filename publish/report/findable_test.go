package report

import (
	"math"
	"testing"

	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
)

// The widest interval without a verdict better or worse says what a cell can find.
func TestFindable(t *testing.T) {
	num := func(v float64) *float64 { return &v }
	compared := func(cell, contender string, v analysis.Verdict, ratio, lo, hi float64) analysis.Comparison {
		c := analysis.Comparison{Cell: cell, Contender: contender, Metric: "wall", Unit: "s", Scale: sample.Ratio,
			Primary: true, Verdict: v, Ratio: num(ratio)}
		if !math.IsNaN(lo) {
			c.CI = analysis.Interval{num(lo), num(hi)}
		}
		return c
	}
	nan := math.NaN()
	b := &builder{contents: &contents{results: analysis.Results{Comparisons: []analysis.Comparison{
		compared("near", "a", analysis.Equivalent, 1, 0.99, 1.01),
		compared("near", "b", analysis.Inconclusive, 1.1, 1.1/1.25, 1.2),
		compared("near", "c", analysis.Worse, 40, 10, 160),
		compared("far", "a", analysis.Worse, 40, 30, 50),
		compared("wide", "a", analysis.Inconclusive, 1, 0.4, 1.1),
		compared("none", "a", analysis.Inconclusive, 1, nan, nan),
	}}}}
	for _, cell := range []string{"near", "far", "wide", "none"} {
		b.page.Groups = append(b.page.Groups, group{Cell: cell, Metric: "wall"})
	}
	if got, want := b.findable(), "25.0 % at near, a factor of 2.50 at wide"; got != want {
		t.Errorf("findable: %q, want %q", got, want)
	}
}
