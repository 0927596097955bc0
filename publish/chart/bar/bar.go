// Package bar draws amounts as bars from zero, with whiskers.
package bar

import (
	"math"

	"bakeoff/base/unit"
	"bakeoff/publish/chart"
	"bakeoff/publish/difference"
)

// Row is one contender. Value, Lo and Hi are nil where they are not known.
type Row struct {
	Label         string
	Baseline      bool
	Value, Lo, Hi *float64
}

// Figure is one metric of one cell.
type Figure struct {
	Of     string
	Unit   string
	Better string // "lower is better"
	Rows   []Row
}

// Doc describes the kind.
func (Figure) Doc() chart.Doc {
	return chart.Doc{
		Name:  "bar",
		Title: "Amounts",
		Read: "Each bar starts at zero and ends at the median, so bar lengths can be compared. The whisker is the " +
			"confidence interval of the median. A contender without a value has no bar.",
	}
}

// Title names the figure.
func (f Figure) Title() string { return f.Of }

// Desc says every row in words.
func (f Figure) Desc() string {
	return chart.Sentences(f.Rows, func(r Row) (string, string) { return r.Label, ": " + f.valueText(r) }) + f.Better + "."
}

func (f Figure) valueText(r Row) string {
	if r.Value == nil {
		return unavailable
	}
	return unit.Format(*r.Value, f.Unit)
}

// unavailable stands where a value is not known.
const unavailable = difference.Unavailable

// Data holds the rows.
func (f Figure) Data() chart.Data {
	d := chart.Data{Columns: append(chart.Texts("contender"), chart.Numbers(f.Unit, "median", "from", "to")...)}
	for _, r := range f.Rows {
		d.Rows = append(d.Rows, []chart.Cell{chart.Word(r.Label), chart.Num(r.Value), chart.Num(r.Lo), chart.Num(r.Hi)})
	}
	return d
}

// Table holds the rows.
func (f Figure) Table() chart.Table {
	t := chart.Table{Head: []string{"contender", "median", "CI from", "CI to"}}
	for _, r := range f.Rows {
		row := []string{r.Label, f.valueText(r), unavailable, unavailable}
		for i, v := range []*float64{r.Lo, r.Hi} {
			if v != nil {
				row[2+i] = unit.Format(*v, f.Unit)
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

const (
	head   = 8.0
	step   = 26.0
	tall   = 40.0
	foot   = 32.0
	barH   = 12.0
	valueW = 140.0
)

// Draw draws the figure.
func (f Figure) Draw(id string, width float64) string {
	c := chart.NewRows(id, width, 12, valueW, f.Rows, func(r Row) string { return r.Label })
	row, line := step, step/2 // height of a row, and its bar's place in it
	if c.Narrow {
		row, line = tall, 25
	}
	lo, hi := f.axisEnds()
	at := func(v float64) float64 { return c.X0 + (min(max(v, lo), hi)-lo)/(hi-lo)*(c.X1-c.X0) }
	bottom := head + row*float64(len(f.Rows))
	f.drawAxis(c, at, lo, hi, bottom)
	for i, r := range f.Rows {
		y := head + row*float64(i)
		c.Begin("row", r.Label+": "+f.valueText(r))
		c.Name(y, row, r.Label, f.valueText(r))
		if chart.Known(r.Value) {
			m := chart.Plain
			if r.Baseline {
				m = chart.Baseline
			}
			c.Bar(at(0), y+line-barH/2, at(*r.Value)-at(0), barH, m)
			if chart.Known(r.Lo) && chart.Known(r.Hi) {
				c.Whisker(at(*r.Lo), at(*r.Hi), y+line, false, false)
			}
		}
		c.End()
	}
	return c.SVG(bottom+foot, f.Title(), f.Desc())
}

func (f Figure) drawAxis(c chart.Rows, at func(float64) float64, lo, hi, bottom float64) {
	values, step := chart.Ticks(lo, hi, max(int((at(hi)-at(lo))/90), 1))
	labels, name := chart.Labels(values, step, f.Unit)
	for i, v := range values {
		c.Tick(at(v), bottom+13, head-4, bottom, labels[i])
	}
	c.Line(at(0), head-4, at(0), bottom+2, "zero")
	c.Text(at(lo), bottom+28, chart.Start, "direction", chart.AxisText(name, f.Better))
}

// axisEnds returns an axis that has zero and every value in it.
func (f Figure) axisEnds() (lo, hi float64) {
	for _, r := range f.Rows {
		for _, v := range []*float64{r.Value, r.Lo, r.Hi} {
			if chart.Known(v) {
				lo, hi = min(lo, *v), max(hi, *v)
			}
		}
	}
	if !(hi-lo > 0) || math.IsInf(hi-lo, 0) {
		return 0, 1
	}
	return lo, hi
}
