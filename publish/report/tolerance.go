package report

import (
	"fmt"

	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/publish/chart"
	"bakeoff/publish/difference"
)

// tolerances puts the answers to the conditions with a tolerance into words.
func (b *builder) tolerances() {
	for _, l := range b.results.Limits {
		s := sentence{Contender: l.Contender, Word: string(l.Outcome), Where: " at " + l.Cell + " " + l.Metric,
			Evidence: ToleranceEvidence(b.results, l)}
		switch l.Outcome {
		case analysis.Exceeded:
			s.Mark, s.Claim = chart.Worse, l.Contender+" exceeds the tolerance "+l.Condition
		case analysis.Kept:
			s.Mark, s.Claim = chart.Same, l.Contender+" keeps the tolerance "+l.Condition
		default:
			s.Mark, s.Claim = chart.Open, l.Contender+" with the tolerance "+l.Condition+" is "+string(l.Outcome)
		}
		b.page.Tolerances = append(b.page.Tolerances, s)
	}
}

// limitedComparison is the comparison that a tolerance is about.
func limitedComparison(r analysis.Results, l analysis.Limited) analysis.Comparison {
	c, found := lists.Find(r.Comparisons, func(c analysis.Comparison) bool {
		return c.Contender == l.Contender && c.Cell == l.Cell && c.Metric == l.Metric
	})
	k, _ := lists.Find(r.Cells, func(k analysis.Cell) bool { return k.Name == l.Cell })
	if m, ok := sample.Named(k.Metrics, l.Metric); ok && !found {
		c.Scale, c.Unit, c.Better = m.Scale, m.Unit, m.Better
	}
	return c
}

// ToleranceEvidence says what the answer to a tolerance is read from: by how much it is
// exceeded, or the interval; and what would decide it.
func ToleranceEvidence(r analysis.Results, l analysis.Limited) string {
	c := limitedComparison(r, l)
	if l.Outcome == analysis.Exceeded {
		return exceededBy(r, l, c)
	}
	text := ""
	if l.CI[0] != nil || l.CI[1] != nil {
		text = difference.Of(c.Scale, c.Unit, l.CI[0], l.CI[1]).Between(l.CI[0], l.CI[1]) + " "
	}
	text += "after " + unit.Count(l.Blocks, "block")
	if l.Reason != "" {
		text += ": " + l.Reason
	}
	if l.MoreBlocks != nil && *l.MoreBlocks > 0 {
		text += fmt.Sprintf("; about %s would decide it", unit.Count(*l.MoreBlocks, "more block"))
	}
	return text
}

// exceededBy says by how much a tolerance is exceeded at least.
func exceededBy(r analysis.Results, l analysis.Limited, c analysis.Comparison) string {
	text, bound, side := "", l.CI[0], " or higher"
	if limit, _ := analysis.ParseLimit(l.Condition, r.Margin); limit.Name == "" {
		yes := true
		text = "worse" + analysis.Amount(&yes, r.Margin) + ": "
		if c.Better != sample.Lower {
			bound, side = l.CI[1], " or lower"
		}
	} else if !limit.More {
		bound, side = l.CI[1], " or lower"
	}
	if bound == nil { // the whole interval is infinite
		return text + "beyond every limit, because failed trials count as the worst value"
	}
	text += difference.Of(c.Scale, c.Unit, bound).Text(*bound)
	if c.Exact != nil {
		return text + fmt.Sprintf(" (%s exactly)", difference.Amount(c.Exact.Difference, c.Unit))
	}
	return text + side
}

// GeomeanName says what a geometric mean is of: "geometric mean of 3 cells".
func GeomeanName(g analysis.Geomean) string {
	text := fmt.Sprintf("geometric mean of %d cells", g.Cells)
	if g.LeftOut > 0 {
		text = fmt.Sprintf("geometric mean of %d of %d cells", g.Cells, g.Cells+g.LeftOut)
	}
	if g.Group != "" {
		text += ", " + g.Group
	}
	return text
}

// geomeanSentence is a geometric mean of values in blocks.
func geomeanSentence(g analysis.Geomean) string {
	return fmt.Sprintf("%s, %s (%s is better): %s %s against %s in %s, without a verdict", GeomeanName(g), g.Metric,
		g.Better, g.Contender, difference.Change(sample.Ratio, "", g.Ratio, g.CI[0], g.CI[1]), g.Baseline,
		unit.Count(g.Blocks, "block"))
}
