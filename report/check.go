package report

import (
	"fmt"
	"slices"

	"bakeoff/analysis"
	checks "bakeoff/evidence"
)

// check is one kind of check with the comparisons that failed it.
type check struct {
	ID, Name, Means string
	Failed          table
}

// checked gathers the failed checks, those of one kind together: what a check
// means is said once, and a sentence can lead there.
func (b *builder) checked() {
	type failure struct {
		of   analysis.Comparison
		gate analysis.Gate
	}
	var all []failure
	for _, c := range b.compared() {
		for _, g := range c.Gates {
			all = append(all, failure{c, g})
		}
	}
	for _, f := range cut(b.evidence, "failed checks", all, maxList) {
		k := b.checkOf(f.gate.Name)
		k.Failed.Rows = append(k.Failed.Rows, []string{f.of.Contender + ", " + f.of.Cell + ", " + f.of.Metric,
			fmt.Sprintf("%d of %d", f.gate.Trials, f.gate.Of), f.gate.Reason})
	}
}

// checkOf is the place of a kind of check, made when it is first asked for.
func (b *builder) checkOf(name string) *check {
	p := &b.page
	i := slices.IndexFunc(p.Checks, func(k check) bool { return k.Name == name })
	if i < 0 {
		i = len(p.Checks)
		p.Checks = append(p.Checks, check{ID: fmt.Sprintf("check-%d", i+1), Name: name, Means: checks.Explain(name),
			Failed: table{Caption: "Failed: " + name, Prose: true, Head: []string{"comparison", "trials", "reason"}}})
	}
	return &p.Checks[i]
}

// compared are all comparisons, those of the twin too.
func (b *builder) compared() []analysis.Comparison {
	all := b.results.Comparisons
	if b.results.Twin != nil {
		all = append(all[:len(all):len(all)], b.results.Twin.Comparisons...)
	}
	return all
}

// sentence is a comparison in words, with links to the checks that took its
// verdict away.
func (b *builder) sentence(c analysis.Comparison) sentence {
	s := say(c, b.failures(c))
	for i := range s.Failed {
		for _, k := range b.page.Checks {
			if k.Name == s.Failed[i].Name {
				s.Failed[i].ID = k.ID
			}
		}
	}
	return s
}
