package report

import (
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/judge/analysis"
	checks "bakeoff/lab/evidence"
)

// check is one kind of check with the comparisons that failed it.
type check struct {
	ID, Name, Means string
	Failed          table
}

// checked gathers the failed checks by kind, so that each is explained once and
// sentences can link to it. Metrics and contenders that lost their verdicts to the
// same trials share a row.
func (b *builder) checked() {
	type cause struct{ check, cell, trials, reason string }
	type failure struct {
		cause
		contender string
	}
	var failures lists.Groups[failure, string] // with their metrics
	for _, c := range b.compared() {
		for _, g := range c.Gates {
			failures.Add(failure{cause{g.Name, c.Cell, fmt.Sprintf("%d of %d", g.Trials, g.Of), g.Reason}, c.Contender},
				c.Metric)
		}
	}
	type row struct {
		cause
		metrics string
	}
	at := map[row]int{}
	for _, f := range cutList(b.contents, "failed checks", failures.Keys(), maxList) {
		r, k := row{f.cause, strings.Join(failures.Of(f), ", ")}, b.checkOf(f.check)
		if i, ok := at[r]; ok {
			k.Failed.Rows[i][0] += ", " + f.contender
			continue
		}
		at[r] = len(k.Failed.Rows)
		k.Failed.Rows = append(k.Failed.Rows, []string{f.contender, r.cell, r.metrics, r.trials, r.reason})
	}
}

// checkOf returns a kind of check, and adds it when it is new.
func (b *builder) checkOf(name string) *check {
	p := &b.page
	i := slices.IndexFunc(p.Checks, func(k check) bool { return k.Name == name })
	if i < 0 {
		i = len(p.Checks)
		p.Checks = append(p.Checks, check{ID: fmt.Sprintf("check-%d", i+1), Name: name, Means: checks.Explain(name),
			Failed: table{Caption: "Failed: " + name, Prose: true,
				Head: []string{"contenders", "cell", "metrics", "trials", "reason"}}})
	}
	return &p.Checks[i]
}

// compared are all comparisons, including those of the twin.
func (b *builder) compared() []analysis.Comparison {
	all := b.results.Comparisons
	if b.results.Twin != nil {
		all = append(all[:len(all):len(all)], b.results.Twin.Comparisons...)
	}
	return all
}

// sentence is a comparison in words, with links to the checks that withheld its
// verdict.
func (b *builder) sentence(c analysis.Comparison) sentence {
	s := sayComparison(c, b.results.Margin, b.intervalLevel(), b.medians(c), b.failures(c))
	for i := range s.Failed {
		for _, k := range b.page.Checks {
			if k.Name == s.Failed[i].Name {
				s.Failed[i].ID = k.ID
			}
		}
	}
	return s
}
