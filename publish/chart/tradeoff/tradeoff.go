// Package tradeoff draws two metrics of a sweep against each other, such as time
// against size, and marks the contenders that no other one beats in both.
package tradeoff

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/base/unit"
	"bakeoff/publish/chart"
)

// Estimate is a median with its interval; nil where it is not known.
type Estimate struct{ Median, Lo, Hi *float64 }

// Point is one value of the sweep.
type Point struct {
	Label    string // what is written at the point
	Baseline bool
	X, Y     Estimate
}

// Side is one of the two metrics.
type Side struct {
	Metric, Unit string
	Higher       bool // higher is better
}

// Figure is two metrics of one cell over one sweep.
type Figure struct {
	Of     string // the cell
	Name   string // of what is swept
	X, Y   Side
	Points []Point
}

// Doc describes the kind.
func (Figure) Doc() chart.Doc {
	return chart.Doc{
		Name:  "tradeoff",
		Title: "Trade-off",
		Read: "Two metrics of a sweep: each point is one value of the sweep, at its medians, with the confidence interval " +
			"of each. A filled diamond is on the Pareto front: every other value has a worse median in one metric, or the " +
			"same medians in both. A hollow square is beaten by another value; the table names that value, and says whether " +
			"the intervals of the two overlap. The front is drawn from medians and is not a verdict. A line between two " +
			"points is not a measurement. An axis is logarithmic if its largest value is many times its smallest.",
	}
}

// Title names the figure.
func (f Figure) Title() string {
	return fmt.Sprintf("%s, %s against %s over %s", f.Of, f.X.Metric, f.Y.Metric, f.Name)
}

// Desc says every point in words.
func (f Figure) Desc() string {
	return chart.Sentences(f.Points, func(p Point) (string, string) { return p.Label, ": " + f.describePoint(p) }) +
		f.X.Metric + ": " + f.X.betterText() + ". " + f.Y.Metric + ": " + f.Y.betterText() + "."
}

func (f Figure) describePoint(p Point) string {
	of := func(s Side, e Estimate) string {
		return fmt.Sprintf("%s %s, interval %s to %s", s.Metric, s.valueText(e.Median), s.valueText(e.Lo), s.valueText(e.Hi))
	}
	return of(f.X, p.X) + "; " + of(f.Y, p.Y) + "; " + f.frontWord(p)
}

func (s Side) betterText() string {
	if s.Higher {
		return "higher is better"
	}
	return "lower is better"
}

func (s Side) valueText(v *float64) string {
	if !chart.Known(v) {
		return "unavailable"
	}
	return unit.Format(*v, s.Unit)
}

// compareMedians is -1 if a has the better median, 1 if b has, else 0.
func (s Side) compareMedians(a, b Estimate) int {
	if s.Higher {
		a, b = b, a
	}
	return cmp.Compare(*a.Median, *b.Median)
}

func (p Point) isKnown() bool { return chart.Known(p.X.Median) && chart.Known(p.Y.Median) }

// beaterOf returns a point of the front whose medians are at least as good as those of p in
// both metrics, and better in one; nil if p is on the front itself.
func (f Figure) beaterOf(p Point) *Point {
	var best *Point
	for i, o := range f.Points {
		if !o.isKnown() {
			continue
		}
		x, y := f.X.compareMedians(o.X, p.X), f.Y.compareMedians(o.Y, p.Y)
		if x > 0 || y > 0 || x == 0 && y == 0 {
			continue
		}
		if best == nil || f.X.compareMedians(o.X, best.X) <= 0 && f.Y.compareMedians(o.Y, best.Y) <= 0 {
			best = &f.Points[i]
		}
	}
	return best
}

// frontWord is what the front says of a point.
func (f Figure) frontWord(p Point) string {
	if !p.isKnown() {
		return "not shown"
	}
	by := f.beaterOf(p)
	switch {
	case by == nil:
		return "on the front"
	case by.X.overlaps(p.X) && *by.X.Median != *p.X.Median || by.Y.overlaps(p.Y) && *by.Y.Median != *p.Y.Median:
		return "beaten by " + by.Label + ", intervals overlap"
	}
	return "beaten by " + by.Label
}

// overlaps reports whether the intervals do; one that is not known overlaps everything.
func (e Estimate) overlaps(o Estimate) bool {
	for _, v := range []*float64{e.Lo, e.Hi, o.Lo, o.Hi} {
		if !chart.Known(v) {
			return true
		}
	}
	return *e.Lo <= *o.Hi && *o.Lo <= *e.Hi
}

// Data holds every point with both metrics.
func (f Figure) Data() chart.Data {
	columns := func(s Side) []chart.Column {
		return chart.Numbers(s.Unit, s.Metric+" median", s.Metric+" from", s.Metric+" to")
	}
	d := chart.Data{Columns: slices.Concat(chart.Texts(f.Name), columns(f.X), columns(f.Y), chart.Texts("Pareto front"))}
	for _, p := range f.Points {
		d.Rows = append(d.Rows, []chart.Cell{chart.Word(p.Label), chart.Num(p.X.Median), chart.Num(p.X.Lo),
			chart.Num(p.X.Hi), chart.Num(p.Y.Median), chart.Num(p.Y.Lo), chart.Num(p.Y.Hi), chart.Word(f.frontWord(p))})
	}
	return d
}

// Table holds every point with both metrics.
func (f Figure) Table() chart.Table {
	t := chart.Table{Head: []string{f.Name, f.X.Metric, "CI from", "CI to", f.Y.Metric, "CI from", "CI to",
		"Pareto front"}}
	for _, p := range f.Points {
		t.Rows = append(t.Rows, []string{p.Label, f.X.valueText(p.X.Median), f.X.valueText(p.X.Lo), f.X.valueText(p.X.Hi),
			f.Y.valueText(p.Y.Median), f.Y.valueText(p.Y.Lo), f.Y.valueText(p.Y.Hi), f.frontWord(p)})
	}
	return t
}

const (
	plotH  = 260.0
	headH  = 30.0
	keyH   = 20.0
	footH  = 42.0
	left   = 66.0
	margin = 16.0
	half   = 4.0 // of a mark
)

// Draw draws the figure.
func (f Figure) Draw(id string, width float64) string {
	c := chart.NewCanvas(id, width)
	points := lists.Filter(f.Points, Point.isKnown)
	slices.SortStableFunc(points, func(a, b Point) int { return cmp.Compare(*a.X.Median, *b.X.Median) })
	p := plot{Canvas: c, f: f, x0: left, x1: c.Width() - margin, top: keyH + headH, bottom: keyH + headH + plotH,
		x: axisOf(points, func(p Point) Estimate { return p.X }), y: axisOf(points, func(p Point) Estimate { return p.Y })}
	p.drawKey()
	p.drawAxes()
	p.drawFront(points)
	for _, o := range points {
		x, y := p.placeOf(o)
		p.taken = append(p.taken, box{x - half, y - half, x + half, y + half})
	}
	for _, o := range points {
		p.intervals(o) // below the marks of all points
	}
	for _, o := range points {
		p.drawPoint(o)
	}
	if n := len(f.Points) - len(points); n > 0 {
		c.Text(p.x0, p.bottom+33, chart.Start, "small", fmt.Sprintf("%d without values", n))
	}
	return c.SVG(p.bottom+footH, f.Title(), f.Desc())
}

// axisOf returns the axis of the medians and intervals of one metric.
func axisOf(points []Point, of func(Point) Estimate) chart.Axis {
	var values []float64
	for _, p := range points {
		e := of(p)
		for _, v := range []*float64{e.Median, e.Lo, e.Hi} {
			if chart.Known(v) {
				values = append(values, *v)
			}
		}
	}
	return chart.NewAxis(values, 0.08)
}

// plot is the canvas with its two axes.
type plot struct {
	*chart.Canvas
	f                   Figure
	x0, x1, top, bottom float64
	x, y                chart.Axis
	taken               []box // where marks and labels stand
}

type box struct{ x0, y0, x1, y1 float64 }

func (b box) touches(o box) bool { return b.x0 < o.x1 && o.x0 < b.x1 && b.y0 < o.y1 && o.y0 < b.y1 }

func (p *plot) xOf(v float64) float64 { return p.x0 + p.x.At(v)*(p.x1-p.x0) }
func (p *plot) yOf(v float64) float64 { return p.bottom - p.y.At(v)*(p.bottom-p.top) }

func (p *plot) placeOf(o Point) (x, y float64) { return p.xOf(*o.X.Median), p.yOf(*o.Y.Median) }

// drawKey says what the marks mean.
func (p *plot) drawKey() {
	p.drawMark(14, 10, true)
	p.Text(24, 14, chart.Start, "small", "on the Pareto front")
	x := 24 + chart.TextWidth("on the Pareto front") + 16
	p.drawMark(x, 10, false)
	p.Text(x+10, 14, chart.Start, "small", "beaten by another")
}

// drawAxes draws ticks, grid and names.
func (p *plot) drawAxes() {
	values, step := p.y.Ticks(6)
	labels, unitY := chart.Labels(values, step, p.f.Y.Unit)
	for i, v := range values {
		p.Line(p.x0, p.yOf(v), p.x1, p.yOf(v), "grid")
		p.Label(p.x0-8, p.yOf(v)+4, left-12, chart.End, "tick", labels[i])
	}
	values, step = p.x.Ticks(int((p.x1 - p.x0) / 50))
	labels, unitX := chart.Labels(values, step, p.f.X.Unit)
	for i, v := range values {
		p.Tick(p.xOf(v), p.bottom+15, p.top, p.bottom+4, labels[i])
	}
	p.Line(p.x0, p.bottom, p.x1, p.bottom, "axis")
	p.Line(p.x0, p.top, p.x0, p.bottom, "axis")
	p.Label(8, p.top-12, p.x1-8, chart.Start, "direction", "↑ "+p.f.Y.axisName(unitY))
	p.Label(p.x1, p.bottom+33, p.x1-8, chart.End, "direction", p.f.X.axisName(unitX)+" →")
}

// axisName is that of an axis: "wall, ms, lower is better".
func (s Side) axisName(unitName string) string {
	return s.Metric + ", " + chart.AxisText(unitName, s.betterText())
}

// drawFront connects the points of the front.
func (p *plot) drawFront(points []Point) {
	var path strings.Builder
	word := "M"
	for _, o := range points {
		if p.f.beaterOf(o) == nil {
			x, y := p.placeOf(o)
			fmt.Fprintf(&path, "%s%.1f %.1f", word, x, y)
			word = "L"
		}
	}
	if path.Len() > 0 {
		p.Path(path.String(), "curve")
	}
}

// intervals draws those of one value.
func (p *plot) intervals(o Point) {
	x, y := p.placeOf(o)
	if chart.Known(o.X.Lo) && chart.Known(o.X.Hi) {
		p.Whisker(p.xOf(*o.X.Lo), p.xOf(*o.X.Hi), y, false, false)
	}
	if chart.Known(o.Y.Lo) && chart.Known(o.Y.Hi) {
		for _, class := range []string{"halo", "whisker"} {
			p.Line(x, p.yOf(*o.Y.Lo), x, p.yOf(*o.Y.Hi), class)
			p.Line(x-4, p.yOf(*o.Y.Lo), x+4, p.yOf(*o.Y.Lo), class)
			p.Line(x-4, p.yOf(*o.Y.Hi), x+4, p.yOf(*o.Y.Hi), class)
		}
	}
}

// drawPoint draws the mark of one value and its label.
func (p *plot) drawPoint(o Point) {
	x, y := p.placeOf(o)
	p.Begin("row", o.Label+": "+p.f.describePoint(o))
	p.drawMark(x, y, p.f.beaterOf(o) == nil)
	p.drawLabel(o, x, y)
	p.End()
}

// drawMark draws a filled diamond for the front, a hollow square for the others.
func (p *plot) drawMark(x, y float64, front bool) {
	if !front {
		p.Rect(x-half, y-half, 2*half, 2*half, "beaten")
		return
	}
	const d = 1.4 * half
	p.Path(fmt.Sprintf("M%.1f %.1fL%.1f %.1fL%.1f %.1fL%.1f %.1fL%.1f %.1f",
		x-d, y, x, y-d, x+d, y, x, y+d, x-d, y), "front")
}

// drawLabel writes the name of a point where it touches no other one; it is left out where
// there is no such place.
func (p *plot) drawLabel(o Point, x, y float64) {
	text := chart.Ends(o.Label, 110)
	if o.Baseline {
		text += " (baseline)"
	}
	w := chart.TextWidth(text)
	for _, at := range []struct{ dx, dy float64 }{{10, -7}, {10, 16}, {-10 - w, -7}, {-10 - w, 16}, {-w / 2, -14},
		{-w / 2, 22}, {16, -20}, {16, 28}, {-16 - w, -20}, {-16 - w, 28}} {
		b := box{x + at.dx, y + at.dy - 10, x + at.dx + w, y + at.dy + 2}
		inside := b.x0 > p.x0 && b.x1 < p.Width() && b.y0 > p.top-8 && b.y1 < p.bottom
		if inside && !slices.ContainsFunc(p.taken, b.touches) {
			p.taken = append(p.taken, b)
			p.Text(b.x0, y+at.dy, chart.Start, "name", text)
			return
		}
	}
}
