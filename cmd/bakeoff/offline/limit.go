package offline

import (
	"math"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/judge/compare"
	"bakeoff/publish/report"
)

// limitUsage says how a limit with a number is written.
const limitUsage = "METRIC>+N% or METRIC<-N%"

// isLimit tells whether a condition has a tolerance.
func isLimit(condition string) bool { return analysis.HasLimit([]string{condition}) }

// Limits lists the conditions with a tolerance.
func (f FailOn) Limits() FailOn { return lists.Filter(f, isLimit) }

// answers are those of r to a condition with a tolerance. Results that were not asked, such
// as those of two runs, have intervals to read them from. known is false if no comparison
// has the name of the condition.
func answers(condition string, r analysis.Results) (out []analysis.Limited, known bool) {
	for _, l := range r.Limits {
		if l.Condition == condition {
			out = append(out, l)
		}
	}
	if len(out) > 0 {
		return out, true
	}
	limit, _ := analysis.ParseLimit(condition, r.Margin)
	for _, c := range r.Comparisons {
		m := sample.Metric{Name: c.Metric, Better: c.Better, Scale: c.Scale, Primary: c.Primary}
		if !limit.Concerns(c.Cell, c.Workload, m) {
			continue
		}
		a := analysis.Limited{Condition: condition, Contender: c.Contender, Cell: c.Cell, Metric: c.Metric, CI: c.CI,
			Blocks: c.Blocks, MoreBlocks: c.MoreBlocks, Outcome: analysis.Undecided, Reason: "the interval contains the limit"}
		if len(c.Gates) > 0 {
			a.Reason = "check " + c.Gates[0].Name + " failed: " + c.Gates[0].Reason
		} else if c.Scale == sample.Difference {
			a.Reason = "the metric is compared by differences, so a share is unknown"
		} else {
			a.Outcome = limit.Outcome(logOf(c.CI[0], math.Inf(-1)), logOf(c.CI[1], math.Inf(1)), m, math.NaN())
		}
		out = append(out, a)
	}
	return out, len(out) > 0 || mayBeMissing(limit, r)
}

// mayBeMissing reports whether the comparisons of a limit are absent because cells are
// missing: a name that none of these cells has is wrong whatever is missing.
func mayBeMissing(limit analysis.Limit, r analysis.Results) bool {
	if len(r.Missing) == 0 || limit.Name == "" {
		return len(r.Missing) > 0
	}
	return slices.ContainsFunc(r.Cells, func(k analysis.Cell) bool {
		missing := slices.ContainsFunc(r.Missing, func(m analysis.Missing) bool {
			return m.Cell == k.Name || m.Cell == compare.EveryCell
		})
		return missing && (len(k.Metrics) == 0 || slices.ContainsFunc(k.Metrics, func(m sample.Metric) bool {
			return limit.Concerns(k.Name, k.Workload, m)
		}))
	})
}

// logOf is the logarithm of a bound, and otherwise where there is none.
func logOf(bound *float64, otherwise float64) float64 {
	if bound == nil {
		return otherwise
	}
	return math.Log(*bound)
}

// judgeLimits are the lines of the limits of all results: of those that are exceeded, and of
// those that are not decided. A limit that no comparison has is an error: it would let
// everything pass.
func (f FailOn) judgeLimits(all []analysis.Results) (exceeded, open []string, err error) {
	for _, condition := range f.Limits() {
		known := false
		for _, r := range all {
			found, there := answers(condition, r)
			known = known || there
			for _, l := range found {
				named, says := l.Contender+" "+l.Cell+" "+l.Metric, report.ToleranceEvidence(r, l)
				switch l.Outcome {
				case analysis.Exceeded:
					exceeded = append(exceeded, "--fail-on "+condition+": "+named+" is "+says)
				case analysis.Undecided:
					open = append(open, "--fail-on "+condition+" is not decided: "+named+": "+says)
				}
			}
		}
		if known {
			continue
		}
		limit, _ := analysis.ParseLimit(condition, 0)
		if limit.Name == "" {
			return nil, nil, fault.New(fault.Invalid, "--fail-on %s: the comparison contains no primary metric", condition)
		}
		return nil, nil, fault.New(fault.Invalid, "--fail-on %s: no comparison has the metric, cell or workload %q; there "+
			"are %s", condition, limit.Name, namesIn(all))
	}
	return exceeded, open, nil
}

// namesIn lists what limits could name.
func namesIn(all []analysis.Results) string {
	var names []string
	for _, r := range all {
		for _, c := range r.Comparisons {
			names = append(names, c.Cell, c.Metric)
		}
		for _, k := range r.Cells {
			names = append(names, k.Name)
			names = append(names, lists.Map(k.Metrics, func(m sample.Metric) string { return m.Name })...)
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		return "no comparisons"
	}
	return strings.Join(names[:min(len(names), 20)], ", ")
}
