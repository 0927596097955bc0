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

// Part returns the number of blocks of a run in which a contender took part: all that count,
// but for those after it had left the run, because its comparisons were decided. Nobody else
// leaves without a loss: a contender without values in the last blocks whose comparisons were
// pending took part in them, or could not be started any more.
func Part(run analysis.Results, contender string) int {
	if contender == run.Baseline || !mayLeave(run, contender) {
		return run.Blocks
	}
	last := -1
	for b := range blocksOf(run, contender) {
		last = max(last, b)
	}
	after := 0
	for b := range blocksOf(run, run.Baseline) { // the baseline takes part in every block that counts
		if b > last {
			after++
		}
	}
	return run.Blocks - after
}

// blocksOf returns the blocks in which a contender has a value or a failed trial.
func blocksOf(run analysis.Results, contender string) map[int]bool {
	out := map[int]bool{}
	for _, s := range run.Summaries {
		if s.Contender != contender {
			continue
		}
		for _, p := range s.Samples {
			out[p.Block] = true
		}
		for _, p := range s.FailedAt {
			out[p.Block] = true
		}
	}
	return out
}

// mayLeave reports whether everything that a run asks about a contender was decided, as
// analysis.Results.Decided has it.
func mayLeave(run analysis.Results, contender string) bool {
	if slices.Contains([]string{analysis.EndedDecided, analysis.EndedFailed, analysis.EndedStuck, analysis.EndedLimits},
		run.Ended) {
		return true
	}
	answered := false
	for _, l := range run.Limits {
		if l.Contender == contender {
			if answered = l.Outcome != analysis.Undecided; !answered {
				return false
			}
		}
	}
	return answered || !slices.ContainsFunc(run.Comparisons, func(c analysis.Comparison) bool {
		return c.Contender == contender && c.Pending()
	})
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
