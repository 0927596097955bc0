// Package trend draws the estimates of runs over time: the interval of each run, the
// level between steps, and the steps.
package trend

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/publish/chart"
	"bakeoff/publish/difference"
)

// Point is the estimate of one run.
type Point struct {
	Run            int // its place, from 0
	Name           string
	Value          *float64
	Lo, Hi         *float64 // with the spread between runs
	Inner0, Inner1 *float64 // by the noise inside the run alone
	Blocks         int
}

// Level is the level of the runs [From, To).
type Level struct {
	From, To      int
	Value, Lo, Hi *float64
}

// Step is a change of the level.
type Step struct {
	Run      int // the first after it
	From, To int // the runs that may be the first after it
	Mark     chart.Mark
	Text     string // what changed, in words
}

// Left is a run that does not count.
type Left struct {
	Run    int
	Name   string
	Reason string
}

// Figure is one contender at one cell and metric over the runs.
type Figure struct {
	Of       string
	Baseline string // "" if the values themselves are drawn
	Scale    sample.Scale
	Unit     string
	Better   string   // "lower is better"
	Names    []string // of all runs in order: their dates
	Points   []Point
	Levels   []Level
	Steps    []Step
	Left     []Left
	Band     *[2]float64 // the margin
}

// Doc describes the kind.
func (Figure) Doc() chart.Doc {
	return chart.Doc{
		Name:  "trend",
		Title: "Trend",
		Read: "Runs over time, the oldest on the left. A dot is the estimate of one run. The dark line is its interval " +
			"from the noise inside the run; the light line also includes the differences between runs. A horizontal line is " +
			"the level of the runs between two steps, with its interval as a box. A vertical line with a sign is a step; the " +
			"shade next to it covers the runs at which the step may have happened. The band is the margin around no " +
			"difference. A circle with a bar at the bottom is a run that does not count.",
	}
}

// Title names the figure.
func (f Figure) Title() string { return f.Of + ", run by run" }

// Desc says the levels and the steps in words.
func (f Figure) Desc() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s. ", unit.Count(len(f.Points), "run"))
	for i, l := range f.Levels {
		fmt.Fprintf(&b, "Level of %s: %s, interval %s. ", unit.Count(l.To-l.From, "run"), f.Text(l.Value),
			f.Between(l.Lo, l.Hi))
		if i < len(f.Steps) {
			b.WriteString("Then " + f.Steps[i].Text + " at " + f.runName(f.Steps[i].Run) + ". ")
		}
	}
	if len(f.Steps) == 0 {
		b.WriteString("No step was found. ")
	}
	return b.String() + f.Better + "."
}

func (f Figure) runName(run int) string {
	if run < 0 || run >= len(f.Names) {
		return "an unknown run"
	}
	return f.Names[run]
}

// drawsValues reports whether the values themselves are drawn.
func (f Figure) drawsValues() bool { return f.Baseline == "" }

// Text writes an estimate.
func (f Figure) Text(v *float64) string {
	switch {
	case !chart.Known(v):
		return difference.Unavailable
	case f.drawsValues():
		return unit.Format(*v, f.Unit)
	}
	return difference.Of(f.Scale, f.Unit, v).Text(*v)
}

// Between writes an interval.
func (f Figure) Between(lo, hi *float64) string {
	switch {
	case !f.drawsValues():
		return difference.Of(f.Scale, f.Unit, lo, hi).Between(lo, hi)
	case chart.Known(lo) && chart.Known(hi):
		return f.Text(lo) + " to " + f.Text(hi)
	}
	return difference.Unavailable
}

// Data has a row for each run that counts, the oldest first.
func (f Figure) Data() chart.Data {
	unitName := f.Unit
	if f.Baseline != "" && f.Scale != sample.Difference {
		unitName = ""
	}
	d := chart.Data{Columns: slices.Concat(chart.Texts("run"),
		chart.Numbers(unitName, "estimate", "from", "to", "from inside the run", "to inside the run"),
		chart.Numbers("", "blocks"))}
	for _, p := range f.Points {
		d.Rows = append(d.Rows, []chart.Cell{chart.Word(p.Name), chart.Num(p.Value), chart.Num(p.Lo), chart.Num(p.Hi),
			chart.Num(p.Inner0), chart.Num(p.Inner1), chart.Count(p.Blocks)})
	}
	return d
}

// Table has a row for each run, the newest first, and those that do not count.
func (f Figure) Table() chart.Table {
	t := chart.Table{Head: []string{"run", "estimate", "interval", "inside the run", "blocks", "step"}}
	step := map[int]string{}
	for _, s := range f.Steps {
		step[s.Run] = s.Text
	}
	rows := map[int][]string{}
	for _, p := range f.Points {
		rows[p.Run] = []string{p.Name, f.Text(p.Value), f.Between(p.Lo, p.Hi), f.Between(p.Inner0, p.Inner1),
			fmt.Sprint(p.Blocks), step[p.Run]}
	}
	for _, l := range f.Left {
		rows[l.Run] = []string{l.Name, "does not count", l.Reason, "", "", ""}
	}
	for run := len(f.Names) - 1; run >= 0; run-- {
		if row, ok := rows[run]; ok {
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

const (
	headH = 36.0
	plotH = 210.0
	footH = 42.0
	left  = 66.0
	right = 18.0
	few   = 130 // runs up to which every interval has caps
)

// plot is where things are.
type plot struct {
	Axis
	chart.Rows
	x0, x1, top, bottom float64
	runs                int
	caps                bool
}

func (p plot) xOf(run int) float64 {
	inner := p.x1 - p.x0 - 20
	return p.x0 + 10 + inner*(float64(min(max(run, 0), max(p.runs-1, 0)))+0.5)/float64(max(p.runs, 1))
}

func (p plot) yOf(v float64) float64 { return p.bottom - p.Up(v)*(p.bottom-p.top) }

// halfStep is half of the distance between two runs.
func (p plot) halfStep() float64 { return (p.x1 - p.x0 - 20) / 2 / float64(max(p.runs, 1)) }

// Draw draws the figure.
func (f Figure) Draw(id string, width float64) string {
	c := chart.NewRows(id, width, left, right, f.Points, func(p Point) string { return p.Name })
	p := plot{Axis: NewAxis(f), Rows: c, x0: left, x1: c.Width() - right, top: headH, bottom: headH + plotH,
		runs: len(f.Names), caps: len(f.Points) <= few}
	if f.Band != nil {
		lo, hi := p.yOf(f.Band[0]), p.yOf(f.Band[1])
		c.Rect(p.x0, hi, p.x1-p.x0, lo-hi, "band")
	}
	labels, up := p.Ticks(6)
	for i, label := range labels {
		at := p.bottom - up[i]*plotH
		c.Line(p.x0, at, p.x1, at, "grid")
		c.Label(p.x0-8, at+4, left-12, chart.End, "tick", label)
	}
	if none, ok := f.noDifference(); ok && p.Has(none) {
		c.Line(p.x0, p.yOf(none), p.x1, p.yOf(none), "zero")
	}
	for _, s := range f.Steps {
		c.Rect(p.xOf(s.From)-p.halfStep(), p.top, p.xOf(s.To)-p.xOf(s.From), plotH, "panel")
	}
	f.drawLevels(p)
	f.drawPoints(p)
	f.drawSteps(p)
	f.labelRuns(p)
	c.Line(p.x0, p.bottom, p.x1, p.bottom, "axis")
	c.Label(p.x0, 13, p.x1-p.x0, chart.Start, "direction", "↑ "+f.measure()+", "+f.Better)
	return c.SVG(p.bottom+footH, f.Title(), f.Desc())
}

// noDifference is the estimate of no difference.
func (f Figure) noDifference() (float64, bool) {
	if f.Scale == sample.Difference {
		return 0, !f.drawsValues()
	}
	return 1, !f.drawsValues()
}

// measure says what is drawn upward.
func (f Figure) measure() string {
	text := "against " + f.Baseline
	if f.drawsValues() {
		text = "value"
	}
	if f.Unitless() {
		text += ", " + chart.NoUnit
	}
	return text
}

// Unitless reports whether the numbers on the vertical axis have no unit.
func (f Figure) Unitless() bool {
	return (f.drawsValues() || f.Scale == sample.Difference) && chart.Unitless(f.Unit)
}

// drawLevels draws the level between steps.
func (f Figure) drawLevels(p plot) {
	for _, l := range f.Levels {
		if !chart.Known(l.Value) || l.From < 0 || l.To > len(f.Points) || l.From >= l.To {
			continue
		}
		from, to := p.xOf(f.Points[l.From].Run)-p.halfStep(), p.xOf(f.Points[l.To-1].Run)+p.halfStep()
		p.Begin("row", "level of "+unit.Count(l.To-l.From, "run")+": "+f.Text(l.Value)+", interval "+
			f.Between(l.Lo, l.Hi))
		if chart.Known(l.Lo) && chart.Known(l.Hi) {
			lo, hi := p.yOf(*l.Lo), p.yOf(*l.Hi)
			p.Rect(from, hi, to-from, lo-hi, "track")
		}
		p.Line(from, p.yOf(*l.Value), to, p.yOf(*l.Value), "median")
		p.End()
	}
}

// drawPoints draws the runs.
func (f Figure) drawPoints(p plot) {
	for _, e := range f.Points {
		if !chart.Known(e.Value) {
			continue
		}
		x := p.xOf(e.Run)
		p.Begin("row", e.Name+": "+f.Text(e.Value)+", interval "+f.Between(e.Lo, e.Hi))
		if chart.Known(e.Lo) && chart.Known(e.Hi) {
			p.Line(x, p.yOf(*e.Lo), x, p.yOf(*e.Hi), "curve")
			if p.caps {
				p.Line(x-2, p.yOf(*e.Lo), x+2, p.yOf(*e.Lo), "curve")
				p.Line(x-2, p.yOf(*e.Hi), x+2, p.yOf(*e.Hi), "curve")
			}
		}
		if chart.Known(e.Inner0) && chart.Known(e.Inner1) {
			p.Line(x, p.yOf(*e.Inner0), x, p.yOf(*e.Inner1), "interval")
		}
		p.Points([]float64{x}, []float64{p.yOf(*e.Value)}, true)
		p.End()
	}
	for _, l := range f.Left {
		p.Begin("row", l.Name+" does not count: "+l.Reason)
		p.Text(p.xOf(l.Run), p.bottom-5, chart.Middle, "small", "⊖")
		p.End()
	}
}

// drawSteps draws the steps.
func (f Figure) drawSteps(p plot) {
	for _, s := range f.Steps {
		x := p.xOf(s.Run) - p.halfStep()
		p.Begin("row", s.Text+" at "+f.runName(s.Run))
		p.Line(x, p.top, x, p.bottom, "level")
		mark := cmp.Or(s.Mark, chart.Open)
		p.Text(x, p.top-6, chart.Middle, "sign mark-"+string(mark), mark.Sign())
		p.End()
	}
}

// labelRuns labels the axis of time, the ends and the steps first.
func (f Figure) labelRuns(p plot) {
	label := func(run int) {
		if run >= 0 && run < len(f.Names) {
			p.Tick(p.xOf(run), p.bottom+16, p.bottom, p.bottom+4, chart.Ends(f.Names[run], 110))
		}
	}
	for _, s := range f.Steps {
		label(s.Run)
	}
	label(0)
	label(len(f.Names) - 1)
	for i := range 7 {
		label((i + 1) * len(f.Names) / 8)
	}
	p.Label(p.x1, p.bottom+34, p.x1-p.x0, chart.End, "direction", unit.Count(len(f.Names), "run")+", in order →")
}
