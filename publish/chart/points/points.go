// Package points draws every raw value of a metric, one line a contender,
// with the median and its interval over them.
package points

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"bakeoff/base/unit"
	"bakeoff/publish/chart"
)

// Row is one contender.
type Row struct {
	Label          string
	Baseline       bool
	Values         []float64
	Median, Lo, Hi *float64 // nil: not known
	N, Failures    int
}

// Figure is one metric of one cell. A row stands in the order given.
type Figure struct {
	Of   string
	Unit string
	// Better says which way is better: "higher is better".
	Better string
	Rows   []Row
}

// Doc describes the kind.
func (Figure) Doc() chart.Doc {
	return chart.Doc{
		Name:    "points",
		Summary: "every raw value, with the median of each contender and its interval",
		Read: "Every dot is one trial; dots are spread upwards and downwards only so that they do not hide each other. " +
			"The upright line is the median, the box around it its interval. Where contenders are far apart the axis is " +
			"broken into pieces (marked by a double line), each with numbers and a scale of its own, so that the spread of each stays " +
			"visible. These intervals describe each contender alone; verdicts come from the comparison within blocks, " +
			"which is sharper: whether two boxes overlap decides nothing.",
	}
}

// Title names the figure.
func (f Figure) Title() string { return f.Of + ": raw values" }

// Desc says the median of each row in words.
func (f Figure) Desc() string {
	var b strings.Builder
	for _, r := range f.Rows {
		fmt.Fprintf(&b, "%s: median %s, interval %s to %s, %s. ", chart.Fit(r.Label, 400),
			f.text(r.Median), f.text(r.Lo), f.text(r.Hi), r.count())
	}
	b.WriteString(f.Better + ".")
	return b.String()
}

func (f Figure) text(v *float64) string {
	if v == nil {
		return "unavailable"
	}
	return unit.Format(*v, f.Unit)
}

func (r Row) count() string {
	if r.Failures > 0 {
		return fmt.Sprintf("n = %d, %d of %d failed", r.N, r.Failures, r.N+r.Failures)
	}
	return fmt.Sprintf("n = %d", r.N)
}

// Table holds medians, intervals, extremes and counts.
func (f Figure) Table() chart.Table {
	t := chart.Table{Head: []string{"contender", "median", "from", "to", "lowest", "highest", "trials", "failed"}}
	for _, r := range f.Rows {
		lowest, highest := "–", "–"
		if vs := finite(r.Values); len(vs) > 0 {
			lowest, highest = unit.Format(slices.Min(vs), f.Unit), unit.Format(slices.Max(vs), f.Unit)
		}
		t.Rows = append(t.Rows, []string{r.Label, f.text(r.Median), f.text(r.Lo), f.text(r.Hi), lowest, highest,
			fmt.Sprint(r.N), fmt.Sprintf("%d of %d", r.Failures, r.N+r.Failures)})
	}
	return t
}

const (
	head   = 14.0
	step   = 38.0
	tall   = 52.0
	foot   = 34.0
	valueW = 136.0
	gapW   = 16.0
)

// Draw draws the figure.
func (f Figure) Draw(id string, width float64) string {
	c := chart.NewCanvas(id, width)
	narrow := c.Width() < 560
	x0, x1, row := 14.0, c.Width()-14, tall
	if !narrow {
		gutter := 60.0
		for _, r := range f.Rows {
			gutter = max(gutter, chart.TextWidth(chart.Fit(r.Label, 180)))
		}
		x0, x1, row = gutter+22, c.Width()-valueW-18, step
	}
	bottom := head + row*float64(len(f.Rows))
	panels := pieces(f.Rows, x0, x1)
	unitName := axes(c, panels, f.Unit, bottom)
	c.Text(x0, bottom+31, chart.Start, "direction", strings.TrimPrefix(unitName+", ", ", ")+f.Better)
	for i, r := range f.Rows {
		y := head + row*float64(i)
		c.Begin("row", r.Label+": median "+f.text(r.Median)+", "+r.count())
		middle := y + row/2
		if narrow {
			c.Label(2, y+12, c.Width()*0.42, chart.Start, "label", r.Label)
			c.Label(c.Width()-2, y+12, c.Width()*0.55, chart.End, "value", f.beside(r))
			middle = y + 31
		} else {
			c.Label(4, middle+4, x0-16, chart.Start, "label", r.Label)
			c.Text(x1+16, middle-2, chart.Start, "value", f.text(r.Median))
			c.Text(x1+16, middle+12, chart.Start, "small", r.count())
		}
		for _, p := range panels {
			c.Line(p.x0, middle, p.x1, middle, "rule")
		}
		draw(c, panels, r, middle)
		c.End()
	}
	return c.SVG(bottom+foot+4, f.Title(), f.Desc())
}

func (f Figure) beside(r Row) string { return f.text(r.Median) + ", " + r.count() }

// draw draws the dots, then the interval and the median of one row.
func draw(c *chart.Canvas, panels []piece, r Row, y float64) {
	var xs, ys []float64
	for i, v := range r.Values {
		if p := find(panels, v); p != nil {
			xs = append(xs, p.at(v))
			ys = append(ys, y+spread(i))
		}
	}
	class := "points"
	if r.Baseline {
		class += " base"
	}
	c.Points(xs, ys, class)
	if p := findAll(panels, r.Lo, r.Hi); p != nil {
		c.Rect(p.at(*r.Lo), y-9, p.at(*r.Hi)-p.at(*r.Lo), 18, "interval")
	}
	if r.Median != nil {
		if p := find(panels, *r.Median); p != nil {
			for _, class := range []string{"halo", "median"} {
				c.Line(p.at(*r.Median), y-11, p.at(*r.Median), y+11, class)
			}
		}
	}
}

// spread moves the i-th dot off the line, the same way every time: the
// golden ratio's multiples fill a range evenly in any order.
func spread(i int) float64 {
	_, f := math.Modf(float64(i) * 0.6180339887498949)
	return (f - 0.5) * 15
}

// axes draws the ticks of every piece and the breaks between them. It
// returns the unit with its prefix where one holds for the whole axis.
func axes(c *chart.Canvas, panels []piece, u string, bottom float64) string {
	name := common(panels, u)
	var all [][]tick
	for i, p := range panels {
		all = append(all, p.ticks(u, name == ""))
		c.Line(p.x0, bottom, p.x1, bottom, "axis")
		if i > 0 {
			x := p.x0 - gapW/2
			c.Line(x-2.5, head-6, x-2.5, bottom+4, "break")
			c.Line(x+2.5, head-6, x+2.5, bottom+4, "break")
		}
	}
	for _, t := range legible(all, c.Width()) {
		c.Line(t.x, head-6, t.x, bottom, "grid")
		c.Text(t.x, bottom+14, chart.Middle, "tick", t.label)
	}
	return name
}

// common is the unit with the prefix that all pieces have; "" where they are of
// different sizes.
func common(panels []piece, u string) (name string) {
	for i, p := range panels {
		if _, own := unit.Prefix(p.size(), u); i == 0 || own == name {
			name = own
		} else {
			return ""
		}
	}
	return name
}

// tick is a label with its place.
type tick struct {
	x     float64
	label string
}

// legible leaves out ticks that would touch another or the edge. The first of
// every piece comes before the others: without it a piece has no number at all.
func legible(pieces [][]tick, width float64) (out []tick) {
	for _, first := range []bool{true, false} {
		for _, ticks := range pieces {
			for i, t := range ticks {
				half := chart.TextWidth(t.label) / 2
				touches := slices.ContainsFunc(out, func(o tick) bool {
					return math.Abs(o.x-t.x) < half+chart.TextWidth(o.label)/2+6
				})
				if first == (i == 0) && !touches && t.x >= half && t.x+half <= width {
					out = append(out, t)
				}
			}
		}
	}
	return out
}

func finite(vs []float64) []float64 {
	var out []float64
	for _, v := range vs {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			out = append(out, v)
		}
	}
	return out
}
