package report

import (
	"fmt"
	"slices"

	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/publish/chart"
)

// glance is the verdicts in one table: contenders on one side, cells on the other.
// The longer list makes the rows.
type glance struct {
	Baseline string
	Decided  bool // there is a verdict in it
	Corner   string
	Head     []subject
	Rows     []glanceRow
}

// subject names a column or a row. Href leads to its sentences; it is "" for
// contenders, which have sentences in several places.
type subject struct{ Name, About, Href string }

// Full is the name with what there is to say of it, for screens without room for a head.
func (s subject) Full() string {
	if s.About == "" {
		return s.Name
	}
	return s.Name + ", " + s.About
}

type glanceRow struct {
	Subject subject
	Entries []glanceEntry
}

// glanceEntry is one verdict: its mark, its word, and its difference if it has
// one. Without a comparison Word is empty.
type glanceEntry struct {
	Mark       chart.Mark
	Word, Text string
	Href       string // to the check that withheld the verdict
}

// fewVerdicts is the number of verdicts up to which sentences suffice.
const fewVerdicts = 3

// showGlance puts the verdicts into a table that fits on the first screen.
func (b *builder) showGlance() {
	var who []subject
	for _, name := range b.rankedNames() {
		if b.compares(name) {
			who = append(who, subject{Name: name})
		}
	}
	what := lists.Map(b.page.Groups, func(g group) subject {
		return subject{g.Cell, g.Metric + ", " + g.Direction, "#" + g.ID}
	})
	if len(who)*len(what) <= fewVerdicts {
		return
	}
	at := func(group, contender int) glanceEntry {
		return glanceOf(b.page.Groups[group], who[contender].Name)
	}
	out := glance{Baseline: b.results.Baseline, Corner: "contender", Head: what}
	rows, entryOf := who, func(row, column int) glanceEntry { return at(column, row) }
	if len(what) >= len(who) {
		out.Corner, out.Head, rows, entryOf = "cell", who, what, at
	}
	for i, s := range rows {
		row := glanceRow{Subject: s}
		for k := range out.Head {
			e := entryOf(i, k)
			out.Decided = out.Decided || e.Text != ""
			row.Entries = append(row.Entries, e)
		}
		out.Rows = append(out.Rows, row)
	}
	b.page.Glance = &out
}

// glanceOf is the verdict on a contender in a group.
func glanceOf(g group, contender string) glanceEntry {
	i := slices.IndexFunc(g.Items, func(s sentence) bool { return s.Contender == contender })
	if i < 0 {
		return glanceEntry{}
	}
	s := g.Items[i]
	e := glanceEntry{Mark: s.Mark, Word: s.Word}
	switch s.Word {
	case "better", "worse", "equivalent":
		e.Text = s.Short
	case checkFailed:
		e.Word = "check failed"
		if s.Failed[0].ID != "" {
			e.Href = "#" + s.Failed[0].ID
		}
	}
	return e
}

// unjudged says how many cells have no primary metric, so that nobody looks for
// their verdicts. A cell without a result of the baseline has one.
func (b *builder) unjudged() string {
	n := 0
	for _, k := range b.results.Cells {
		if !slices.ContainsFunc(b.page.Groups, func(g group) bool { return g.Cell == k.Name }) &&
			!slices.ContainsFunc(k.Metrics, func(m sample.Metric) bool { return m.Primary }) {
			n++
		}
	}
	switch n {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("1 of %s has no primary metric and no verdict", unit.Count(len(b.results.Cells), "cell"))
	}
	return fmt.Sprintf("%d of %s have no primary metric and no verdict", n, unit.Count(len(b.results.Cells), "cell"))
}
