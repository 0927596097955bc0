package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/publish/chart"
)

// listTwinDifferences lists the differences of the twin.
func (b *builder) listTwinDifferences() {
	t := b.results.Twin
	if t == nil || !t.Different {
		return
	}
	for _, c := range t.Comparisons {
		if c.Verdict == analysis.Better || c.Verdict == analysis.Worse {
			b.page.Alarm = append(b.page.Alarm, sayComparison(c, b.results.Margin, b.intervalLevel(), b.medians(c), "").String())
		}
	}
}

// verdicts puts every primary comparison into a sentence, by cell and metric
// in the order of the lab file.
func (b *builder) verdicts() {
	p := &b.page
	for _, c := range b.results.Cells {
		for _, m := range c.Metrics {
			if !m.Primary {
				continue
			}
			g := group{ID: fmt.Sprintf("verdict-%d", len(p.Groups)+1), Cell: c.Name, Metric: m.Name,
				Direction: direction(m.Better), Doc: measure(m), About: b.describeCell(c), Defaults: b.defaults(c)}
			for _, x := range b.primary(c.Name, m.Name) {
				g.Items = append(g.Items, b.sentence(x))
			}
			g.Items = append(g.Items, b.missingAt(c.Name)...)
			g.Contrary = b.contraryNote(c.Name, m.Name)
			g.Changes = b.changes(c.Name, m.Name)
			if len(g.Items) > 0 {
				p.Groups = append(p.Groups, g)
				p.Compared += len(g.Items)
			}
		}
	}
	p.Tally = talliesOf(p.Groups)
	p.Unjudged = b.unjudged()
	p.Absent = b.missingSentences()
	p.ScopeNote = b.scopeNote()
	if len(p.Groups) == 0 {
		p.NoVerdict = b.noVerdict()
	}
}

// noVerdict says why a run without a group has no verdict.
func (b *builder) noVerdict() string {
	judged := slices.ContainsFunc(b.results.Cells, func(c analysis.Cell) bool {
		return slices.ContainsFunc(c.Metrics, func(m sample.Metric) bool { return m.Primary })
	})
	switch {
	case !judged:
		return "No comparison is primary, so there is no verdict."
	case b.countOthers() == 0:
		return "There is no verdict: " + b.results.Baseline + " has no other contender to compare with."
	}
	return "There is no verdict: no comparison has a result."
}

// countOthers is the number of contenders besides the baseline and its twin.
func (b *builder) countOthers() (n int) {
	for _, c := range b.results.Contenders {
		if c.Name != b.results.Baseline && !b.isTwin(c.Name) {
			n++
		}
	}
	return n
}

// talliesOf counts the sentences of groups by their word.
func talliesOf(groups []group) (out []tally) {
	leads := map[string]string{checkFailed: "#checks", "missing": "#missing"}
	for _, g := range groups {
		for _, s := range g.Items {
			i := slices.IndexFunc(out, func(t tally) bool { return t.Word == s.Word })
			if i < 0 {
				i = len(out)
				out = append(out, tally{Mark: s.Mark, Word: s.Word, Href: leads[s.Word]})
			}
			out[i].Count++
		}
	}
	slices.SortStableFunc(out, func(a, b tally) int { return slices.Index(words, a.Word) - slices.Index(words, b.Word) })
	return out
}

// primary are the comparisons with a verdict on one cell and metric.
func (b *builder) primary(cell, metric string) []analysis.Comparison {
	out := lists.Filter(b.results.Comparisons, func(c analysis.Comparison) bool {
		return c.Primary && c.Cell == cell && c.Metric == metric
	})
	return b.rankComparisons(out)
}

// missingAt are the contenders without a result at a cell. The baseline has no
// comparison that could be missing: unsaid names it.
func (b *builder) missingAt(cell string) []sentence {
	var out []sentence
	for _, m := range b.results.Missing {
		if m.Cell == cell && b.compares(m.Contender) {
			out = append(out, sentence{Contender: m.Contender, Mark: chart.Plain, Word: "missing",
				Claim: m.Contender + " has no result", Where: " at " + m.Cell, Evidence: shortReason(m.Reason)})
		}
	}
	return out
}

// medians introduces a difference with the values of both sides in their unit, the
// baseline's first: "host 23.8 ms, crun 24.1 ms, "; "" unless both have one.
func (b *builder) medians(c analysis.Comparison) string {
	baseline, contender := b.summaries.Sides(c)
	if baseline == "" {
		return ""
	}
	text := c.Baseline + " " + baseline + ", " + c.Contender + " " + contender + ", "
	if b.contrary(c) {
		text += "but within blocks "
	}
	return text
}

// visible is the share of a value below which medians of three digits and a difference seem to agree.
const visible = 0.01

// contrary tells whether the medians of both sides, as they are shown, do not agree with the
// estimate: they differ in the other direction, or by what its interval excludes. Medians are of
// all trials, and the difference is one within the blocks up to the verdict.
func (b *builder) contrary(c analysis.Comparison) bool {
	us, them := b.summaries[[3]string{c.Contender, c.Cell, c.Metric}], b.summaries[[3]string{c.Baseline, c.Cell, c.Metric}]
	v := usableOrNil(c.Ratio, c.Scale)
	if v == nil || us == nil || them == nil || us.Median == nil || them.Median == nil {
		return false
	}
	none, seen, size := 1.0, *us.Median / *them.Median, *v // no difference, that of the medians
	if c.Scale == sample.Difference {
		none, seen, size = 0, *us.Median-*them.Median, math.Max(math.Abs(*us.Median), math.Abs(*them.Median))
	}
	baseline, contender := b.summaries.Sides(c)
	opposite := baseline != contender && (seen-none)*(*v-none) < 0
	excluded := c.CI[0] != nil && seen < *c.CI[0] || c.CI[1] != nil && seen > *c.CI[1]
	return opposite || excluded && math.Abs(seen-*v) > visible*size
}

// contraryNote explains medians that contradict the differences beside them; "" where
// none does.
func (b *builder) contraryNote(cell, metric string) string {
	var who []string
	for _, c := range b.primary(cell, metric) {
		if b.contrary(c) {
			who = append(who, c.Contender)
		}
	}
	if len(who) == 0 {
		return ""
	}
	return joinWords(who) +
		": the medians do not agree with the difference. Medians are of all trials; the difference is estimated within " +
		"blocks, with the blocks up to the verdict, so that a change of the machine between blocks hardly affects it. The " +
		"verdict is about the difference."
}

// failures says how often a contender, or the baseline, failed at what is
// compared.
func (b *builder) failures(c analysis.Comparison) string {
	var out []string
	if f := c.Failures; f.Of > 0 {
		for _, side := range []struct {
			name string
			k    int
		}{{c.Contender, f.Contender}, {c.Baseline, f.Baseline}} {
			if side.k > 0 {
				out = append(out, fmt.Sprintf("%d of %s of %s failed", side.k, unit.Count(f.Of, "trial"), side.name))
			}
		}
		return strings.Join(out, ", ")
	}
	for _, name := range []string{c.Contender, c.Baseline} {
		if s := b.summaries[[3]string{name, c.Cell, c.Metric}]; s != nil && s.Failures > 0 {
			out = append(out, fmt.Sprintf("%d of %s of %s failed", s.Failures, unit.Count(s.N+s.Failures, "trial"), name))
		}
	}
	return strings.Join(out, ", ")
}

// scopes reports whether comparisons have ScopeMachine, and whether they have ScopeInstance.
func (b *builder) scopes() (out [2]bool) {
	for _, c := range b.results.Comparisons {
		out[0] = out[0] || c.Scope == analysis.ScopeMachine
		out[1] = out[1] || c.Scope == analysis.ScopeInstance
	}
	return out
}

func (b *builder) scopeNote() string {
	scopes := b.scopes()
	machine, instance := scopes[0], scopes[1]
	switch {
	case machine && !instance && b.plan.Design.Instances == "run":
		return "Scope: this machine. bakeoff created a new environment for every trial, so the verdicts hold for " +
			"environments made this way here, not for the technologies in general."
	case machine && !instance:
		return "Scope: this machine. bakeoff created new environments for every block, so the verdicts hold for " +
			"environments made this way here, not for the technologies in general."
	case instance && !machine && b.results.InstanceSets > 1:
		return fmt.Sprintf("Scope: these instances. %d sets of environments served the blocks, one after another, so the "+
			"verdicts may not hold for new environments, even on this machine.", b.results.InstanceSets)
	case instance && !machine:
		return "Scope: these instances. The same environments served all blocks, so the verdicts may not hold for new " +
			"environments, even on this machine."
	}
	return ""
}

// measure describes a metric: "latency; unit s; lower is better".
func measure(m sample.Metric) string {
	var parts []string
	if m.Doc != "" {
		parts = append(parts, safetext.Clip(m.Doc, 200))
	}
	if m.Unit != "" && m.Unit != "1" {
		parts = append(parts, "unit "+m.Unit)
	}
	return strings.Join(append(parts, direction(m.Better)), "; ")
}

func direction(d sample.Better) string {
	switch d {
	case sample.Higher:
		return "higher is better"
	case sample.Lower:
		return "lower is better"
	}
	return "neither direction is better"
}
