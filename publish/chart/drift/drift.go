// Package drift draws values in the order in which they were measured, so
// that trends, jumps and outliers of a machine can be seen.
package drift

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"bakeoff/base/unit"
	"bakeoff/publish/chart"
)

// Value is one trial.
type Value struct {
	Block, Position int
	Value           float64
}

// Row is one contender.
type Row struct {
	Label    string
	Baseline bool
	Median   *float64
	Values   []Value
}

// Figure is one metric of one cell. Every contender has a panel of its own,
// with deviations from its own median in percent.
type Figure struct {
	Of   string
	Rows []Row
}

// Doc describes the kind.
func (Figure) Doc() chart.Doc {
	return chart.Doc{
		Name:  "drift",
		Title: "In the order of measurement",
		Read: "Time runs from left to right, and a line marks the start of each block. Each contender has a panel with its " +
			"own scale, written next to it: the difference of each value from the contender's median. A slope or jump that " +
			"all panels share comes from the machine, and the design cancels it. A slope or jump in only one panel comes from " +
			"that contender.",
	}
}

// Title names the figure.
func (f Figure) Title() string { return f.Of + ": in the order of measurement" }

// Desc says how far each contender strays from its median.
func (f Figure) Desc() string {
	return chart.Sentences(f.Rows, func(r Row) (string, string) {
		switch reach, ok := r.largestDeviation(); {
		case ok && len(r.Values) == 1:
			return r.Label, " has one value"
		case ok:
			return r.Label, " stays within " + percent(reach) + " of its median"
		}
		return r.Label, " has no values"
	}) + "From left to right: the blocks in their order."
}

// deviation is how far v is from the median, as a share of it.
func (r Row) deviation(v float64) (float64, bool) {
	if r.Median == nil || *r.Median == 0 {
		return 0, false
	}
	d := (v - *r.Median) / math.Abs(*r.Median)
	return d, !math.IsNaN(d) && !math.IsInf(d, 0)
}

// largestDeviation is the largest deviation.
func (r Row) largestDeviation() (float64, bool) {
	most, some := 0.0, false
	for _, v := range r.Values {
		if d, ok := r.deviation(v.Value); ok {
			most, some = max(most, math.Abs(d)), true
		}
	}
	return most, some
}

func percent(share float64) string {
	switch {
	case share >= 0.1:
		return fmt.Sprintf("±%.0f %%", 100*share)
	case share >= 0.001:
		return fmt.Sprintf("±%.1f %%", 100*share)
	}
	return fmt.Sprintf("±%.2g %%", 100*share)
}

// tableRows bounds the table; the rest is in the results.
const tableRows = 120

// Data has a row for each value, as a deviation from the median of its contender.
func (f Figure) Data() chart.Data {
	d := chart.Data{Columns: slices.Concat(chart.Numbers("", "block", "position"), chart.Texts("contender"),
		chart.Numbers("%", "deviation from the median"))}
	for _, r := range f.Rows {
		for _, v := range r.sortedValues() {
			row := []chart.Cell{chart.Count(v.Block), chart.Count(v.Position), chart.Word(r.Label), chart.Num(nil)}
			if share, ok := r.deviation(v.Value); ok {
				share *= 100
				row[3] = chart.Num(&share)
			}
			d.Rows = append(d.Rows, row)
		}
	}
	return d
}

// Table has a row a block: the values of each contender, as deviations.
func (f Figure) Table() chart.Table {
	t := chart.Table{Head: []string{"block"}}
	cells := map[int]map[int][]string{}
	var blocks []int
	for i, r := range f.Rows {
		t.Head = append(t.Head, r.Label)
		for _, v := range r.sortedValues() {
			if cells[v.Block] == nil {
				cells[v.Block] = map[int][]string{}
				blocks = append(blocks, v.Block)
			}
			text := "–"
			if d, ok := r.deviation(v.Value); ok {
				text = unit.Signed(100*d, 2) + " %"
			}
			cells[v.Block][i] = append(cells[v.Block][i], text)
		}
	}
	slices.Sort(blocks)
	for n, b := range blocks {
		if n == tableRows {
			t.Note = fmt.Sprintf("The first %d of %d blocks. results.json has all of them.", tableRows, len(blocks))
			break
		}
		row := []string{fmt.Sprint(b)}
		for i := range f.Rows {
			texts := cells[b][i]
			if len(texts) > 8 {
				texts = append(texts[:8:8], fmt.Sprintf("and %d more", len(texts)-8))
			}
			row = append(row, strings.Join(texts, "; "))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (r Row) sortedValues() []Value {
	return slices.SortedStableFunc(slices.Values(r.Values), func(a, b Value) int {
		if a.Block != b.Block {
			return a.Block - b.Block
		}
		return a.Position - b.Position
	})
}

const (
	head  = 8.0
	panel = 25.0
	gap   = 6.0
	foot  = 20.0
)

// Draw draws the figure.
func (f Figure) Draw(id string, width float64) string {
	c := chart.NewRows(id, width, 8, 78, f.Rows, func(r Row) string { return r.Label })
	row, top := panel+gap, 0.0 // height of a row, and its panel's place in it
	if c.Narrow {
		row, top = panel+gap+18, 18
	}
	place, starts := f.placeBlocks(c.X0, c.X1)
	for i, r := range f.Rows {
		y := head + row*float64(i)
		reach, ok := r.largestDeviation()
		text := "no values"
		switch {
		case ok && len(r.Values) == 1:
			text = "one value"
		case ok:
			text = percent(reach)
		}
		c.Begin("row", r.Label+": "+text)
		c.Name(y, panel, r.Label, text)
		c.Rect(c.X0, y+top, c.X1-c.X0, panel, "panel")
		var lines strings.Builder
		for _, x := range starts {
			fmt.Fprintf(&lines, "M%.1f %.1fv%.0f", x, y+top, panel)
		}
		if lines.Len() > 0 {
			c.Path(lines.String(), "grid")
		}
		c.Line(c.X0, y+top+panel/2, c.X1, y+top+panel/2, "rule")
		drawDots(c, r, reach, place, y+top+panel/2)
		c.End()
	}
	bottom := head + row*float64(len(f.Rows))
	c.Text(c.X0, bottom+12, chart.Start, "direction", extentLabel(len(starts)))
	return c.SVG(bottom+foot, f.Title(), f.Desc())
}

// extentLabel labels the axis of time.
func extentLabel(blocks int) string {
	if blocks == 1 {
		return "one block, in order →"
	}
	return fmt.Sprintf("%d blocks, in order →", blocks)
}

func drawDots(c chart.Rows, r Row, reach float64, place func(Value) float64, y float64) {
	var xs, ys []float64
	for _, v := range r.Values {
		d, ok := r.deviation(v.Value)
		if !ok {
			continue
		}
		off := 0.0
		if reach > 0 {
			off = d / reach * (panel/2 - 3)
		}
		xs, ys = append(xs, place(v)), append(ys, y-off)
	}
	c.Points(xs, ys, r.Baseline)
}

// placeBlocks gives every block the same width, and positions their place in it.
// It returns where blocks start.
func (f Figure) placeBlocks(x0, x1 float64) (place func(Value) float64, starts []float64) {
	index, lo, hi := map[int]int{}, math.MaxInt, math.MinInt
	var blocks []int
	for _, r := range f.Rows {
		for _, v := range r.Values {
			if _, ok := index[v.Block]; !ok {
				index[v.Block] = 0
				blocks = append(blocks, v.Block)
			}
			lo, hi = min(lo, v.Position), max(hi, v.Position)
		}
	}
	slices.Sort(blocks)
	w := (x1 - x0) / float64(max(len(blocks), 1))
	for i, b := range blocks {
		index[b] = i
		starts = append(starts, x0+w*float64(i))
	}
	span := float64(hi) - float64(lo) + 1
	return func(v Value) float64 {
		return x0 + w*(float64(index[v.Block])+(float64(v.Position)-float64(lo)+0.5)/span)
	}, starts
}
