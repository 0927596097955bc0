package report

import (
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/param"
	"bakeoff/base/safetext"
	"bakeoff/base/sample"
	"bakeoff/lab/store"
	"bakeoff/publish/chart"
	"bakeoff/publish/difference"
)

// page is what the template shows.
type page struct {
	CSP, Version      string
	Index             string // address of an index of runs, or ""
	Title, Lead       string
	Unplanned         []string // how the run differs from what it registered
	Alarm, Problems   []string
	Head              []pair
	Tally             []tally
	Findable          string // which differences the noise of the run lets it find
	Compared          int    // sentences in Groups
	Unjudged          string
	NoVerdict         string  // why, if there is no group
	Glance            *glance // nil where there are few verdicts
	Groups            []group
	Absent            []sentence // missing results at cells without verdicts
	ScopeNote         string
	Notice            Notice
	Tolerances        []sentence // answers to the conditions of --fail-on that have one
	Purposes          []fact     // what differs on purpose
	Curves            []figure
	Percent           []figure
	PercentNote       string
	Summary           *figure // nil where there are few cells
	Cells             []cell
	Apart             bool // each cell has a page of its own
	Costs             []costs
	Differs           []fact
	Alike             int      // facts that are the same everywhere
	NoFacts           []string // contenders without a fingerprint
	Limits            table
	NotEnforced       []string
	Strips            []figure
	Counters          table
	GeneratorCounters table  // of another host that generated load
	GeneratorHost     string // its name
	Missing, Void     table
	Boots             []link // pages about boots
	Checks            []check
	Unavailable       table
	Warnings          []warning
	Known             machineNote
	TwinName          string
	TwinNote          string // what the twin found, and whether that is good
	TwinSays          []sentence
	TwinFigures       []figure
	Commands          []command
	Prose             []string  // the method in paragraphs
	Citation          *citation // nil without a date
	Design            []pair
	Order             table
	OrderNote         string
	Lab, LabNote      string
	Files             []file
	Glossary          []pair
	HasLimits         bool
}

type pair struct{ Name, Value string }

// tally counts the verdicts of one kind.
type tally struct {
	Mark  chart.Mark
	Word  string
	Count int
	Href  string // to the explanation, or ""
}

// group is the verdicts on one cell and metric.
type group struct {
	ID, Cell, Metric string
	Direction        string // which way is better
	Doc              string // what the metric counts, its unit and its direction
	About, Defaults  string // of the cell
	Items            []sentence
	Contrary         string // why medians contradict differences; "" if none does
	Changes          table  // what would change the verdicts
}

// cell is everything about one cell.
type cell struct {
	ID, Name        string
	About, Defaults string
	Figures         []figure
	Latency         *figure // nil where nobody recorded latencies
	Metrics         table
	Page            string // of its own, "" if it is on the main page
}

// costs are what a unit of work costs at a cell.
type costs struct {
	Cell    string
	Figures []figure
	Name    string // of the table, stable: a part of the report
	About   string // of the table
	Work    table  // counters of the host for each unit of work
	NoWork  string // why there is no such table; "" if the cell has no cost in CPU time
}

type command struct{ About, Line string }

// table is a table of text; the first column names the row.
type table struct {
	Caption string
	Head    []string
	Rows    [][]string
	Note    string
	Prose   bool // its last column is sentences
	Whole   bool // its values stay on one line each, such as names of runs
}

// builder makes a page from evidence; it names the figures.
type builder struct {
	*contents
	page      page
	taken     map[string]bool // names of figures
	drawn     []drawing
	downloads bool // figures can be downloaded
	bootPages []BootPage
	// general is the number of warnings of the notice, the first ones, that the sentences of
	// the answer do not give.
	general   int
	summaries difference.Summaries
	metrics   map[[2]string]sample.Metric
	usual     map[string]param.Values // defaults of the parameters, by workload
}

// newBuilder indexes what was measured.
func newBuilder(e *contents) *builder {
	b := &builder{contents: e, summaries: difference.Index(e.results.Summaries), metrics: map[[2]string]sample.Metric{}}
	for _, c := range e.results.Cells {
		for _, m := range c.Metrics {
			b.metrics[[2]string{c.Name, m.Name}] = m
		}
	}
	return b
}

// maxUnplanned is the number of differences from the plan that a page shows: one
// changed plan can make every trial differ.
const maxUnplanned = 20

// buildPage makes the page of a run.
func buildPage(e *contents, opt Option) *builder {
	b := newBuilder(e)
	b.usual, b.downloads = opt.Defaults, opt.Files
	p := &b.page
	p.Version, p.Index = safetext.Line(opt.Version), opt.Index
	p.Unplanned = cutList(e, "differences from the plan", e.unplanned, maxUnplanned)
	b.judgeRun()
	b.showGlance()
	b.purposes()
	b.drawCurves()
	b.percents()
	b.summary()
	b.showCells()
	b.showCosts()
	b.differs()
	b.listLimits()
	b.showStrips()
	b.counters()
	b.listAbsent()
	b.drawTwin()
	b.calibrated()
	b.describeMethod()
	p.Problems = e.problems
	p.CSP = pagePolicy()
	return b
}

// drawTwin draws the A/A check.
func (b *builder) drawTwin() {
	if t := b.results.Twin; t != nil {
		b.page.TwinFigures = b.twinFigures(t.Comparisons)
	}
}

// unavailable lists the metrics without a value, those with the same reason in one
// row.
func (b *builder) unavailable() table {
	t := table{Caption: "Metrics without a value", Prose: true, Head: []string{"metric", "contenders", "cells", "reason"}}
	type why struct{ metric, reason string }
	at := map[why]int{}
	for _, u := range b.results.Unavailable {
		k := why{u.Metric, u.Reason}
		i, ok := at[k]
		if !ok {
			at[k] = len(t.Rows)
			t.Rows = append(t.Rows, []string{u.Metric, u.Contender, u.Cell, u.Reason})
			continue
		}
		for column, name := range map[int]string{1: u.Contender, 2: u.Cell} {
			if !slices.Contains(strings.Split(t.Rows[i][column], ", "), name) {
				t.Rows[i][column] += ", " + name
			}
		}
	}
	return t
}

// listAbsent lists what is missing, and why.
func (b *builder) listAbsent() {
	p := &b.page
	p.Missing = table{Caption: "Missing cells", Prose: true, Head: []string{"contender", "cell", "reason"}}
	for _, m := range b.results.Missing {
		p.Missing.Rows = append(p.Missing.Rows, []string{m.Contender, m.Cell, m.Reason})
	}
	p.Unavailable = b.unavailable()
	p.Void = table{Caption: "Void blocks", Prose: true, Head: []string{"block", "reason"}}
	for _, l := range b.lines {
		if l.Type == store.LineBlock && l.Status == store.Void {
			p.Void.Rows = append(p.Void.Rows, []string{fmt.Sprint(l.Block), l.Reason})
		}
	}
	p.Void.Rows = cutList(b.contents, "void blocks", p.Void.Rows, maxList)
	p.Warnings = b.gathered()
}
