package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
)

// scaled is run with the values of crun multiplied by f.
func scaled(run Run, f float64) Run {
	out := run
	out.Results.Summaries = append([]analysis.Summary{}, run.Results.Summaries...)
	for i, s := range out.Results.Summaries {
		if s.Contender != "crun" {
			continue
		}
		s.Samples = append([]analysis.Point{}, s.Samples...)
		for k := range s.Samples {
			s.Samples[k].Value *= f
		}
		out.Results.Summaries[i] = s
	}
	return out
}

// A change a little above the smallest one has the verdict worse, and one a little below
// has not; the same holds for changes beyond the margin. Where noise is small the margin
// decides, otherwise the width of the interval.
func TestSmallestChange(t *testing.T) {
	for _, noise := range []float64{0.0005, 0.01, 0.1} {
		for _, better := range []sample.Better{sample.Higher, sample.Lower} {
			r := rand.New(rand.NewPCG(4, 5))
			w := world{between: noise, within: noise, blocks: 16}
			runs := append(repeated(w, 5, r), w.run("new", r))
			for _, x := range runs {
				x.Results.Cells[0].Metrics[0].Better = better
			}
			now := runs[5]
			opt := Option{Repeats: runs[:5], Margin: .03}
			c := row(t, two(t, runs[0], now, opt), "crun").Relative
			if c.Smallest == nil || c.SmallestBeyond == nil || (*c.Smallest > 1) != (better == sample.Lower) {
				t.Fatalf("noise %g, better %s: smallest change %v, beyond the margin %v", noise, better,
					c.Smallest, c.SmallestBeyond)
			}
			outward := map[sample.Better]float64{sample.Lower: 1 + 1e-6, sample.Higher: 1 - 1e-6}[better]
			at := func(ratio float64) *Change {
				return row(t, two(t, runs[0], scaled(now, ratio / *c.Ratio), opt), "crun").Relative
			}
			if above, below := at(*c.Smallest*outward), at(*c.Smallest/outward); above.Verdict != analysis.Worse ||
				below.Verdict == analysis.Worse {
				t.Errorf("noise %g, better %s: %q above %g, %q below", noise, better, above.Verdict, *c.Smallest, below.Verdict)
			}
			above, below := at(*c.SmallestBeyond*outward), at(*c.SmallestBeyond/outward)
			if above.BeyondMargin == nil || !*above.BeyondMargin || below.BeyondMargin != nil && *below.BeyondMargin {
				t.Errorf("noise %g, better %s: beyond the margin above %g: %v, below: %v", noise, better, *c.SmallestBeyond,
					above.BeyondMargin, below.BeyondMargin)
			}
		}
	}
}

// Without the difference from run to run, or without an interval, nothing is known.
func TestNoSmallestChange(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	w := world{between: .01, within: .01, blocks: 16}
	short := w
	short.blocks = 2
	far := w.run("far", r)
	far.Labels = map[string]string{MachineLabel: "m2"}
	near := w.run("near", r)
	near.Labels = map[string]string{MachineLabel: "m1"}
	for name, c := range map[string]*Change{
		"withheld":   row(t, two(t, near, far, Option{Repeats: repeated(w, 3, r), By: Direct}), "crun").Direct,
		"no repeats": row(t, two(t, w.run("old", r), w.run("new", r), Option{}), "crun").Relative,
		"not judged": row(t, two(t, w.run("old", r), w.run("new", r), Option{Repeats: repeated(w, 3, r)}), "crun").Direct,
		"few blocks": row(t, two(t, w.run("old", r), short.run("new", r), Option{Repeats: repeated(w, 3, r)}),
			"crun").Relative,
	} {
		if c.Smallest != nil || c.SmallestBeyond != nil {
			t.Errorf("%s: %v, %v", name, c.Smallest, c.SmallestBeyond)
		}
	}
	if lower, beyond := analysis.Region(.03).Smallest(math.Inf(1), math.Inf(1)); !math.IsInf(lower, 1) ||
		!math.IsInf(beyond, 1) {
		t.Errorf("an interval without ends finds %g and %g", lower, beyond)
	}
}
