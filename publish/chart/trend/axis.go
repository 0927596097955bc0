package trend

import (
	"math"
	"strings"

	"bakeoff/base/sample"
	"bakeoff/publish/chart"
	"bakeoff/publish/difference"
)

// Axis is the vertical axis of a figure, which the page and the terminal share.
type Axis struct {
	chart.Axis
	f Figure
}

// wide is the ratio of the largest to the smallest value from which on an axis is
// logarithmic.
const wide = 4

// NewAxis lays out the values of a figure. Intervals that are much wider than the
// values are cut.
func NewAxis(f Figure) Axis {
	lo, hi := math.Inf(1), math.Inf(-1)
	take := func(vs ...*float64) {
		for _, v := range vs {
			if chart.Known(v) && (f.Scale == sample.Difference || *v > 0) {
				lo, hi = min(lo, *v), max(hi, *v)
			}
		}
	}
	for _, p := range f.Points {
		take(p.Value)
	}
	for _, l := range f.Levels {
		take(l.Value)
	}
	span := hi - lo
	near := func(v *float64) {
		if chart.Known(v) && *v >= lo-span/3 && *v <= hi+span/3 {
			take(v)
		}
	}
	for _, p := range f.Points {
		near(p.Inner0)
		near(p.Inner1)
	}
	if f.Band != nil {
		take(&f.Band[0], &f.Band[1])
	}
	if none, ok := f.noDifference(); ok && f.Band == nil {
		take(&none)
	}
	if !(lo <= hi) {
		return Axis{chart.Between(0, 1, false, 0, 0), f}
	}
	return Axis{chart.Between(lo, hi, f.Scale != sample.Difference && hi/lo >= wide, 0.06, 0.01), f}
}

// Up is the place of a value: 0 is at the bottom, 1 at the top.
func (a Axis) Up(v float64) float64 { return a.At(v) }

// Ticks are about n labels with their places.
func (a Axis) Ticks(n int) (labels []string, up []float64) {
	values, step := a.Axis.Ticks(n)
	if a.f.drawsValues() {
		plain, name := chart.Labels(values, step, a.f.Unit)
		for i, v := range values {
			labels, up = append(labels, strings.TrimSpace(plain[i]+" "+name)), append(up, a.Up(v))
		}
		return labels, up
	}
	notation := difference.Notation{Factors: a.Log(), Plain: a.f.Scale == sample.Difference, Unit: a.f.Unit}
	for _, v := range values {
		labels, up = append(labels, notation.Tick(v)), append(up, a.Up(v))
	}
	return labels, up
}
