package compare

import (
	"math"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
)

// exactSource is where the difference between runs of an exact metric is known from.
const exactSource = "an exact metric, whose trials agreed in both runs"

// exactChange estimates the change of a metric whose trials agreed exactly, in both runs: it has
// no error, inside of the runs or between them. It is nil if they did not.
func (p *pair) exactChange(r Row, by By) *Change {
	if r.Scale == sample.Difference || r.Failures[0]+r.Failures[1] > 0 {
		return nil
	}
	c := &Change{Source: exactSource, Exact: true}
	var logs [2]float64
	for i, run := range p.runs() {
		s, ok := deterministic(run, r.Contender, r.Cell, r.Metric)
		if !ok {
			return nil
		}
		v := *s.Median
		if by == Relative {
			base, ok := deterministic(run, p.baseline(), r.Cell, r.Metric)
			if !ok {
				return nil
			}
			v /= *base.Median
		}
		logs[i] = math.Log(v)
		blocks := lists.Set(s.Samples, func(at analysis.Point) int { return at.Block })
		c.Blocks[i] = len(blocks)
		if i == 0 {
			c.Old = &v
		} else {
			c.New = &v
		}
	}
	shift, none := logs[1]-logs[0], 0.0
	ratio := math.Exp(shift)
	if *c.Old == *c.New {
		shift, ratio = 0, 1
	}
	c.Ratio, c.Spread = &ratio, &none
	c.Within = analysis.Interval{&ratio, &ratio}
	c.CI = c.Within
	if r.Primary && by == p.opt.By && p.getsVerdict(r.Contender) {
		region := analysis.NewRegion(p.opt.Margin, r.Scale, 0)
		c.Verdict = region.Verdict(shift, shift, r.Better)
		if c.Withheld = p.withheld(r, by, c.Blocks); by == Direct && c.Withheld == "" {
			// Another architecture has other instructions.
			c.onMachines(strings.Join(factsDiffer(p.a, p.b, "NEW", []string{"arch"}, []string{r.Contender}), "; "))
		}
		if len(r.Gates) > 0 || c.Withheld != "" {
			c.Verdict = analysis.Inconclusive
		}
		c.BeyondMargin = region.Beyond(c.Verdict, shift, shift)
	}
	return c
}

// deterministic is the summary of a contender, if its trials agree exactly.
func deterministic(run analysis.Results, contender, cell, metric string) (analysis.Summary, bool) {
	for _, s := range run.Summaries {
		if s.Contender == contender && s.Cell == cell && s.Metric == metric {
			return s, s.Deterministic && s.Median != nil
		}
	}
	return analysis.Summary{}, false
}
