package compare

import (
	"slices"

	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
)

// Values returns what a run says of a contender at a cell and metric, one value for each
// complete block, in order: its own values, or those minus the values of the run's
// baseline. They are logarithms, or as measured on the scale sample.Difference.
func Values(run analysis.Results, by By, contender, cell, metric string, scale sample.Scale) []float64 {
	key := cellMetric{cell, metric}
	if by == Direct {
		return directValues(run, contender, key, scale)
	}
	return relative(run, contender, run.Baseline, key, scale)
}

// Size returns the typical size of the values that the margin of a change is taken of on
// the scale sample.Difference: those of the baseline, or the contender's own; 0 if it is
// unknown.
func Size(run analysis.Results, by By, contender, cell, metric string) float64 {
	if by == Relative {
		contender = run.Baseline
	}
	return typicalSize(run, contender, cellMetric{cell, metric})
}

// Gates returns the gates that a run's comparison of a contender failed. The baseline is
// compared with its twin, and with nobody else if the run has no other contender.
func Gates(run analysis.Results, contender, cell, metric string) (out []analysis.Gate) {
	comparisons := run.Comparisons
	if contender == run.Baseline && run.Twin != nil {
		comparisons = run.Twin.Comparisons
		contender = run.Twin.Name
	}
	for _, c := range comparisons {
		if c.Contender == contender && c.Cell == cell && c.Metric == metric {
			out = append(out, c.Gates...)
		}
	}
	return out
}

// Failures returns the number of trials of a contender that failed.
func Failures(run analysis.Results, contender, cell, metric string) int {
	return failures(run, contender, cellMetric{cell, metric})
}

// OtherWork says why two runs did different work for a contender at a cell and metric
// that both name, by the cell itself and by the parameters and variables of the
// contender and, for Relative, of the baseline. It returns nil if they did the same.
func OtherWork(a, b analysis.Results, by By, contender, cell, metric string) (out []string) {
	x, ok := cellNamed(a.Cells, cell)
	y, both := cellNamed(b.Cells, cell)
	if !ok || !both {
		return []string{"cell " + cell + " is in one only"}
	}
	of := func(m sample.Metric) bool { return m.Name == metric }
	x.Metrics, y.Metrics = lists.Filter(x.Metrics, of), lists.Filter(y.Metrics, of)
	out = workDiffers(x, y)
	sides := []string{contender}
	if by == Relative {
		if a.Baseline != b.Baseline {
			return append(out, "the baseline is "+a.Baseline+" in one and "+b.Baseline+" in the other")
		}
		sides = append(sides, a.Baseline)
	}
	for _, side := range slices.Compact(sides) {
		named := func(c analysis.Contender) bool { return c.Name == side }
		p, ok := lists.Find(a.Contenders, named)
		q, both := lists.Find(b.Contenders, named)
		if ok && both {
			out = append(out, variantDiffers(p, q, []string{cell})...)
		}
	}
	return out
}
