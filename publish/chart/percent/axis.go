package percent

import (
	"math"

	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/publish/chart"
	"bakeoff/publish/difference"
)

// Axis places ratios (or differences) from left to right. Figures that are
// to be compared by eye share one.
type Axis struct {
	// Difference tells that values are differences in Unit, not ratios.
	Difference bool
	Unit       string
	// Margin is that of the verdicts: 0.02 for 2 %. It has a band on axes of
	// ratios.
	Margin float64
	// Stretched tells that steps are even up to about Margin and multiply
	// beyond: asinh of log ratio over margin. One comparison at −95 % would
	// otherwise press all those at ±1 % into one line.
	Stretched bool
	// Lo and Hi are the ends, as log ratios or differences, Lo < 0 < Hi.
	Lo, Hi float64
}

// tooFar is the log ratio, in margins, beyond which an axis is stretched.
const tooFar = 12

// NewAxis returns an axis on which every value and bound of rows has its
// place: nothing is cropped.
func NewAxis(margin float64, rows ...Row) Axis {
	if !(margin > 0) || margin > 10 {
		margin = analysis.DefaultMargin
	}
	a := Axis{Margin: margin}
	m := float64(analysis.RatioRegion(margin))
	a.Lo, a.Hi = -2.2*m, 2.2*m
	for _, r := range rows {
		for _, v := range []*float64{r.Value, r.Lo, r.Hi} {
			if isPlaceable(v, false) {
				a.Lo, a.Hi = min(a.Lo, math.Log(*v)), max(a.Hi, math.Log(*v))
			}
		}
	}
	for _, r := range rows {
		// An arrow is given room to be seen beyond the bound that there is.
		if r.Hi == nil && isPlaceable(r.Lo, false) {
			a.Hi = max(a.Hi, math.Log(*r.Lo)+max(0.15*(a.Hi-a.Lo), m))
		}
		if r.Lo == nil && isPlaceable(r.Hi, false) {
			a.Lo = min(a.Lo, math.Log(*r.Hi)-max(0.15*(a.Hi-a.Lo), m))
		}
	}
	a.Stretched = max(-a.Lo, a.Hi) > tooFar*m
	return a
}

// NewDifferenceAxis is NewAxis for metrics that are compared by difference,
// in the given unit.
func NewDifferenceAxis(unit string, rows ...Row) Axis {
	a := Axis{Difference: true, Unit: unit}
	for _, r := range rows {
		for _, v := range []*float64{r.Value, r.Lo, r.Hi} {
			if isPlaceable(v, true) {
				a.Lo, a.Hi = min(a.Lo, *v), max(a.Hi, *v)
			}
		}
	}
	if reach := max(-a.Lo, a.Hi) / 5; reach > 0 {
		a.Lo, a.Hi = min(a.Lo, -reach), max(a.Hi, reach)
	} else {
		a.Lo, a.Hi = -1, 1
	}
	return a
}

// noDifference is the value at which contender and baseline are the same.
func (a Axis) noDifference() float64 {
	if a.Difference {
		return 0
	}
	return 1
}

// Band returns the values between which lies equivalence.
func (a Axis) Band() (lo, hi float64, ok bool) {
	if a.Difference || !(a.Margin > 0) {
		return 0, 0, false
	}
	lo, hi = analysis.RatioRegion(a.Margin).Ratios()
	return lo, hi, true
}

// Position returns where v stands, 0 to 1. Values that cannot be placed
// stand at the end that they are beyond.
func (a Axis) Position(v float64) float64 {
	lo, hi := a.warpPosition(a.Lo), a.warpPosition(a.Hi)
	x := v
	if !a.Difference {
		if !(v > 0) {
			return 0
		}
		x = math.Log(v)
	}
	if !(hi > lo) {
		return 0.5
	}
	return min(max((a.warpPosition(x)-lo)/(hi-lo), 0), 1)
}

func (a Axis) warpPosition(x float64) float64 {
	if a.Stretched && a.Margin > 0 {
		return math.Asinh(x / float64(analysis.RatioRegion(a.Margin)))
	}
	return x
}

// tickCandidates returns candidate values, the most important first.
func (a Axis) tickCandidates() []float64 {
	if a.Difference {
		v, _ := chart.Ticks(a.Lo, a.Hi, 5)
		return append([]float64{0}, v...)
	}
	out := []float64{1, 1 + a.Margin, 1 - a.Margin}
	if !a.Stretched {
		v, _ := chart.Ticks(100*math.Expm1(a.Lo), 100*math.Expm1(a.Hi), 8)
		for _, p := range v {
			out = append(out, 1+p/100)
		}
		return a.insideAxis(out)
	}
	out = append(out, 0.5, 2, 0.9, 1.1)
	for r := 10.0; r <= 1e6; r *= 10 {
		out = append(out, 1/r, r, 2/r, 5*r/10, 0.5/r, 2*r)
	}
	out = append(out, 0.95, 1.05, 0.8, 1.2, 0.7, 1.3)
	return a.insideAxis(out)
}

func (a Axis) insideAxis(vs []float64) []float64 {
	return lists.Filter(vs, func(v float64) bool { return v > 0 && math.Log(v) >= a.Lo-1e-9 && math.Log(v) <= a.Hi+1e-9 })
}

// tickLabel labels a value on the axis: all ticks of an axis have one notation.
func (a Axis) tickLabel(v float64) string {
	scale, lo, hi := sample.Ratio, math.Exp(a.Lo), math.Exp(a.Hi)
	if a.Difference {
		scale = sample.Difference
	}
	return difference.Of(scale, a.Unit, &lo, &hi).Tick(v)
}
