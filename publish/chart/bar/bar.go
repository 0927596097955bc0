// Package bar draws amounts as bars from zero, with whiskers.
package bar

import (
	"fmt"
	"math"
	"strings"

	"bakeoff/base/unit"
	"bakeoff/publish/chart"
)

// Row is one contender. Value, Lo and Hi are nil where they are not known.
type Row struct {
	Label         string
	Baseline      bool
	Value, Lo, Hi *float64
	Note          string // said instead of a value that is not known
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
		Name:    "bar",
		Summary: "amounts as bars from zero, with their intervals",
		Read: "Bars start at zero, so their lengths can be compared; the whisker is the interval of the median. " +
			"What is not known has no bar and says so.",
	}
}

// Title names the figure.
func (f Figure) Title() string { return f.Of }

// Desc says every row in words.
func (f Figure) Desc() string {
	var b strings.Builder
	for _, r := range f.Rows {
		fmt.Fprintf(&b, "%s: %s. ", chart.Fit(r.Label, 400), f.value(r))
	}
	b.WriteString(f.Better + ".")
	return b.String()
}

func (f Figure) value(r Row) string {
	if r.Value == nil {
		if r.Note != "" {
			return r.Note
		}
		return "unavailable"
	}
	return unit.Format(*r.Value, f.Unit)
}

// Table holds the rows.
func (f Figure) Table() chart.Table {
	t := chart.Table{Head: []string{"contender", "median", "from", "to"}}
	for _, r := range f.Rows {
		row := []string{r.Label, f.value(r), "–", "–"}
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
	valueW = 124.0
)

// Draw draws the figure.
func (f Figure) Draw(id string, width float64) string {
	c := chart.NewCanvas(id, width)
	narrow := c.Width() < 560
	x0, x1, row := 8.0, c.Width()-16, tall
	if !narrow {
		gutter := 60.0
		for _, r := range f.Rows {
			gutter = max(gutter, chart.TextWidth(chart.Fit(r.Label, 180)))
		}
		x0, x1, row = gutter+22, c.Width()-valueW-16, step
	}
	lo, hi := f.ends()
	at := func(v float64) float64 { return x0 + (min(max(v, lo), hi)-lo)/(hi-lo)*(x1-x0) }
	bottom := head + row*float64(len(f.Rows))
	f.axis(c, at, lo, hi, bottom)
	for i, r := range f.Rows {
		y := head + row*float64(i)
		c.Begin("row", r.Label+": "+f.value(r))
		middle := y + row/2
		if narrow {
			c.Label(2, y+12, c.Width()*0.5, chart.Start, "label", r.Label)
			c.Label(c.Width()-2, y+12, c.Width()*0.48, chart.End, "value", f.value(r))
			middle = y + 25
		} else {
			c.Label(4, middle+4, x0-16, chart.Start, "label", r.Label)
			c.Label(x1+14, middle+4, valueW, chart.Start, "value", f.value(r))
		}
		if finite(r.Value) {
			m := chart.Plain
			if r.Baseline {
				m = chart.Baseline
			}
			c.Bar(at(0), middle-barH/2, at(*r.Value)-at(0), barH, m)
			whisker(c, at, r, middle)
		}
		c.End()
	}
	return c.SVG(bottom+foot, f.Title(), f.Desc())
}

func whisker(c *chart.Canvas, at func(float64) float64, r Row, y float64) {
	if !finite(r.Lo) || !finite(r.Hi) {
		return
	}
	for _, class := range []string{"halo", "whisker"} {
		c.Line(at(*r.Lo), y, at(*r.Hi), y, class)
		c.Line(at(*r.Lo), y-4, at(*r.Lo), y+4, class)
		c.Line(at(*r.Hi), y-4, at(*r.Hi), y+4, class)
	}
}

func (f Figure) axis(c *chart.Canvas, at func(float64) float64, lo, hi, bottom float64) {
	values, step := chart.Ticks(lo, hi, max(int((at(hi)-at(lo))/90), 1))
	labels, name := chart.Labels(values, step, f.Unit)
	for i, v := range values {
		half := chart.TextWidth(labels[i]) / 2
		if at(v)-half < 0 || at(v)+half > c.Width() {
			continue
		}
		c.Line(at(v), head-4, at(v), bottom, "grid")
		c.Text(at(v), bottom+13, chart.Middle, "tick", labels[i])
	}
	c.Line(at(0), head-4, at(0), bottom+2, "zero")
	c.Text(at(lo), bottom+28, chart.Start, "direction", strings.TrimPrefix(name+", ", ", ")+f.Better)
}

// ends returns an axis that has zero and every value in it.
func (f Figure) ends() (lo, hi float64) {
	for _, r := range f.Rows {
		for _, v := range []*float64{r.Value, r.Lo, r.Hi} {
			if finite(v) {
				lo, hi = min(lo, *v), max(hi, *v)
			}
		}
	}
	if !(hi-lo > 0) || math.IsInf(hi-lo, 0) {
		return 0, 1
	}
	return lo, hi
}

func finite(v *float64) bool { return v != nil && !math.IsNaN(*v) && !math.IsInf(*v, 0) }
