package analysis

import (
	"math"
	"slices"

	"bakeoff/base/sample"
	"bakeoff/judge/stats"
)

// Pending reports whether further blocks could still bring the comparison a
// verdict.
func (c Comparison) Pending() bool {
	return c.Primary && c.Verdict == Inconclusive && !c.hopeless && !slices.ContainsFunc(c.Gates, Gate.failsComparison)
}

// Decided reports for every contender whether it can leave the later blocks:
// each of its primary comparisons has a verdict or can never get one. A contender
// that only failed is given up after fewTrials trials, and all are if the baseline
// only failed. A cell that never succeeded is given up at the first look. The
// baseline and the twin stay until all others are decided. Without a primary metric
// no other contender is ever decided: such a run continues to its end.
func (r Results) Decided() map[string]bool {
	out := map[string]bool{}
	pending, all := r.pending()
	for _, c := range r.Contenders {
		done := !pending[c.Name]
		if c.Name == r.Baseline || r.Twin != nil && c.Name == r.Twin.Name {
			done = all
		}
		out[c.Name] = done
	}
	return out
}

// AllDecided reports whether no comparison is pending. A run that compares the
// baseline with its twin only ends with the verdicts of the twin.
func (r Results) AllDecided() bool {
	_, all := r.pending()
	return all
}

// WhyDecided says why a run ends that is AllDecided: EndedDecided if every comparison
// has a verdict, EndedFailed if the trials of too many contenders failed for any
// comparison, and EndedStuck if some can never get one. A contender, or a baseline, that
// has no value at a cell has no comparison there, and no verdict either. Where conditions
// of --fail-on with a tolerance are all that decides, EndedLimits says that all are.
func (r Results) WhyDecided() string {
	if slices.ContainsFunc(r.Limits, func(l Limited) bool { return l.Outcome == Undecided }) {
		return EndedStuck
	}
	if r.limitsOnly && len(r.Limits) > 0 {
		return EndedLimits
	}
	all := r.Comparisons
	if r.Twin != nil && len(r.Contenders) == 2 {
		all = r.Twin.Comparisons
	}
	if !slices.ContainsFunc(all, func(c Comparison) bool { return c.Primary }) {
		return EndedFailed
	}
	if slices.ContainsFunc(all, func(c Comparison) bool { return c.Primary && c.Verdict == Inconclusive }) {
		return EndedStuck
	}
	for _, m := range r.Missing {
		if (r.Twin == nil || m.Contender != r.Twin.Name) && r.judgesCell(m.Cell) {
			return EndedStuck
		}
	}
	return EndedDecided
}

// FirstLook returns the number of blocks at the first look whose exact test has an
// outcome that can decide while all primary comparisons are pending: with n blocks its
// smallest p value is 2^(1−n). It returns 0 if there is none. Comparisons that are missing for
// good do not count.
func (r Results) FirstLook() int {
	gone := map[[2]string]bool{}
	for _, m := range r.Missing {
		gone[[2]string{m.Contender, m.Cell}] = m.Gone
	}
	open := 0
	for _, k := range r.Cells {
		for _, m := range k.Metrics {
			for _, c := range r.Contenders {
				if m.Primary && c.Name != r.Baseline && c.TwinOf == "" && !gone[[2]string{c.Name, k.Name}] {
					open++
				}
			}
		}
	}
	spend := make([]float64, len(r.Looks))
	for i := range spend {
		if i < len(r.Alphas) {
			spend[i] = r.Alphas[i] / float64(max(open, 1))
		}
	}
	for i, level := range stats.Boundaries(r.Looks, spend) {
		if math.Exp2(float64(1-r.Looks[i])) <= level {
			return r.Looks[i]
		}
	}
	return 0
}

// judgesCell reports whether a cell has a primary metric.
func (r Results) judgesCell(cell string) bool {
	return slices.ContainsFunc(r.Cells, func(c Cell) bool {
		return c.Name == cell && slices.ContainsFunc(c.Metrics, func(m sample.Metric) bool { return m.Primary })
	})
}

// pending returns the contenders with a comparison that is pending, and whether
// the run is decided.
func (r Results) pending() (pending map[string]bool, all bool) {
	pending = map[string]bool{}
	primary := false
	for _, k := range r.Cells {
		for _, m := range k.Metrics {
			primary = primary || m.Primary
		}
	}
	primary = primary || r.limitsOnly
	started := len(r.Looks) > 0 && r.Blocks >= r.Looks[0] || r.isExactlyDecided()
	twin := ""
	if r.Twin != nil {
		twin = r.Twin.Name
	}
	others := 0
	failed := r.onlyFailed(primary)
	for _, c := range r.Contenders {
		if c.Name != r.Baseline && c.Name != twin {
			others++
		}
		pending[c.Name] = (!primary || !started) && !failed[c.Name] && !failed[r.Baseline]
	}
	for _, c := range r.Comparisons {
		pending[c.Contender] = pending[c.Contender] || !r.limitsOnly && c.Pending()
	}
	for _, l := range r.Limits {
		pending[l.Contender] = pending[l.Contender] || l.Pending()
	}
	all = primary && started || others > 0 || r.Twin != nil || failed[r.Baseline]
	if r.Twin != nil {
		for _, c := range r.Twin.Comparisons {
			pending[twin] = pending[twin] || c.Pending()
		}
	}
	for _, c := range r.Contenders {
		switch {
		case c.Name == r.Baseline:
		case c.Name == twin && others > 0:
		default:
			all = all && !pending[c.Name]
		}
	}
	return pending, all
}

// isExactlyDecided reports whether everything that is asked is decided without error, which takes
// no look, and none will be added: what is missing is so for good.
func (r Results) isExactlyDecided() bool {
	some := false
	if r.limitsOnly && len(r.Limits) == 0 {
		return false
	}
	for _, l := range r.Limits {
		if l.Outcome == Undecided {
			return false
		}
		some = true
	}
	for _, c := range r.Comparisons {
		if !r.limitsOnly && c.Primary && c.Exact == nil {
			return false
		}
		some = some || c.Primary
	}
	return some && !slices.ContainsFunc(r.Missing, func(m Missing) bool { return !m.Gone })
}

// fewTrials is the number of trials after which a contender that only failed is given
// up: two blocks, each with environments of its own, if the design mirrors them.
const fewTrials = 4

// onlyFailed returns the contenders that had at least fewTrials trials at every cell
// and no success. If the run has primary metrics, only their cells count: a
// comparison needs a success on both sides.
func (r Results) onlyFailed(primary bool) map[string]bool {
	type place struct{ contender, cell string }
	missing, failures := map[place]bool{}, map[place]int{}
	for _, m := range r.Missing {
		missing[place{m.Contender, m.Cell}] = true
	}
	for _, s := range r.Summaries {
		at := place{s.Contender, s.Cell}
		failures[at] = max(failures[at], s.Failures)
	}
	out := map[string]bool{}
	for _, c := range r.Contenders {
		only := len(r.Cells) > 0
		for _, k := range r.Cells {
			if primary && !slices.ContainsFunc(k.Metrics, func(m sample.Metric) bool { return m.Primary }) {
				continue
			}
			at := place{c.Name, k.Name}
			only = only && missing[at] && failures[at] >= fewTrials
		}
		out[c.Name] = only
	}
	return out
}
