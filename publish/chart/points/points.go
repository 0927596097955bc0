// Package points draws every raw value of a metric, one line a contender,
// with the median and its interval over them.
package points

import (
	"fmt"
	"math"
	"slices"

	"bakeoff/base/lists"
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
		Name:  "points",
		Title: "Raw values",
		Read: "Each dot is one trial. Dots are spread up and down only so that they do not hide each other. The upright " +
			"line is the median, the box around it its confidence interval. Where contenders are far apart, a double " +
			"line breaks the axis into pieces, each with its own scale, so that the spread of each contender stays " +
			"visible. A box describes one contender. Verdicts come from the comparison within blocks, which is more " +
			"precise: overlapping boxes decide nothing.",
	}
}

// Title names the figure.
func (f Figure) Title() string { return f.Of + ": raw values" }

// Desc says the median of each row in words.
func (f Figure) Desc() string {
	return chart.Sentences(f.Rows, func(r Row) (string, string) {
		return r.Label, fmt.Sprintf(": median %s, interval %s to %s, %s",
			f.valueText(r.Median), f.valueText(r.Lo), f.valueText(r.Hi), r.countText())
	}) + f.Better + "."
}

func (f Figure) valueText(v *float64) string {
	if v == nil {
		return "unavailable"
	}
	return unit.Format(*v, f.Unit)
}

func (r Row) countText() string {
	if r.Failures > 0 {
		return fmt.Sprintf("n = %d, %d of %d failed", r.N, r.Failures, r.N+r.Failures)
	}
	return fmt.Sprintf("n = %d", r.N)
}

// Data holds medians, intervals, extremes and counts.
func (f Figure) Data() chart.Data {
	d := chart.Data{Columns: slices.Concat(chart.Texts("contender"),
		chart.Numbers(f.Unit, "median", "from", "to", "lowest", "highest"), chart.Numbers("", "trials", "failed"))}
	for _, r := range f.Rows {
		var lowest, highest *float64
		if vs := finiteValues(r.Values); len(vs) > 0 {
			lo, hi := slices.Min(vs), slices.Max(vs)
			lowest, highest = &lo, &hi
		}
		d.Rows = append(d.Rows, []chart.Cell{chart.Word(r.Label), chart.Num(r.Median), chart.Num(r.Lo), chart.Num(r.Hi),
			chart.Num(lowest), chart.Num(highest), chart.Count(r.N), chart.Count(r.Failures)})
	}
	return d
}

// Table holds medians, intervals, extremes and counts.
func (f Figure) Table() chart.Table {
	t := chart.Table{Head: []string{"contender", "median", "CI from", "CI to", "lowest", "highest", "trials", "failed"}}
	for _, r := range f.Rows {
		lowest, highest := "–", "–"
		if vs := finiteValues(r.Values); len(vs) > 0 {
			lowest, highest = unit.Format(slices.Min(vs), f.Unit), unit.Format(slices.Max(vs), f.Unit)
		}
		t.Rows = append(t.Rows, []string{r.Label, f.valueText(r.Median), f.valueText(r.Lo), f.valueText(r.Hi), lowest,
			highest,
			fmt.Sprint(r.N), fmt.Sprintf("%d of %d", r.Failures, r.N+r.Failures)})
	}
	return t
}

const (
	head   = 14.0
	step   = 38.0
	tall   = 52.0
	foot   = 38.0
	valueW = 154.0
	gapW   = 16.0
)

// Draw draws the figure.
func (f Figure) Draw(id string, width float64) string {
	c := chart.NewRows(id, width, 14, valueW, f.Rows, func(r Row) string { return r.Label })
	row, line := step, step/2 // height of a row, and its dots' place in it
	if c.Narrow {
		row, line = tall, 31
	}
	bottom := head + row*float64(len(f.Rows))
	panels := breakAxis(f.Rows, c.X0, c.X1)
	unitName := drawAxes(c, panels, f.Unit, bottom)
	c.Text(c.X0, bottom+31, chart.Start, "direction", axisText(panels, f.Unit, unitName, f.Better))
	for i, r := range f.Rows {
		y := head + row*float64(i)
		c.Begin("row", r.Label+": median "+f.valueText(r.Median)+", "+r.countText())
		if c.Narrow {
			c.Name(y, row, r.Label, f.valueText(r.Median)+", "+r.countText())
		} else {
			c.Name(y, row, r.Label, "")
			c.Text(c.X1+16, y+line-2, chart.Start, "value", f.valueText(r.Median))
			c.Text(c.X1+16, y+line+12, chart.Start, "small", r.countText())
		}
		for _, p := range panels {
			c.Line(p.x0, y+line, p.x1, y+line, "rule")
		}
		drawRow(c, panels, r, y+line)
		c.End()
	}
	return c.SVG(bottom+foot, f.Title(), f.Desc())
}

// drawRow draws the dots, then the interval and the median of one row.
func drawRow(c chart.Rows, panels []piece, r Row, y float64) {
	var xs, ys []float64
	for i, v := range r.Values {
		if p := pieceHolding(panels, v); p != nil {
			xs = append(xs, p.positionOf(v))
			ys = append(ys, y+dotOffset(i))
		}
	}
	c.Points(xs, ys, r.Baseline)
	if p := findAll(panels, r.Lo, r.Hi); p != nil {
		c.Rect(p.positionOf(*r.Lo), y-9, p.positionOf(*r.Hi)-p.positionOf(*r.Lo), 18, "interval")
	}
	if r.Median != nil {
		if p := pieceHolding(panels, *r.Median); p != nil {
			for _, class := range []string{"halo", "median"} {
				c.Line(p.positionOf(*r.Median), y-11, p.positionOf(*r.Median), y+11, class)
			}
		}
	}
}

// dotOffset moves the i-th dot off the line, the same way every time: the
// golden ratio's multiples fill a range evenly in any order.
func dotOffset(i int) float64 {
	_, f := math.Modf(float64(i) * 0.6180339887498949)
	return (f - 0.5) * 15
}

// drawAxes draws the ticks of every piece and the breaks between them. It
// returns the unit with its prefix where one holds for the whole axis.
func drawAxes(c chart.Rows, panels []piece, u string, bottom float64) string {
	name := commonUnit(panels, u)
	var all [][]tick
	for i, p := range panels {
		all = append(all, p.roundTicks(u, name == ""))
		c.Line(p.x0, bottom, p.x1, bottom, "axis")
		if i > 0 {
			x := p.x0 - gapW/2
			c.Line(x-2.5, head-6, x-2.5, bottom+4, "break")
			c.Line(x+2.5, head-6, x+2.5, bottom+4, "break")
		}
	}
	// The first tick of every piece comes before the others: without it a piece
	// has no number at all.
	for _, first := range []bool{true, false} {
		for _, ticks := range all {
			for i, t := range ticks {
				if first == (i == 0) {
					c.Tick(t.x, bottom+14, head-6, bottom, t.label)
				}
			}
		}
	}
	return name
}

// axisText names the unit, unless each piece has its own prefix.
func axisText(panels []piece, u, unitName, better string) string {
	if unitName == "" && u != "" && u != "1" && len(panels) > 1 {
		return better
	}
	return chart.AxisText(unitName, better)
}

// commonUnit is the unit with the prefix that all pieces have; "" where they are of
// different sizes.
func commonUnit(panels []piece, u string) (name string) {
	for i, p := range panels {
		if _, own := unit.Prefix(p.largestSize(), u); i == 0 || own == name {
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

func finiteValues(vs []float64) []float64 {
	return lists.Filter(vs, func(v float64) bool { return chart.Known(&v) })
}
