// Package change draws differences in time, one row for each, around a line at zero: the
// estimate as a bar, its interval as a whisker.
package change

import (
	"math"

	"bakeoff/base/sample"
	"bakeoff/publish/chart"
)

// Row is a difference.
type Row struct {
	Label string
	// Diff is the difference in the unit of the figure. Lo and Hi are its interval; they
	// are infinite if it is unknown.
	Diff, Lo, Hi float64
	// Exact tells that the difference needs no interval, Agree that there is none although
	// there were several boots, because all of them gave the same difference.
	Exact, Agree bool
	Mark         chart.Mark
}

// Figure is the differences of a comparison.
type Figure struct {
	Of   string
	Rows []Row
	Unit string // s, tick or instruction
	// Write writes a duration in the unit.
	Write func(float64) string
}

// Doc describes the kind.
func (Figure) Doc() chart.Doc {
	return chart.Doc{
		Name:  "change",
		Title: "Differences in time",
		Read: "Each bar is the difference of the second side from the first. A bar to the right means that the second side " +
			"takes longer. The whisker spans the 95 % interval. A row without a whisker is exact, has too few boots for an " +
			"interval, or has the same value in all boots; its text says which.",
	}
}

// Title names the figure.
func (f Figure) Title() string { return f.Of + ": differences" + chart.InUnit(f.Unit) }

// Desc says every difference in words.
func (f Figure) Desc() string {
	if len(f.Rows) == 0 {
		return "Nothing differs."
	}
	return chart.Sentences(f.Rows, func(r Row) (string, string) { return r.Label, " " + f.Value(r) })
}

// Value writes a difference with its interval.
func (f Figure) Value(r Row) string {
	text := f.signedText(r.Diff)
	switch {
	case r.Agree:
		return text + ", the same in all boots: no interval"
	case math.IsInf(r.Lo, 0) || math.IsInf(r.Hi, 0) || math.IsNaN(r.Lo) || math.IsNaN(r.Hi):
		return text + ", too few boots for an interval"
	case r.Exact:
		return text + ", exact"
	}
	return text + " (" + f.signedText(r.Lo) + " to " + f.signedText(r.Hi) + ")"
}

func (f Figure) signedText(v float64) string {
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

const valueRoom = 260.0

// Draw draws the figure.
func (f Figure) Draw(id string, width float64) string {
	lo, hi := f.axisEnds()
	c := chart.NewLinear(id, width, valueRoom, f.Rows, func(r Row) string { return r.Label }, lo, hi)
	c.Axis(f.Unit, 100)
	c.Upright(0, "zero")
	for i, r := range f.Rows {
		c.Row(i, r.Label, f.Value(r), func(y float64) {
			c.Span(0, r.Diff, y, r.Mark)
			if sample.IsFinite(r.Lo) && sample.IsFinite(r.Hi) && r.Lo < r.Hi {
				c.Whisker(c.At(r.Lo), c.At(r.Hi), y, r.Lo < lo, r.Hi > hi)
			}
		})
	}
	return c.SVG(c.Bottom+4, f.Title(), f.Desc())
}

// axisEnds are the ends of the axis: all differences, and their intervals up to twice the
// largest difference.
func (f Figure) axisEnds() (lo, hi float64) {
	most := 0.0
	for _, r := range f.Rows {
		if sample.IsFinite(r.Diff) {
			most = max(most, math.Abs(r.Diff))
		}
	}
	for _, r := range f.Rows {
		for _, v := range []float64{r.Diff, r.Lo, r.Hi} {
			if sample.IsFinite(v) {
				lo, hi = min(lo, max(v, -2*most)), max(hi, min(v, 2*most))
			}
		}
	}
	if !(hi > lo) {
		lo, hi = -1, 1
	}
	return lo, hi
}
