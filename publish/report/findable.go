package report

import (
	"math"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/publish/difference"
)

// findable says which difference this run finds in half of the cases, for each cell and
// metric that has a comparison without a verdict better or worse: "1.2 % at sha256,
// 14 % at files". That is the width of the widest interval on the side that is larger. It is "" if
// there is no such comparison.
func (b *builder) findable() string {
	var out []string
	for _, g := range b.page.Groups {
		text, widest := "", 0.0
		for _, c := range b.primary(g.Cell, g.Metric) {
			if c.Verdict == analysis.Better || c.Verdict == analysis.Worse || c.Exact != nil {
				continue
			}
			if d, ok := halfWidth(c); ok && d > widest {
				widest = d
				text = distance(c.Scale, c.Unit, d) + " at " + g.Cell
				if b.metricsAt(g.Cell) > 1 {
					text += " " + g.Metric
				}
			}
		}
		if text != "" {
			out = append(out, text)
		}
	}
	return strings.Join(out, ", ")
}

// metricsAt is the number of primary metrics of a cell.
func (b *builder) metricsAt(cell string) (n int) {
	return lists.Count(b.page.Groups, func(g group) bool { return g.Cell == cell })
}

// halfWidth is the longer distance between the estimate and the bounds of its interval: of
// logarithms for a ratio, in the unit of the metric for a difference.
func halfWidth(c analysis.Comparison) (float64, bool) {
	ci := c.CI
	if ci[0] == nil || ci[1] == nil {
		ci = c.Interim
	}
	if c.Ratio == nil || ci[0] == nil || ci[1] == nil {
		return 0, false
	}
	at, lo, hi := *c.Ratio, *ci[0], *ci[1]
	if c.Scale != sample.Difference {
		at, lo, hi = math.Log(at), math.Log(lo), math.Log(hi)
	}
	d := max(at-lo, hi-at)
	return d, d > 0 && !math.IsInf(d, 0)
}

// distance writes a half width: "1.2 %", "a factor of 2.1" or "3.00 ms".
func distance(scale sample.Scale, unitName string, d float64) string {
	switch ratio := math.Exp(d); {
	case scale == sample.Difference:
		return unit.Format(d, unitName)
	case ratio > difference.Limit:
		return "a factor of " + difference.Factor(ratio)
	default:
		return difference.Percentage(100*(ratio-1)) + " %"
	}
}
