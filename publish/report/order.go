package report

import (
	"cmp"
	"math"
	"slices"

	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
)

// Order is the order of contenders: in sentences, tables and charts alike. The baseline
// stands first and its twin last.
type Order string

// The orders. The zero value is ByEstimate.
const (
	ByEstimate Order = "estimate" // the best first, by the estimates of what is shown
	ByLab      Order = "lab"      // as in the lab file
)

// Orders are all of them.
func Orders() []string { return []string{string(ByEstimate), string(ByLab)} }

// meritOf is how much better than the baseline a comparison's estimate is: a logarithm,
// or a difference. Without an estimate it is the worst there is.
func meritOf(c analysis.Comparison) float64 {
	v := usableOrNil(c.Ratio, c.Scale)
	if v == nil {
		return math.Inf(-1)
	}
	m := *v
	if c.Scale != sample.Difference {
		m = math.Log(m)
	}
	if c.Better == sample.Lower {
		return -m
	}
	return m
}

// rankComparisons sorts comparisons of one cell and metric.
func (e *contents) rankComparisons(cs []analysis.Comparison) []analysis.Comparison {
	if e.order != ByLab {
		slices.SortStableFunc(cs, func(a, b analysis.Comparison) int { return cmp.Compare(meritOf(b), meritOf(a)) })
	}
	return cs
}

// rankedNames are the contenders of the whole run, ranked by the mean of what is primary.
func (e *contents) rankedNames() []string {
	return e.namesBy(func(c analysis.Comparison) bool { return c.Primary && c.Scale != sample.Difference })
}

// namesAt are the contenders ranked at one cell and metric.
func (e *contents) namesAt(cell, metric string) []string {
	return e.namesBy(func(c analysis.Comparison) bool { return c.Cell == cell && c.Metric == metric })
}

func (e *contents) namesBy(counts func(analysis.Comparison) bool) []string {
	var first, rest, last []string
	for _, c := range e.results.Contenders {
		switch {
		case c.Name == e.results.Baseline:
			first = append(first, c.Name)
		case e.isTwin(c.Name):
			last = append(last, c.Name)
		default:
			rest = append(rest, c.Name)
		}
	}
	if e.order != ByLab {
		sum, n := map[string]float64{}, map[string]float64{}
		for _, c := range e.results.Comparisons {
			if m := meritOf(c); counts(c) && !math.IsInf(m, -1) {
				sum[c.Contender] += m
				n[c.Contender]++
			}
		}
		mean := func(name string) float64 {
			if n[name] == 0 {
				return math.Inf(-1)
			}
			return sum[name] / n[name]
		}
		slices.SortStableFunc(rest, func(a, b string) int { return cmp.Compare(mean(b), mean(a)) })
	}
	return slices.Concat(first, rest, last)
}
