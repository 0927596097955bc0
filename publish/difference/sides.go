package difference

import (
	"strings"

	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
)

// Summaries are those of a run by contender, cell and metric.
type Summaries map[[3]string]*analysis.Summary

// Index returns the summaries of a run, which it does not copy.
func Index(list []analysis.Summary) Summaries {
	out := make(Summaries, len(list))
	for i := range list {
		s := &list[i]
		out[[3]string{s.Contender, s.Cell, s.Metric}] = s
	}
	return out
}

// Sides returns the medians of both sides of a comparison in their unit, "23.8 ms" and
// "24.1 ms", with no-break spaces; "" unless both are known.
func (s Summaries) Sides(c analysis.Comparison) (baseline, contender string) {
	a, b := s[[3]string{c.Baseline, c.Cell, c.Metric}], s[[3]string{c.Contender, c.Cell, c.Metric}]
	if a == nil || b == nil || a.Median == nil || b.Median == nil {
		return "", ""
	}
	baseline, contender = unit.FormatBoth(*a.Median, *b.Median, a.Unit)
	return strings.ReplaceAll(baseline, " ", "\u00a0"), strings.ReplaceAll(contender, " ", "\u00a0")
}
