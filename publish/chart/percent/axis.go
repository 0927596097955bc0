package percent

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/publish/chart"
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
			if finite(v, false) {
				a.Lo, a.Hi = min(a.Lo, math.Log(*v)), max(a.Hi, math.Log(*v))
			}
		}
	}
	for _, r := range rows {
		// An arrow is given room to be seen beyond the bound that there is.
		if r.Hi == nil && finite(r.Lo, false) {
			a.Hi = max(a.Hi, math.Log(*r.Lo)+max(0.15*(a.Hi-a.Lo), m))
		}
		if r.Lo == nil && finite(r.Hi, false) {
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
			if finite(v, true) {
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

// zero is the value at which contender and baseline are the same.
func (a Axis) zero() float64 {
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
	lo, hi := a.warp(a.Lo), a.warp(a.Hi)
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
	return min(max((a.warp(x)-lo)/(hi-lo), 0), 1)
}

func (a Axis) warp(x float64) float64 {
	if a.Stretched && a.Margin > 0 {
		return math.Asinh(x / float64(analysis.RatioRegion(a.Margin)))
	}
	return x
}

// ticks returns candidate values, the most important first.
func (a Axis) ticks() []float64 {
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
		return a.inside(out)
	}
	for _, p := range []float64{50, 10, 90, 99, 99.9, 5, 20, 80, 95, 1, 30, 70} {
		out = append(out, 1-p/100, 1+p/100)
	}
	for r := 2.0; r <= 1e6; r *= 10 {
		out = append(out, r, 5*r, r*2.5, 0.2/r, 0.1/r)
	}
	return a.inside(out)
}

func (a Axis) inside(vs []float64) []float64 {
	var out []float64
	for _, v := range vs {
		if v > 0 && math.Log(v) >= a.Lo-1e-9 && math.Log(v) <= a.Hi+1e-9 {
			out = append(out, v)
		}
	}
	return out
}

// tick labels a value on the axis.
func (a Axis) tick(v float64) string {
	switch {
	case v == a.zero() && !a.Difference:
		return "0 %"
	case a.Difference:
		return a.text(v)
	case v >= 2:
		return "×" + trim(v, 3)
	case v < 0.01:
		return "÷" + trim(1/v, 3)
	}
	return signed(100*(v-1), 1e-9)
}

// text writes a value for eyes.
func (a Axis) text(v float64) string {
	if a.Difference {
		return Difference(v, a.Unit)
	}
	return Text(v)
}

// Difference writes a difference in a unit with its sign.
func Difference(v float64, u string) string {
	s := unit.Format(math.Abs(v), u)
	switch {
	case v < 0:
		return "−" + s
	case v > 0:
		return "+" + s
	}
	return s
}

// Text writes a ratio as a difference in percent, with one decimal at least
// where it is small; ratios of 2 and more as ×2.5, below 0.01 as ÷250.
func Text(ratio float64) string {
	switch {
	case math.IsNaN(ratio) || math.IsInf(ratio, 0) || ratio <= 0:
		return "–"
	case ratio >= 2:
		return "×" + trim(ratio, 3)
	case ratio < 0.01:
		return "÷" + trim(1/ratio, 3)
	}
	p := 100 * (ratio - 1)
	switch {
	case math.Abs(p) < 0.095:
		return signed(p, 0.01)
	default:
		return signed(p, 0.1)
	}
}

// signed writes a percentage rounded to the given precision, with a true
// minus sign.
func signed(p, precision float64) string {
	p = math.Round(p/precision) * precision
	s := strconv.FormatFloat(math.Abs(p), 'f', decimals(precision), 64)
	if precision < 1e-3 {
		s = trim(math.Abs(p), 4)
	}
	switch {
	case strings.Trim(s, "0.") == "":
		return "0 %"
	case p < 0:
		return "−" + s + " %"
	}
	return "+" + s + " %"
}

func decimals(precision float64) int { return max(int(math.Round(-math.Log10(precision))), 0) }

// trim writes v with n significant digits and without exponent below a
// million.
func trim(v float64, n int) string {
	if v >= 1e6 {
		return fmt.Sprintf("%.*g", n, v)
	}
	s := strconv.FormatFloat(v, 'g', n, 64)
	f, _ := strconv.ParseFloat(s, 64)
	return strconv.FormatFloat(f, 'f', -1, 64)
}
