package trend

import (
	"math"

	"bakeoff/base/sample"
	"bakeoff/publish/chart"
	"bakeoff/publish/difference"
)

// Axis is the vertical axis of a figure, which the page and the terminal share.
type Axis struct {
	f      Figure
	lo, hi float64
	log    bool
}

// wide is the ratio of the largest to the smallest value from which on an axis is
// logarithmic.
const wide = 4

// NewAxis lays out the values of a figure. Intervals that are much wider than the
// values are cut.
func NewAxis(f Figure) Axis {
	a := Axis{f: f, lo: math.Inf(1), hi: math.Inf(-1)}
	take := func(vs ...*float64) {
		for _, v := range vs {
			if chart.Known(v) && (f.Scale == sample.Difference || *v > 0) {
				a.lo, a.hi = min(a.lo, *v), max(a.hi, *v)
			}
		}
	}
	for _, p := range f.Points {
		take(p.Value)
	}
	for _, l := range f.Levels {
		take(l.Value)
	}
	span := a.hi - a.lo
	near := func(v *float64) {
		if chart.Known(v) && *v >= a.lo-span/3 && *v <= a.hi+span/3 {
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
	if !(a.lo <= a.hi) {
		a.lo, a.hi = 0, 1
		return a
	}
	if a.log = f.Scale != sample.Difference && a.hi/a.lo >= wide; a.log {
		a.lo, a.hi = math.Log(a.lo), math.Log(a.hi)
	}
	pad := 0.06 * (a.hi - a.lo)
	if pad == 0 {
		pad = max(0.01*math.Abs(a.hi), 1e-300)
	}
	a.lo, a.hi = a.lo-pad, a.hi+pad
	return a
}

// Up is the place of a value: 0 is at the bottom, 1 at the top.
func (a Axis) Up(v float64) float64 {
	if a.log {
		v = math.Log(v)
	}
	share := (v - a.lo) / (a.hi - a.lo)
	if math.IsNaN(share) {
		return 0.5
	}
	return min(max(share, 0), 1)
}

// Has reports whether a value is on the axis.
func (a Axis) Has(v float64) bool {
	if a.log {
		v = math.Log(v)
	}
	return v >= a.lo && v <= a.hi
}

// Ticks are about n labels with their places.
func (a Axis) Ticks(n int) (labels []string, up []float64) {
	values, step := chart.Ticks(a.lo, a.hi, n)
	if a.log {
		values, step = decades(math.Exp(a.lo), math.Exp(a.hi))
	}
	if a.f.drawsValues() {
		plain, name := chart.Labels(values, step, a.f.Unit)
		for i, v := range values {
			labels, up = append(labels, plain[i]+" "+name), append(up, a.Up(v))
		}
		return labels, up
	}
	notation := difference.Notation{Factors: a.log, Plain: a.f.Scale == sample.Difference, Unit: a.f.Unit}
	for _, v := range values {
		labels, up = append(labels, notation.Tick(v)), append(up, a.Up(v))
	}
	return labels, up
}

// decades are 1, 2 and 5 times powers of ten.
func decades(lo, hi float64) (values []float64, step float64) {
	for d := math.Floor(math.Log10(lo)); d <= math.Ceil(math.Log10(hi)) && len(values) < 60; d++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow(10, d); v >= lo && v <= hi {
				values = append(values, v)
			}
		}
	}
	if len(values) == 0 {
		values = []float64{lo}
	}
	return values, values[0]
}
