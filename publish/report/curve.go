package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/publish/chart"
	"bakeoff/publish/chart/curve"
	"bakeoff/publish/chart/tradeoff"
)

// sweepText bounds the texts of a sweep, which may be a stranger's.
const sweepText = 60

// drawCurves draws the sweeps, by cell and metric in the order of the lab file.
func (b *builder) drawCurves() {
	for _, k := range b.results.Cells {
		for _, m := range shownMetrics(k) {
			for _, f := range b.curvesOf(k, m) {
				b.page.Curves = append(b.page.Curves, b.drawFigure(f, m.Doc, "curve", k.Name, m.Name, f.Name))
			}
		}
		for _, m := range tradedOff(k) {
			for _, f := range b.tradeoffsOf(k, m[0], m[1]) {
				b.page.Curves = append(b.page.Curves,
					b.drawFigure(f, "", "tradeoff", k.Name, m[0].Name, m[1].Name, f.Name))
			}
		}
	}
}

// results are metrics that say what a contender achieved or used, as wall and time say how
// long it took: a trade-off may be between them although a run does not decide by both.
var results = []string{"wall", "time", "score", "cost", "ratio", "memory"}

// tradedOff returns the pairs of metrics of a cell that are drawn against each other: the first
// primary one with each other primary one, or else with the first of results.
func tradedOff(k analysis.Cell) (pairs [][2]sample.Metric) {
	directed := func(m sample.Metric) bool { return m.Better == sample.Lower || m.Better == sample.Higher }
	drawn := lists.Filter(shownMetrics(k), directed)
	if len(drawn) == 1 {
		drawn = append(drawn, lists.Filter(k.Metrics, func(m sample.Metric) bool {
			return m.Name != drawn[0].Name && directed(m) && !m.GeneratorHost && slices.Contains(results, m.Name)
		})...)
		drawn = drawn[:min(2, len(drawn))]
	}
	for i := 1; i < len(drawn); i++ {
		pairs = append(pairs, [2]sample.Metric{drawn[0], drawn[i]})
	}
	return pairs
}

// tradeoffsOf returns a figure of two metrics for each name that is swept at a cell, if at
// least two of its values have both.
func (b *builder) tradeoffsOf(k analysis.Cell, x, y sample.Metric) (out []tradeoff.Figure) {
	ups := b.curvesOf(k, y)
	for i, across := range b.curvesOf(k, x) {
		f := tradeoff.Figure{Of: k.Name, Name: across.Name,
			X: tradeoff.Side{Metric: x.Name, Unit: x.Unit, Higher: x.Better == sample.Higher},
			Y: tradeoff.Side{Metric: y.Name, Unit: y.Unit, Higher: y.Better == sample.Higher}}
		both := 0
		for j, l := range across.Lines {
			for n, p := range l.Points {
				up := ups[i].Lines[j].Points[n] // of the same contender
				label := p.Value
				if len(across.Lines) > 1 {
					label = l.Label + " " + p.Value
				}
				f.Points = append(f.Points, tradeoff.Point{Label: label, Baseline: p.Baseline,
					X: tradeoff.Estimate{Median: p.Median, Lo: p.Lo, Hi: p.Hi},
					Y: tradeoff.Estimate{Median: up.Median, Lo: up.Lo, Hi: up.Hi}})
				if p.Median != nil && up.Median != nil {
					both++
				}
			}
		}
		if both > 1 {
			out = append(out, f)
		}
	}
	return out
}

// curvesOf returns a figure for each name that is swept at a cell, with a line for
// each contender of the lab file.
func (b *builder) curvesOf(k analysis.Cell, m sample.Metric) (out []curve.Figure) {
	for _, c := range b.results.Contenders {
		if c.Sweep == nil || b.isTwin(c.Name) || !b.sweepVaries(c, k.Name) {
			continue
		}
		name, of := safetext.Clip(c.Sweep.Name, sweepText), safetext.Clip(c.Sweep.Of, sweepText)
		i := slices.IndexFunc(out, func(f curve.Figure) bool { return f.Name == name })
		if i < 0 {
			i, out = len(out), append(out, curve.Figure{Of: k.Name + ", " + m.Name, Name: name, Unit: m.Unit,
				Better: direction(m.Better), Baseline: b.results.Baseline})
			if m.Scale == sample.Difference {
				out[i].AgainstUnit = m.Unit
			}
		}
		f := &out[i]
		at := slices.IndexFunc(f.Lines, func(l curve.Line) bool { return l.Label == of })
		if at < 0 {
			at, f.Lines = len(f.Lines), append(f.Lines, curve.Line{Label: of})
		}
		f.Lines[at].Points = append(f.Lines[at].Points, b.curvePoint(c, k.Name, m))
	}
	for i := range out {
		inside := slices.ContainsFunc(out[i].Lines, func(l curve.Line) bool {
			return slices.ContainsFunc(l.Points, func(p curve.Point) bool { return p.Baseline })
		})
		if s := b.summaries[[3]string{b.results.Baseline, k.Name, m.Name}]; s != nil && !inside {
			out[i].Level = s.Median
		}
	}
	return out
}

// curvePoint is one contender of a sweep.
func (b *builder) curvePoint(c analysis.Contender, cell string, m sample.Metric) curve.Point {
	p := curve.Point{Value: safetext.Clip(c.Sweep.Value, sweepText), Mark: chart.Plain,
		Baseline: c.Name == b.results.Baseline}
	if s := b.summaries[[3]string{c.Name, cell, m.Name}]; s != nil {
		p.Median, p.Lo, p.Hi = s.Median, s.CI[0], s.CI[1]
	}
	for _, x := range b.results.Comparisons {
		if x.Contender == c.Name && x.Cell == cell && x.Metric == m.Name {
			p.Mark, p.Note = markAndWord(x)
			p.Against, p.Between = comparedText(x)
			p.Ratio = usableOrNil(x.Ratio, x.Scale)
			p.RatioLo, p.RatioHi = boundsToShow(x)
		}
	}
	if p.Median == nil {
		p.Note = "missing"
	}
	return p
}

// sweepVaries reports whether the contenders of a sweep differ at a cell: a parameter
// that is swept at one cell changes nothing at another.
func (b *builder) sweepVaries(c analysis.Contender, cell string) bool {
	params, env := false, false // differ at any cell, differ
	for _, o := range b.results.Contenders {
		if o.Sweep == nil || o.Sweep.Of != c.Sweep.Of || b.isTwin(o.Name) {
			continue
		}
		if !maps.Equal(o.Params[cell], c.Params[cell]) {
			return true
		}
		for _, k := range b.results.Cells {
			params = params || !maps.Equal(o.Params[k.Name], c.Params[k.Name])
		}
		env = env || !maps.Equal(o.Env, c.Env)
	}
	return env || !params
}

// The head of the page shows fewFactors and maxValues of a sweep, the table of factors
// at most maxFactors.
const (
	fewFactors = 4
	maxValues  = 12
	maxFactors = 1000
)

// purposes lists what differs on purpose, each value with its contenders.
func (b *builder) purposes() {
	type at struct{ name, cell string }
	var keys []at
	values := map[at]map[string]analysis.Factor{}
	compared := map[string]map[string]bool{} // cell → contenders
	for _, c := range b.results.Comparisons {
		lists.Inner(compared, c.Cell)[c.Contender] = true
		for _, f := range c.Factors {
			k := at{f.Name, c.Cell}
			if values[k] == nil && len(keys) == maxFactors {
				continue // more than a person can read
			}
			if values[k] == nil {
				values[k] = map[string]analysis.Factor{}
				keys = append(keys, k)
			}
			values[k][c.Contender] = f
		}
	}
	var all []fact
	var cells [][]string // of each fact
	var names []string
	for _, k := range keys {
		f := b.purpose(k.name, values[k], compared[k.cell])
		i := slices.IndexFunc(all, func(o fact) bool {
			return o.Name == f.Name && slices.EqualFunc(o.Values, f.Values, holding.equalTo)
		})
		if i < 0 {
			i, all, cells = len(all), append(all, f), append(cells, nil)
		}
		cells[i] = lists.AddNew(cells[i], k.cell)
		names = lists.AddNew(names, k.name)
	}
	for i := range all {
		if len(cells[i]) < len(b.results.Cells) {
			all[i].Name += " at " + strings.Join(cells[i], ", ")
		}
	}
	b.page.Purposes = cutList(b.contents, "factors", all, maxList)
	if len(names) > 0 {
		text := b.sweptFactor()
		switch {
		case text != "":
		case len(all) == 1 && len(all[0].Values) <= fewFactors:
			text = all[0].String()
		default:
			text = fewNames(names)
		}
		b.page.Head = slices.Insert(b.page.Head, min(3, len(b.page.Head)), pair{"Differs on purpose", text})
	}
}

// sweptFactor is the factor of a run that is one sweep: "level of gzip: 1, 5, 9"; "" for
// other runs.
func (b *builder) sweptFactor() string {
	var of *analysis.Sweep
	var values []string
	for _, c := range b.results.Contenders {
		switch {
		case b.isTwin(c.Name):
			continue
		case c.Sweep == nil || of != nil && (c.Sweep.Of != of.Of || c.Sweep.Name != of.Name):
			return ""
		}
		of = c.Sweep
		values = append(values, safetext.Clip(c.Sweep.Value, sweepText))
	}
	if of == nil {
		return ""
	}
	more := ""
	if n := len(values) - maxValues; n > 0 {
		values, more = values[:maxValues], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("%s of %s: %s%s", safetext.Clip(of.Name, sweepText), safetext.Clip(of.Of, sweepText),
		strings.Join(values, ", "), more)
}

// purpose is one factor: the value of every contender that was compared, the
// baseline's first.
func (b *builder) purpose(name string, of map[string]analysis.Factor, compared map[string]bool) fact {
	f := fact{Name: name}
	var baseline string
	for _, x := range of {
		baseline = x.Baseline
	}
	f.addHolder(setOrNot(baseline), b.results.Baseline)
	contenders := 1
	for _, c := range b.rankedNames() {
		if !b.compares(c) || !compared[c] {
			continue
		}
		contenders++
		if x, ok := of[c]; ok {
			f.addHolder(setOrNot(x.Contender), c)
		} else {
			f.addHolder(setOrNot(baseline), c)
		}
	}
	f.shorten(contenders)
	return f
}

func (h holding) equalTo(o holding) bool { return h.Value == o.Value && slices.Equal(h.Who, o.Who) }

// setOrNot is the value of a setting.
func setOrNot(value string) string {
	if value == "" {
		return "not set"
	}
	return knownText(value)
}

// String is a fact with its values: "params.argv: gzip -1 big (gzip), zstd big
// (zstd)".
func (f fact) String() string {
	values := lists.Map(f.Values, func(h holding) string {
		return safetext.Clip(h.Value, sweepText) + " (" + strings.Join(h.Who, ", ") + ")"
	})
	return safetext.Clip(f.Name, sweepText) + ": " + strings.Join(values, ", ")
}

// fewNames are a few names for the head of the page.
func fewNames(names []string) string {
	names = lists.Map(names, func(n string) string { return safetext.Clip(n, sweepText) })
	if len(names) > fewFactors {
		return strings.Join(names[:fewFactors], ", ") + " and " + fmt.Sprint(len(names)-fewFactors) + " more"
	}
	return strings.Join(names, ", ")
}
