package series

import (
	"math"
	"slices"

	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
)

// Geomean is the geometric mean of the ratios of a contender over the cells that both
// sides have. Its interval has the level of those of the cells, covers what they cover,
// and assumes that the noise of one cell is independent of that of another. It is null
// if a cell has no interval.
type Geomean = analysis.Geomean

// geomeans returns the means of all contenders and metrics with two cells or more, in
// the order of the comparisons.
//
// The bounds follow from those of the cells: the distance of a bound from the mean is
// the root of the sum of the squared distances in the cells, divided by their number.
//
// Source: Zou & Donner, Construction of confidence limits about effect measures,
// Statistics in Medicine 27 (2008), for a sum of independent estimates.
func geomeans(r Result) []Geomean {
	out := []Geomean{}
	type sums struct {
		log, below, above float64
		unit              string
		mixed             bool // of units
	}
	var all []sums
	for _, c := range r.Comparisons {
		i := slices.IndexFunc(out, func(g Geomean) bool {
			return g.Contender == c.Contender && g.Baseline == c.Baseline && g.Group == c.Group && g.Metric == c.Metric &&
				g.Better == c.Better
		})
		if i < 0 {
			i = len(out)
			out = append(out, Geomean{Contender: c.Contender, Baseline: c.Baseline, Group: c.Group, Metric: c.Metric,
				Better: c.Better})
			all = append(all, sums{unit: c.Unit})
		}
		all[i].mixed = all[i].mixed || c.Unit != all[i].unit
		if c.Scale == sample.Difference || c.Ratio == nil || *c.Ratio <= 0 {
			out[i].LeftOut++
			continue
		}
		out[i].Cells++
		s, at := &all[i], math.Log(*c.Ratio)
		s.log += at
		if c.CI[0] == nil || c.CI[1] == nil {
			s.below, s.above = math.NaN(), math.NaN()
			continue
		}
		s.below += math.Pow(at-math.Log(*c.CI[0]), 2)
		s.above += math.Pow(math.Log(*c.CI[1])-at, 2)
	}
	for i := range out {
		n, s := float64(out[i].Cells), all[i]
		out[i].Ratio = sample.Finite(math.Exp(s.log / n))
		out[i].CI = Interval{sample.Finite(math.Exp((s.log - math.Sqrt(s.below)) / n)),
			sample.Finite(math.Exp((s.log + math.Sqrt(s.above)) / n))}
	}
	kept := []Geomean{}
	for i, g := range out {
		// Of two units without a direction, one may be better higher and the other lower.
		if g.Cells >= 2 && (g.Better != "" || !all[i].mixed) {
			kept = append(kept, g)
		}
	}
	return kept
}
