package report

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/judge/stats"
	"bakeoff/publish/chart"
	"bakeoff/publish/chart/bar"
	"bakeoff/publish/chart/drift"
	"bakeoff/publish/chart/percent"
	"bakeoff/publish/chart/points"
	"bakeoff/publish/chart/strip"
	"bakeoff/publish/chart/summary"
	"bakeoff/publish/difference"
)

// figure is a figure on the page, with its numbers. It is drawn for a desk and
// for a phone; the style sheet shows one of them.
type figure struct {
	ID           string
	Name         string // stable: of the kind, the cell and the metric
	Cell         string // of a figure about a whole cell
	Title, About string
	Wide, Narrow template.HTML
	Numbers      table
	Files        []figureFile // in which it can be downloaded
}

// drawFigure draws f. The words of its name are its kind and what it shows, and stay the same
// when a page is written again.
func (b *builder) drawFigure(f chart.Measured, about string, words ...string) figure {
	name := b.freePartName(words...)
	id := "figure-" + name
	t := f.Table()
	b.drawn = append(b.drawn, drawing{name, about, f})
	return figure{
		ID: id, Name: name, Title: f.Title(), About: about,
		// Draw escapes everything in it; its suite proves that.
		Wide:    template.HTML(f.Draw(id+"-wide", chart.Wide)),
		Narrow:  template.HTML(f.Draw(id+"-narrow", chart.Narrow)),
		Numbers: table{Caption: f.Title(), Head: t.Head, Rows: t.Rows, Note: t.Note},
		Files:   b.filesOf(name),
	}
}

// percents draws the primary comparisons.
func (b *builder) percents() {
	primary := lists.Filter(b.results.Comparisons, func(c analysis.Comparison) bool { return c.Primary })
	b.page.Percent = b.percentFigures("difference", primary)
}

// fewCells is the number of cells from which on they are also shown together.
const fewCells = 2

// summary draws all cells on one axis, each by its first metric, with or
// without a verdict.
func (b *builder) summary() {
	f := summary.Figure{Baseline: b.results.Baseline}
	place := map[string]int{}
	for _, name := range b.rankedNames() {
		if b.compares(name) {
			place[name] = len(f.Contenders)
			f.Contenders = append(f.Contenders, name)
		}
	}
	for _, k := range b.results.Cells {
		for _, m := range b.component(k) {
			row := summary.Row{Label: k.Name}
			if m.Name != "throughput" {
				row.Label += ", " + m.Name
			}
			for i := range f.Contenders {
				row.Points = append(row.Points, summary.Point{Contender: i, Mark: chart.Plain, Note: "missing"})
			}
			for _, c := range b.results.Comparisons {
				if i, ok := place[c.Contender]; ok && c.Cell == k.Name && c.Metric == m.Name {
					row.Points[i] = summaryPoint(i, c)
				}
			}
			f.Rows = append(f.Rows, row)
		}
	}
	if len(f.Contenders) == 0 || len(f.Rows) < fewCells {
		return
	}
	b.page.Summary = new(b.drawFigure(f, "", "cells"))
}

// component returns the ratios by which a cell is part of the summary: the
// primary ones, or else the first that was measured.
func (b *builder) component(k analysis.Cell) []sample.Metric {
	out := lists.Filter(k.Metrics, func(m sample.Metric) bool { return m.Primary && m.Scale != sample.Difference })
	for _, m := range k.Metrics {
		compared := func(c analysis.Comparison) bool { return c.Cell == k.Name && c.Metric == m.Name && c.Ratio != nil }
		if len(out) == 0 && m.Scale != sample.Difference && slices.ContainsFunc(b.results.Comparisons, compared) {
			return []sample.Metric{m}
		}
	}
	return out
}

// summaryPoint turns a comparison so that more is better.
func summaryPoint(contender int, c analysis.Comparison) summary.Point {
	p := summary.Point{Contender: contender, Value: usableOrNil(c.Ratio, c.Scale)}
	p.Mark, p.Note = markAndWord(c)
	p.Lo, p.Hi = boundsToShow(c)
	if c.Better == sample.Lower {
		p.Value, p.Lo, p.Hi = inverse(p.Value), inverse(p.Hi), inverse(p.Lo)
	}
	return p
}

func inverse(v *float64) *float64 {
	if v == nil {
		return nil
	}
	return new(1 / *v)
}

// twinFigures draws the twin's comparisons, all primary ratios in one figure:
// where nothing may differ, direction does not matter.
func (b *builder) twinFigures(cs []analysis.Comparison) []figure {
	f := percent.Figure{Of: b.twinName(), Baseline: b.results.Baseline, Less: "less", More: "more", Neutral: true}
	var others []analysis.Comparison
	for _, c := range cs {
		switch {
		case !c.Primary:
		case c.Scale == sample.Difference:
			others = append(others, c)
		default:
			r := percentRow(c)
			r.Label = c.Cell + ", " + c.Metric
			f.Rows = append(f.Rows, r)
		}
	}
	out := b.percentFigures("twin", others)
	if len(f.Rows) > 0 {
		f.Axis = percent.NewAxis(b.results.Margin, f.Rows...)
		out = append([]figure{b.drawFigure(f, "", "twin")}, out...)
	}
	return out
}

// percentFigures draws comparisons, one figure for each cell and metric, whose names begin
// with kind. Ratios share one axis, so that figures can be compared with each other.
func (b *builder) percentFigures(kind string, cs []analysis.Comparison) []figure {
	var all []percent.Row
	for _, c := range cs {
		if c.Scale != sample.Difference {
			all = append(all, percentRow(c))
		}
	}
	shared := percent.NewAxis(b.results.Margin, all...)
	var out []figure
	for _, k := range b.results.Cells {
		for _, m := range k.Metrics {
			f := percent.Figure{Of: k.Name + ", " + m.Name, Baseline: b.results.Baseline,
				MoreIsBetter: m.Better == sample.Higher, Axis: shared}
			w := difference.Speak(m.Name, m.Unit, m.Better)
			f.Less, f.More = w.Less, w.More
			at := lists.Filter(cs, func(c analysis.Comparison) bool { return c.Cell == k.Name && c.Metric == m.Name })
			for _, c := range b.rankComparisons(at) {
				f.Rows = append(f.Rows, percentRow(c))
			}
			if len(f.Rows) == 0 {
				continue
			}
			for _, x := range b.results.Missing {
				if x.Cell == k.Name && b.compares(x.Contender) && !hasRow(f.Rows, x.Contender) {
					f.Rows = append(f.Rows, percent.Row{Label: x.Contender, Mark: chart.Plain, Note: "missing"})
				}
			}
			if m.Scale == sample.Difference {
				f.Axis = percent.NewDifferenceAxis(m.Unit, f.Rows...)
			}
			out = append(out, b.drawFigure(f, b.describeCell(k)+"; "+direction(m.Better)+doubtsNote(f.Rows), kind, k.Name,
				m.Name))
		}
	}
	return out
}

// doubtsNote names the rows whose checks failed: otherwise an interval beyond the
// margin without a verdict would look like a mistake.
func doubtsNote(rows []percent.Row) string {
	var names []string
	for _, r := range rows {
		if r.Note == checkFailed {
			names = append(names, r.Label)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; check failed: " + strings.Join(names, ", ")
}

func hasRow(rows []percent.Row, label string) bool {
	return slices.ContainsFunc(rows, func(r percent.Row) bool { return r.Label == label })
}

func percentRow(c analysis.Comparison) percent.Row {
	r := percent.Row{Label: c.Contender, Value: usableOrNil(c.Ratio, c.Scale)}
	r.Mark, r.Note = markAndWord(c)
	r.Lo, r.Hi = boundsToShow(c)
	return r
}

// showCells shows the raw values of every cell.
func (b *builder) showCells() {
	for i, k := range b.results.Cells {
		c := cell{ID: fmt.Sprintf("cell-%d", i+1), Name: k.Name, About: b.describeCell(k), Defaults: b.defaults(k)}
		for _, m := range shownMetrics(k) {
			rows, trend := b.pointRows(k.Name, m)
			if len(rows) == 0 {
				continue
			}
			of := k.Name + ", " + m.Name
			c.Figures = append(c.Figures,
				b.drawFigure(points.Figure{Of: of, Unit: m.Unit, Better: direction(m.Better), Rows: rows}, m.Doc,
					"values", k.Name, m.Name),
				b.drawFigure(drift.Figure{Of: of, Rows: trend}, "", "drift", k.Name, m.Name))
		}
		c.Latency = b.latencies(k)
		c.Metrics = b.metricTable(k)
		if len(c.Figures)+len(c.Metrics.Rows) > 0 || c.Latency != nil {
			b.page.Cells = append(b.page.Cells, c)
		}
	}
}

// shownMetrics are the metrics of a cell whose raw values are drawn: the primary
// ones, or the first where none is.
func shownMetrics(k analysis.Cell) []sample.Metric {
	out := lists.Filter(k.Metrics, func(m sample.Metric) bool { return m.Primary })
	if len(out) == 0 && len(k.Metrics) > 0 {
		out = k.Metrics[:1]
	}
	return out
}

func (b *builder) pointRows(cell string, m sample.Metric) ([]points.Row, []drift.Row) {
	var rows []points.Row
	var trend []drift.Row
	for _, name := range b.namesAt(cell, m.Name) {
		s := b.summaries[[3]string{name, cell, m.Name}]
		if s == nil {
			continue
		}
		r := points.Row{Label: name, Baseline: name == b.results.Baseline, Median: s.Median, Lo: s.CI[0], Hi: s.CI[1],
			N: s.N, Failures: s.Failures}
		d := drift.Row{Label: name, Baseline: r.Baseline, Median: s.Median}
		for _, p := range s.Samples {
			r.Values = append(r.Values, p.Value)
			d.Values = append(d.Values, drift.Value{Block: p.Block, Position: p.Position, Value: p.Value})
		}
		rows, trend = append(rows, r), append(trend, d)
	}
	return rows, trend
}

// trimmedShare is the share of the trials at each end that a trimmed mean leaves out.
const trimmedShare = 0.1

func valuesOf(samples []analysis.Point) []float64 {
	return lists.Map(samples, func(p analysis.Point) float64 { return p.Value })
}

// metricTable is every metric of a cell, those without a verdict too.
func (b *builder) metricTable(k analysis.Cell) table {
	t := table{Caption: "All metrics of " + k.Name,
		Head: []string{"metric", "contender", "median", "interval", "trials", "failed",
			"against " + b.results.Baseline, "interval", "verdict", "trimmed mean", "variation"},
		Note: "The trimmed mean leaves out a tenth of the trials at each end; with fewer than ten trials it is the plain " +
			"mean. The variation is the standard deviation of all trials, divided by the trimmed mean. Both are for " +
			"comparison with published tables; no verdict uses them."}
	compared := map[[2]string]analysis.Comparison{}
	for _, c := range b.compared() {
		if c.Cell == k.Name {
			compared[[2]string{c.Contender, c.Metric}] = c
		}
	}
	for _, m := range k.Metrics {
		for _, name := range b.namesAt(k.Name, m.Name) {
			s := b.summaries[[3]string{name, k.Name, m.Name}]
			if s == nil {
				continue
			}
			row := []string{m.Name, name, amountText(s.Median, m.Unit), unavailable, fmt.Sprint(s.N),
				fmt.Sprintf("%d of %d", s.Failures, s.N+s.Failures), "–", "–", "–",
				unavailable, unavailable}
			if values := valuesOf(s.Samples); len(values) > 0 {
				mean := stats.TrimmedMean(values, trimmedShare)
				row[9] = amountText(&mean, m.Unit)
				if cv, ok := stats.Variation(values, trimmedShare); ok {
					row[10] = significant(100*cv, 2) + " %"
				}
			}
			if s.CI[0] != nil || s.CI[1] != nil {
				row[3] = amountText(s.CI[0], m.Unit) + " to " + amountText(s.CI[1], m.Unit)
			}
			if c, ok := compared[[2]string{name, m.Name}]; ok {
				row[6], row[7] = comparedText(c)
				if c.Primary {
					_, row[8] = markAndWord(c)
				}
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

func comparedText(c analysis.Comparison) (estimate, between string) {
	lo, hi := boundsToShow(c)
	v := usableOrNil(c.Ratio, c.Scale)
	n := difference.Of(c.Scale, c.Unit, v, lo, hi)
	estimate = unavailable
	if v != nil {
		estimate = n.Text(*v)
	}
	return estimate, n.Between(lo, hi)
}

// comparedWords is comparedText with factors in words.
func comparedWords(c analysis.Comparison) (estimate, between string) {
	lo, hi := boundsToShow(c)
	v := usableOrNil(c.Ratio, c.Scale)
	if n := difference.Of(c.Scale, c.Unit, v, lo, hi); n.Factors && v != nil {
		w := difference.Speak(c.Metric, c.Unit, c.Better)
		return w.Column(n, *v), w.Between(n, lo, hi, *v)
	}
	return comparedText(c)
}

func amountText(v *float64, u string) string {
	if v == nil {
		return unavailable
	}
	return unit.Format(*v, u)
}

// showCosts shows what a unit of work costs.
func (b *builder) showCosts() {
	for _, k := range b.results.Cells {
		c := costs{Cell: k.Name}
		for _, m := range k.Metrics {
			if !difference.IsCost(m.Name) {
				continue
			}
			f := bar.Figure{Of: k.Name + ", " + m.Name, Unit: m.Unit, Better: direction(m.Better)}
			some := false
			for _, name := range b.namesAt(k.Name, m.Name) {
				r := bar.Row{Label: name, Baseline: name == b.results.Baseline}
				if s := b.summaries[[3]string{name, k.Name, m.Name}]; s != nil {
					r.Value, r.Lo, r.Hi = s.Median, s.CI[0], s.CI[1]
				}
				some = some || r.Value != nil
				f.Rows = append(f.Rows, r)
			}
			if some {
				c.Figures = append(c.Figures, b.drawFigure(f, m.Doc, "cost", k.Name, m.Name))
			}
		}
		c.Work, c.NoWork = b.perWork(k)
		if len(c.Work.Rows) > 0 {
			c.Name, c.About = b.freePartName("counters", k.Name), workAbout
		}
		if len(c.Figures) > 0 || c.Name != "" {
			b.page.Costs = append(b.page.Costs, c)
		}
	}
}

// showStrips shows the bottleneck of every cell.
func (b *builder) showStrips() {
	for _, k := range b.results.Cells {
		f := strip.Figure{Of: k.Name}
		var priorities []string
		peer := slices.ContainsFunc(b.rankedNames(), func(n string) bool {
			return b.contents.strips[cellOf{n, k.Name}].utilisation() != nil
		})
		for _, name := range b.rankedNames() {
			s := b.contents.strips[cellOf{name, k.Name}]
			if s == nil {
				continue
			}
			r := strip.Row{Label: name, HasPeer: peer, Generator: s.utilisation()}
			r.Busy, r.Steal, r.IOWait, r.Idle = s.stateTimeShares()
			f.Rows = append(f.Rows, r)
			priorities = lists.AddNew(priorities, s.priorities...)
		}
		about := b.describeCell(k)
		if len(priorities) > 0 {
			about += "; priority of the load generator: " + strings.Join(priorities, ", ")
		}
		if len(f.Rows) > 0 {
			drawn := b.drawFigure(f, about, "bottleneck", k.Name)
			drawn.Cell = k.Name
			b.page.Strips = append(b.page.Strips, drawn)
		}
	}
}
