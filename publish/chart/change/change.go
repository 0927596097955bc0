// Package change draws differences in time, one row for each, around a line at zero: the
// estimate as a bar, its interval as a whisker.
package change

import (
	"math"

	"bakeoff/publish/chart"
)

// Row is a difference.
type Row struct {
	Label string
	// Diff is the difference in the unit of the figure. Lo and Hi are its interval; they
	// are infinite if it is unknown.
	Diff, Lo, Hi float64
	// Exact tells that the difference needs no interval.
	Exact bool
	Mark  chart.Mark
}

// Figure is the differences of a comparison.
type Figure struct {
	Of   string
	Rows []Row
	Unit string // s or tick
	// Write writes a duration in the unit.
	Write func(float64) string
}

// Doc describes the kind.
func (Figure) Doc() chart.Doc {
	return chart.Doc{
		Name:  "change",
		Title: "Differences in time",
		Read: "Each bar is the difference of the second side from the first: to the right it takes longer. The whisker " +
			"spans the 95 % interval. A row without a whisker is exact, or has too few boots for an interval; its text " +
			"says which.",
	}
}

// Title names the figure.
func (f Figure) Title() string { return f.Of + ": differences" }

// Desc says every difference in words.
func (f Figure) Desc() string {
	if len(f.Rows) == 0 {
		return "Nothing differs."
	}
	return chart.Sentences(f.Rows, func(r Row) (string, string) { return r.Label, " " + f.Value(r) })
}

// Value writes a difference with its interval.
func (f Figure) Value(r Row) string {
	text := f.signed(r.Diff)
	switch {
	case math.IsInf(r.Lo, 0) || math.IsInf(r.Hi, 0) || math.IsNaN(r.Lo) || math.IsNaN(r.Hi):
		return text + ", too few boots for an interval"
	case r.Exact:
		return text + ", exact"
	}
	return text + " (" + f.signed(r.Lo) + " to " + f.signed(r.Hi) + ")"
}

func (f Figure) signed(v float64) string {
	switch {
	case v > 0:
		return "+" + f.Write(v)
	case v < 0:
		return "−" + f.Write(-v)
	}
	return f.Write(0)
}

// Table holds every difference.
func (f Figure) Table() chart.Table {
	t := chart.Table{Head: []string{"span", "difference and interval"}}
	for _, r := range f.Rows {
		t.Rows = append(t.Rows, []string{r.Label, f.Value(r)})
	}
	return t
}

const (
	head   = 24.0
	step   = 26.0
	tall   = 42.0
	barH   = 11.0
	valueW = 260.0
)

// Draw draws the figure.
func (f Figure) Draw(id string, width float64) string {
	c := chart.NewRows(id, width, 10, valueW, f.Rows, func(r Row) string { return r.Label })
	row, line := step, step/2
	if c.Narrow {
		row, line = tall, 27
	}
	bottom := head + row*float64(len(f.Rows)) + 6
	lo, hi := f.ends()
	at := func(v float64) float64 { return c.X0 + min(max((v-lo)/(hi-lo), 0), 1)*(c.X1-c.X0) }
	values, size := chart.Ticks(lo, hi, int((c.X1-c.X0)/100))
	labels, name := chart.Labels(values, size, f.Unit)
	for i, v := range values {
		c.Tick(at(v), 14, head-4, bottom, labels[i]+" "+name)
	}
	c.Line(at(0), head-4, at(0), bottom, "zero")
	for i, r := range f.Rows {
		y := head + row*float64(i) + 2
		c.Begin("row", r.Label+": "+f.Value(r))
		c.Name(y, row, r.Label, f.Value(r))
		c.Bar(at(0), y+line-barH/2, at(r.Diff)-at(0), barH, r.Mark)
		if known(r.Lo) && known(r.Hi) && r.Lo < r.Hi {
			c.Whisker(at(r.Lo), at(r.Hi), y+line, r.Lo < lo, r.Hi > hi)
		}
		c.End()
	}
	return c.SVG(bottom+4, f.Title(), f.Desc())
}

func known(v float64) bool { return !math.IsInf(v, 0) && !math.IsNaN(v) }

// ends are the ends of the axis: all differences, and their intervals up to twice the
// largest difference.
func (f Figure) ends() (lo, hi float64) {
	most := 0.0
	for _, r := range f.Rows {
		if known(r.Diff) {
			most = max(most, math.Abs(r.Diff))
		}
	}
	for _, r := range f.Rows {
		for _, v := range []float64{r.Diff, r.Lo, r.Hi} {
			if known(v) {
				lo, hi = min(lo, max(v, -2*most)), max(hi, min(v, 2*most))
			}
		}
	}
	if !(hi > lo) {
		lo, hi = -1, 1
	}
	return lo, hi
}
