package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"bakeoff/analysis"
	"bakeoff/chart"
	chartall "bakeoff/chart/all"
	"bakeoff/manifest"
	"bakeoff/param"
	"bakeoff/plan"
	"bakeoff/sample"
	"bakeoff/store"
)

// page is what the template shows: text and figures, nothing to compute.
type page struct {
	CSP, Version      string
	Title, Lead       string
	Alarm, Problems   []string
	Beforehand        []string // what the whole run has to be read with
	Head              []pair
	Tally             []tally
	Compared          int // sentences in Groups
	Unjudged          string
	Glance            *glance // nil where there are few verdicts
	Groups            []group
	Absent            []sentence // what is missing at cells that have no verdicts
	ScopeNote         string
	Percent           []figure
	PercentNote       string
	Summary           *figure // nil where there are few cells
	Cells             []cell
	Costs             []costs
	Differs           []fact
	Alike             int // facts that are the same everywhere
	Limits            table
	NotEnforced       []string
	Strips            []figure
	Counters          table
	GeneratorCounters table  // of another host that load came from
	GeneratorHost     string // its name
	Missing, Void     table
	Checks            []check
	Unavailable       table
	Warnings          []warning
	Known             machineNote
	TwinName          string
	TwinSays          []sentence
	TwinFigures       []figure
	Commands          []command
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
	Href  string // to what explains it; "" if nothing does
}

// group is the verdicts on one cell and metric.
type group struct {
	ID, Cell, Metric string
	Direction        string // which way is better
	Doc              string // what is counted, in which unit, and the direction
	About, Defaults  string // of the cell
	Items            []sentence
}

// cell is everything about one cell.
type cell struct {
	ID, Name        string
	About, Defaults string
	Figures         []figure
	Metrics         table
}

type costs struct {
	Cell    string
	Figures []figure
}

type command struct{ About, Line string }

// table is a table of text; the first column names the row.
type table struct {
	Caption string
	Head    []string
	Rows    [][]string
	Note    string
	Prose   bool // its last column is sentences
}

// builder makes a page from evidence; it numbers the figures.
type builder struct {
	*evidence
	page      page
	figures   int
	summaries map[[3]string]*analysis.Summary
	metrics   map[[2]string]sample.Metric
	usual     map[string]param.Values // defaults of the parameters, by workload
}

// newBuilder indexes what was measured.
func newBuilder(e *evidence) *builder {
	b := &builder{evidence: e, summaries: map[[3]string]*analysis.Summary{}, metrics: map[[2]string]sample.Metric{}}
	for i := range e.results.Summaries {
		s := &e.results.Summaries[i]
		b.summaries[[3]string{s.Contender, s.Cell, s.Metric}] = s
	}
	for _, c := range e.results.Cells {
		for _, m := range c.Metrics {
			b.metrics[[2]string{c.Name, m.Name}] = m
		}
	}
	return b
}

func newPage(e *evidence, opt Option) page {
	b := newBuilder(e)
	b.usual = opt.Defaults
	p := &b.page
	p.Version = clean(opt.Version)
	b.head()
	b.alarm()
	b.checked()
	b.verdicts()
	b.glance()
	b.percents()
	b.summary()
	b.cells()
	b.costs()
	b.differs()
	b.limits()
	b.strips()
	b.counters()
	b.absent()
	b.twin()
	b.calibrated()
	b.method()
	p.Problems = e.problems
	p.CSP = policy()
	return *p
}

// head is what, where and when.
func (b *builder) head() {
	r, p := &b.results, &b.page
	p.Title = r.Run
	if b.hasPlan && b.plan.Lab != "" {
		p.Title = b.plan.Lab
	}
	p.Beforehand = append(emulated(*r), r.Warnings...)
	others := 0
	for _, c := range r.Contenders {
		if c.Name != r.Baseline && !b.isTwin(c.Name) {
			others++
		}
	}
	p.Lead = fmt.Sprintf("%s against %s at %s, in %s.", plural(others, "contender"), r.Baseline,
		plural(len(r.Cells), "cell"), plural(r.Blocks, "block"))
	p.Head = append(p.Head, pair{"Machine", b.machine()}, pair{"Measured", b.when()}, pair{"Ended", ending(*r)})
	p.Head = append(p.Head, pair{"Equivalent", b.promise()})
	if b.hasPlan && b.plan.Profile != "" {
		p.Head = append(p.Head, pair{"Profile", b.plan.Profile})
	}
	p.Head = append(p.Head, pair{"Run", b.base})
}

// promise is what verdicts mean in numbers: how close equivalent is, and how
// often a run may call any difference that is none (package analysis proves it).
func (b *builder) promise() string {
	s := "within ±" + significant(100*b.results.Margin, 3) + " %"
	total := 0.0
	for _, a := range b.results.Alphas {
		total += a
	}
	if !(total > 0) {
		return s
	}
	return s + "; the chance of any false better or worse is " + significant(100*total, 3) + " % at most"
}

// emulated names the virtual machines whose processor was a program: nothing
// else on the page is so easily taken for the technology.
func emulated(r analysis.Results) []string {
	var names []string
	for _, c := range r.Contenders {
		// driver.FactAccelerator and driver.Emulated: the page needs no driver.
		if c.Facts["accelerator"] == "tcg" && c.TwinOf == "" {
			names = append(names, c.Name)
		}
	}
	switch len(names) {
	case 0:
		return nil
	case 1:
		return []string{names[0] + " was emulated: a program took the place of its processor, which makes most of what it does many times slower. Its figures say nothing about the same machine with hardware virtualisation."}
	}
	return []string{strings.Join(names, ", ") + " were emulated: a program took the place of their processors, which makes most of what they do many times slower. Their figures say nothing about the same machines with hardware virtualisation."}
}

// machine says what the baseline ran on.
func (b *builder) machine() string {
	facts := b.prints[b.results.Baseline].Facts
	var out []string
	if m := facts["cpu.model"]; m != "" {
		out = append(out, m)
	}
	if k := facts["kernel"]; k != "" {
		out = append(out, k)
	}
	if o := facts["os"]; o != "" {
		out = append(out, o)
	}
	if len(out) == 0 {
		return "unavailable: there is no fingerprint of " + b.results.Baseline
	}
	return strings.Join(out, ", ")
}

// when says from when to when trials ran.
func (b *builder) when() string {
	var first, last time.Time
	for _, l := range b.lines {
		if l.At.IsZero() {
			continue
		}
		if first.IsZero() || l.At.Before(first) {
			first = l.At
		}
		if l.At.After(last) {
			last = l.At
		}
	}
	if first.IsZero() {
		return "unavailable: there is no journal"
	}
	first, last = first.UTC(), last.UTC()
	from, layout := "2 January 2006, 15:04", "15:04 UTC"
	if last.Sub(first) < 3*time.Minute {
		from, layout = "2 January 2006, 15:04:05", "15:04:05 UTC"
	}
	if first.YearDay() != last.YearDay() || first.Year() != last.Year() {
		layout = "2 January 2006 15:04 UTC"
	}
	return fmt.Sprintf("%s to %s (%s)", first.Format(from), last.Format(layout), span(last.Sub(first)))
}

func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}

func ended(reason string) string {
	switch reason {
	case "decided":
		return "every primary comparison had its verdict"
	case "blocks":
		return "all planned blocks were done"
	case "budget":
		return "the time budget had no room for another block"
	case "interrupted":
		return "it was interrupted; this is what there is"
	case "":
		return "it has not: this is its state so far"
	}
	return reason
}

// ending is why a run ended, and that nothing could be decided by then.
func ending(r analysis.Results) string {
	text := ended(r.Ended)
	if len(r.Looks) > 0 && r.Blocks < r.Looks[0] {
		text += fmt.Sprintf("; before the first look, which is after %s, nothing is decided", plural(r.Looks[0], "block"))
	}
	return text
}

// alarm is what a reader must know before anything else.
func (b *builder) alarm() {
	t := b.results.Twin
	if t == nil || !t.Different {
		return
	}
	for _, c := range t.Comparisons {
		if c.Verdict == analysis.Better || c.Verdict == analysis.Worse {
			b.page.Alarm = append(b.page.Alarm, say(c, "").String())
		}
	}
}

// verdicts puts every primary comparison into a sentence, grouped by cell
// and metric in the order of the lab file.
func (b *builder) verdicts() {
	p := &b.page
	for _, c := range b.results.Cells {
		for _, m := range c.Metrics {
			if !m.Primary {
				continue
			}
			g := group{ID: fmt.Sprintf("verdict-%d", len(p.Groups)+1), Cell: c.Name, Metric: m.Name, Direction: direction(m.Better),
				Doc: measure(m), About: b.about(c), Defaults: b.defaults(c)}
			for _, x := range b.primary(c.Name, m.Name) {
				g.Items = append(g.Items, b.sentence(x))
			}
			g.Items = append(g.Items, b.missingAt(c.Name)...)
			if len(g.Items) > 0 {
				p.Groups = append(p.Groups, g)
				p.Compared += len(g.Items)
			}
		}
	}
	p.Tally = talliesOf(p.Groups)
	p.Unjudged = b.unjudged()
	p.Absent = b.unsaid()
	p.ScopeNote = b.scope()
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
	var out []analysis.Comparison
	for _, c := range b.results.Comparisons {
		if c.Primary && c.Cell == cell && c.Metric == metric {
			out = append(out, c)
		}
	}
	return out
}

func (b *builder) missingAt(cell string) []sentence {
	var out []sentence
	for _, m := range b.results.Missing {
		if m.Cell == cell && !b.isTwin(m.Contender) {
			out = append(out, sentence{Contender: m.Contender, Mark: chart.Plain, Word: "missing",
				Claim: m.Contender + " has no result", Where: " at " + m.Cell, Evidence: brief(m.Reason)})
		}
	}
	return out
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
				out = append(out, fmt.Sprintf("%d of %s of %s failed", side.k, plural(f.Of, "trial"), side.name))
			}
		}
		return strings.Join(out, ", ")
	}
	for _, name := range []string{c.Contender, c.Baseline} {
		if s := b.summaries[[3]string{name, c.Cell, c.Metric}]; s != nil && s.Failures > 0 {
			out = append(out, fmt.Sprintf("%d of %s of %s failed", s.Failures, plural(s.N+s.Failures, "trial"), name))
		}
	}
	return strings.Join(out, ", ")
}

func (b *builder) scope() string {
	var machine, instance bool
	for _, c := range b.results.Comparisons {
		machine = machine || c.Scope == analysis.ScopeMachine
		instance = instance || c.Scope == analysis.ScopeInstance
	}
	switch {
	case machine && !instance:
		return "“On this machine” is meant: environments were created anew for each block, so the verdicts hold for new " +
			"ones of the same making here. They do not speak of the technologies in general: that takes more than one machine."
	case instance && !machine && b.results.InstanceSets > 1:
		return fmt.Sprintf("“For these instances” is meant: %d sets of environments served the blocks, one after another, so the verdicts may "+
			"not hold for new ones, even on this machine.", b.results.InstanceSets)
	case instance && !machine:
		return "“For these instances” is meant: the same environments served all blocks, so the verdicts may not hold for " +
			"new ones, even on this machine."
	}
	return ""
}

// measure says what a metric counts, in which unit, and which way is better.
func measure(m sample.Metric) string {
	s := clip(m.Doc, 200)
	if m.Unit != "" && m.Unit != "1" {
		s = strings.TrimSpace(s + " (" + m.Unit + ")")
	}
	if s != "" {
		s += ", "
	}
	return s + direction(m.Better)
}

func direction(d sample.Better) string {
	switch d {
	case sample.Higher:
		return "higher is better"
	case sample.Lower:
		return "lower is better"
	}
	return "no direction is better"
}

// twin is the A/A check.
func (b *builder) twin() {
	t := b.results.Twin
	if t == nil {
		return
	}
	b.page.TwinName = t.Name
	for _, c := range t.Comparisons {
		if c.Primary {
			b.page.TwinSays = append(b.page.TwinSays, b.sentence(c))
		}
	}
	b.page.TwinFigures = b.twinFigures(t.Comparisons)
}

// unavailable are the metrics that nobody could tell, those with the same
// reason in one row.
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

// absent is what is not there, and why.
func (b *builder) absent() {
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
	p.Void.Rows = cut(b.evidence, "void blocks", p.Void.Rows, maxList)
	p.Warnings = b.gathered()
}

// method is how it was done and how to do it again.
func (b *builder) method() {
	p := &b.page
	p.Files = b.files
	p.Lab = b.lab
	p.Commands = b.commands()
	p.Design = b.design()
	p.Order, p.OrderNote = b.order()
	for _, d := range chartall.Docs() {
		p.Glossary = append(p.Glossary, pair{map[string]string{
			"percent": "Difference charts", "points": "Raw values", "drift": "In the order of measuring",
			"bar": "Amounts", "strip": "Bottleneck strips", "summary": "All components"}[d.Name], d.Read})
	}
}

// commands are what a stranger types to do it again and to check it.
func (b *builder) commands() []command {
	run := []string{"bakeoff", "run", store.LabFile, "--seed", fmt.Sprint(b.results.Seed)}
	if b.hasPlan && b.plan.Profile != "" {
		run = append(run, "--profile", b.plan.Profile)
	}
	return []command{
		{"The same schedule on your machine, from the lab file below", quoted(run)},
		{"Every number of this page again from the raw outputs", quoted([]string{"bakeoff", "verify", b.base})},
		{"This page again", quoted([]string{"bakeoff", "report", b.base})},
	}
}

// quoted writes an argument vector so that a shell reads it back as it is.
// A name from a stranger's folder may be pasted by a reader.
func quoted(argv []string) string {
	for i, a := range argv {
		const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:=@%+,"
		if a == "" || strings.Trim(a, plain) != "" {
			argv[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(argv, " ")
}

// design is the experiment as it was registered.
func (b *builder) design() []pair {
	r := &b.results
	out := []pair{{"Seed", fmt.Sprint(r.Seed)}, {"Baseline", r.Baseline},
		{"Margin", "±" + significant(100*r.Margin, 3) + " %: closer than that counts as equivalent"}}
	if r.PlanSHA256 != "" {
		out = append(out, pair{"Plan, sha256", r.PlanSHA256})
	}
	out = append(out, pair{"Blocks", fmt.Sprintf("%d that count, %d void, %d after the deciding look", r.Blocks, r.Void, r.Unused)})
	if !b.hasPlan {
		return out
	}
	d := b.plan.Design
	out = append(out,
		pair{"Looks", looksOf(d)},
		pair{"Environments", map[string]string{"block": "created anew for each block", "run": "the same for all blocks"}[d.Instances]},
		pair{"Order", orderOf(b.plan)},
		pair{"Family", fmt.Sprintf("alpha is shared by %s; by %d of the twin apart", plural(len(b.plan.Family), "primary comparison"), len(b.plan.TwinFamily))})
	if d.Budget > 0 {
		out = append(out, pair{"Budget", d.Budget.String()})
	}
	if b.plan.LabSHA256 != "" {
		out = append(out, pair{"Lab file, sha256", b.plan.LabSHA256})
	}
	return append(out, pair{"Measured by", "bakeoff " + b.plan.Version})
}

// looksOf says after how many blocks verdicts could be made.
func looksOf(d manifest.Design) string {
	if len(d.Looks) == 0 {
		return "none: the run was to end before anything can be decided"
	}
	return fmt.Sprintf("after %s blocks, with alpha %s", list(d.Looks), list(d.Alphas))
}

// orderOf says in which order a block was visited.
func orderOf(p plan.Plan) string {
	all := "each block visits all contenders in random order"
	if len(p.Blocks) > 0 && len(p.Blocks[0].Boots) > 0 {
		all = fmt.Sprintf("each block has %d boots in random order, which visit their contenders in random order", len(p.Blocks[0].Boots))
	}
	if p.Design.Mirror {
		all += ", then in the mirrored one"
	}
	return all
}

func list[T any](vs []T) string {
	var out []string
	for i, v := range vs {
		if i == 40 {
			out = append(out, "…")
			break
		}
		out = append(out, fmt.Sprint(v))
	}
	return strings.Join(out, ", ")
}

// maxOrder bounds the rows of the table of the order.
const maxOrder = 1500

// order is the schedule as it was drawn.
func (b *builder) order() (table, string) {
	t := table{Caption: "The order that was drawn", Head: []string{"block", "cell", "order"}}
	rows := 0
	for _, k := range b.plan.Blocks {
		for _, v := range k.Visits {
			if rows++; rows <= maxOrder {
				t.Rows = append(t.Rows, []string{blockName(k), v.Cell, clip(strings.Join(v.Order, " "), 2000)})
			}
		}
	}
	note := ""
	if rows > maxOrder {
		note = fmt.Sprintf("The first %d of %d visits; %s has them all.", maxOrder, rows, store.PlanFile)
	}
	return t, note
}

func blockName(k plan.Block) string {
	if k.Spare {
		return fmt.Sprintf("%d (spare)", k.Index)
	}
	return fmt.Sprint(k.Index)
}
