// Package quantile draws distributions of latencies by their quantiles, up to the slowest
// operation of ten thousand.
package quantile

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"bakeoff/base/unit"
	"bakeoff/publish/chart"
	"bakeoff/publish/difference"
)

// Point is a latency in seconds, which Percent of the operations did not exceed.
type Point struct{ Percent, Seconds float64 }

// isDrawable reports whether a point can be drawn: between a picosecond and 30,000 years.
func (p Point) isDrawable() bool {
	return p.Seconds >= 1e-12 && p.Seconds <= 1e12 && !math.IsNaN(p.Percent)
}

// Line is one contender. Its points ascend.
type Line struct {
	Label    string
	Baseline bool
	Trials   int
	Count    int64 // operations
	Points   []Point
}

// Figure is the latencies of one cell.
type Figure struct {
	Of    string
	Lines []Line
	// Floor is how late the load generator sent 1 % of the requests at least, in seconds;
	// 0 if it is not known.
	Floor float64
}

// Slower is the number of operations that must have been slower than a quantile for it to
// be drawn. With fewer, it is an accident of single operations.
const Slower = 10

// Marks are the quantiles on the axis and in the table, in percent.
var Marks = []float64{50, 90, 99, 99.9, 99.99}

// Percents are the quantiles that a line needs if n operations were measured, in
// ascending order.
func Percents(n int64) (out []float64) {
	const steps = 80
	for i := 1; i <= steps; i++ { // the fastest operation alone would stretch the axis
		rest := math.Pow(10, -lastDecade*float64(i)/steps)
		if rest*float64(n) >= Slower {
			out = append(out, 100*(1-rest))
		}
	}
	for _, m := range Marks {
		if (1-m/100)*float64(n) >= Slower*(1-1e-9) {
			out = insertSorted(out, m)
		}
	}
	return out
}

// insertSorted keeps percents ascending and different.
func insertSorted(out []float64, v float64) []float64 {
	for i, x := range out {
		switch {
		case math.Abs(x-v) < 1e-9:
			out[i] = v
			return out
		case x > v:
			return append(out[:i], append([]float64{v}, out[i:]...)...)
		}
	}
	return append(out, v)
}

// lastDecade is where the axis ends: one operation of 10⁴.
const lastDecade = 4.0

// Doc describes the kind.
func (Figure) Doc() chart.Doc {
	return chart.Doc{
		Name:  "quantile",
		Title: "Latencies",
		Read: "Each line shows a latency for each share of the operations: at 50 %, half of the operations took at most " +
			"this time; at 99 %, all but one of a hundred did. Both axes are logarithmic, so the slowest operations have as " +
			"much room as the others. A line ends where fewer " +
			"than " + strconv.Itoa(Slower) + " operations were slower. A line pools all trials of a contender, so it has no " +
			"interval and decides nothing.",
	}
}

// Title names the figure.
func (f Figure) Title() string { return f.Of + ", latency by quantile" }

// latencyAt is the latency of a line at one of the marks.
func (l Line) latencyAt(percent float64) (float64, bool) {
	for _, p := range l.Points {
		if math.Abs(p.Percent-percent) < 1e-9 && p.isDrawable() {
			return p.Seconds, true
		}
	}
	return 0, false
}

func percentText(p float64) string { return strconv.FormatFloat(p, 'f', -1, 64) + " %" }

// Desc says the marks of every line in words.
func (f Figure) Desc() string {
	return chart.Sentences(f.Lines, func(l Line) (string, string) {
		var parts []string
		for _, m := range Marks {
			if v, ok := l.latencyAt(m); ok {
				parts = append(parts, percentText(m)+" within "+unit.Format(v, "s"))
			}
		}
		if len(parts) == 0 {
			return l.Label, ": too few operations"
		}
		return l.Label, ": " + strings.Join(parts, ", ")
	}) + "Lower is better."
}

// Data holds the marks.
func (f Figure) Data() chart.Data {
	d := chart.Data{Columns: append(chart.Texts("contender"), chart.Numbers("", "trials", "operations")...)}
	for _, m := range Marks {
		d.Columns = append(d.Columns, chart.Numbers("s", percentText(m)+" within")...)
	}
	for _, l := range f.Lines {
		row := []chart.Cell{chart.Word(l.Label), chart.Count(l.Trials), chart.Count(l.Count)}
		for _, m := range Marks {
			if v, ok := l.latencyAt(m); ok {
				row = append(row, chart.Num(&v))
			} else {
				row = append(row, chart.Num(nil))
			}
		}
		d.Rows = append(d.Rows, row)
	}
	return d
}

// Table holds the marks.
func (f Figure) Table() chart.Table {
	t := chart.Table{Head: []string{"contender", "trials", "operations"}}
	for _, m := range Marks {
		t.Head = append(t.Head, percentText(m)+" within")
	}
	few := false
	for _, l := range f.Lines {
		row := []string{l.Label, fmt.Sprint(l.Trials), fmt.Sprint(l.Count)}
		for _, m := range Marks {
			v, ok := l.latencyAt(m)
			if few = few || !ok; ok {
				row = append(row, unit.Format(v, "s"))
			} else {
				row = append(row, difference.Unavailable)
			}
		}
		t.Rows = append(t.Rows, row)
	}
	if few {
		t.Note = fmt.Sprintf("Unavailable: fewer than %d operations were slower. ", Slower)
	}
	if f.Floor > 0 {
		t.Note += "The load generator sent 1 % of the requests more than " + unit.Format(f.Floor, "s") +
			" late, so latencies below that say nothing about the server."
	}
	t.Note = strings.TrimSpace(t.Note)
	return t
}

const (
	plotH  = 250.0
	headH  = 18.0
	keyH   = 18.0
	footH  = 40.0
	left   = 66.0
	margin = 30.0
)

// Draw draws the figure.
func (f Figure) Draw(id string, width float64) string {
	c := chart.NewRows(id, width, left, margin, f.Lines, func(l Line) string { return l.Label })
	x0, x1 := left, c.Width()-margin
	top := headH + 14
	if len(f.Lines) > 1 {
		top += keyH * float64(len(f.Lines))
	}
	bottom := top + plotH
	lo, hi := f.axisEnds()
	x := func(percent float64) float64 { return x0 + decades(percent)/lastDecade*(x1-x0) }
	y := func(seconds float64) float64 {
		share := (math.Log(seconds) - math.Log(lo)) / (math.Log(hi) - math.Log(lo))
		return bottom - min(max(share, 0), 1)*plotH
	}
	f.drawKey(c)
	f.latencies(c, lo, hi, x0, x1, y)
	for _, m := range Marks {
		c.Tick(x(m), bottom+15, top, bottom, percentText(m))
	}
	c.Line(x0, bottom, x1, bottom, "axis")
	if f.Floor > lo && f.Floor < hi {
		c.Line(x0, y(f.Floor), x1, y(f.Floor), "level")
		c.Label(x1, y(f.Floor)-5, x1-x0, chart.End, "small", "lateness of the load generator")
	}
	for i, l := range f.Lines {
		f.drawLine(c, i, l, x, y)
	}
	c.Label(x0, top-12, x1-x0, chart.Start, "direction", "↑ latency, lower is better")
	c.Label(x1, bottom+33, x1-x0, chart.End, "direction", "share of the operations →")
	return c.SVG(bottom+footH, f.Title(), f.Desc())
}

// decades is the place of a quantile: 90 % at 1, 99 % at 2.
func decades(percent float64) float64 {
	v := -math.Log10(1 - percent/100)
	if math.IsNaN(v) {
		return 0
	}
	return min(max(v, 0), lastDecade)
}

// axisEnds are the ends of the axis of latencies: both above 0, and different.
func (f Figure) axisEnds() (lo, hi float64) {
	lo, hi = math.Inf(1), 0.0
	for _, l := range f.Lines {
		for _, p := range l.Points {
			if p.isDrawable() {
				lo, hi = min(lo, p.Seconds), max(hi, p.Seconds)
			}
		}
	}
	if hi == 0 {
		return 1e-3, 1
	}
	return lo / 1.15, hi * 1.15
}

// latencies labels the vertical axis.
func (f Figure) latencies(c chart.Rows, lo, hi, x0, x1 float64, y func(float64) float64) {
	last := math.Inf(1)
	for decade := math.Floor(math.Log10(lo)); decade <= math.Ceil(math.Log10(hi)); decade++ {
		for _, m := range []float64{1, 2, 5} {
			v := m * math.Pow(10, decade)
			if v < lo || v > hi || last-y(v) < 15 {
				continue
			}
			last = y(v)
			c.Line(x0, y(v), x1, y(v), "grid")
			c.Label(x0-8, y(v)+4, left-12, chart.End, "tick", unit.Format(v, "s"))
		}
	}
}

// drawKey says which letter is which line.
func (f Figure) drawKey(c chart.Rows) {
	if len(f.Lines) < 2 {
		return
	}
	for i, l := range f.Lines {
		y := headH + keyH*float64(i)
		c.Text(8, y, chart.Start, "sign mark-plain", chart.Letter(i))
		c.Line(24, y-4, 58, y-4, lineClass(i, l))
		label := l.Label
		if l.Baseline {
			label += " (baseline)"
		}
		c.Label(66, y, c.Width()-74, chart.Start, "label", label)
	}
}

// lineClass is the look of a line: lines differ in their dashes.
func lineClass(i int, l Line) string {
	if l.Baseline {
		return "quantile base"
	}
	return fmt.Sprintf("quantile dash-%d", i%dashes)
}

// dashes is the number of looks of lines.
const dashes = 5

// drawLine draws one contender, and its letter behind its end.
func (f Figure) drawLine(c chart.Rows, i int, l Line, x, y func(float64) float64) {
	var path strings.Builder
	word, endX, endY := "M", 0.0, 0.0
	for _, p := range l.Points {
		if !p.isDrawable() {
			continue
		}
		endX, endY = x(p.Percent), y(p.Seconds)
		fmt.Fprintf(&path, "%s%.1f %.1f", word, endX, endY)
		word = "L"
	}
	if path.Len() == 0 {
		return
	}
	c.Begin("row", l.Label)
	c.Path(path.String(), lineClass(i, l))
	if len(f.Lines) > 1 {
		// Lines that end together have their letters side by side.
		c.Text(min(endX+4+float64(i%3)*9, c.Width()-8), endY+4, chart.Start, "sign letter mark-plain", chart.Letter(i))
	}
	c.End()
}
