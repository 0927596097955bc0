package analysis

import (
	"math"
	"strconv"

	"bakeoff/base/sample"
)

// Verdict is what an interval says about a comparison.
type Verdict string

// The verdicts. Better and Worse respect the direction of the metric.
const (
	Better       Verdict = "better"
	Worse        Verdict = "worse"
	Equivalent   Verdict = "equivalent"
	Inconclusive Verdict = "inconclusive"
)

// The margin is the largest share by which two contenders may differ and still
// count as equivalent.
const (
	DefaultMargin = 0.02
	MaxMargin     = 0.5
)

// MaxAlpha is the error rate of a family: at most this share of runs in which
// nothing differs gives a verdict that says otherwise.
const MaxAlpha = 0.05

// Region is the equivalence region [−Region, Region] on the scale on which
// differences are taken: natural logarithms of ratios, or the metric's own unit
// on the scale sample.Difference.
type Region float64

// NewRegion returns the region of a margin. size is the typical size of the
// baseline's values, of which the margin is taken on the scale
// sample.Difference; ratios do not need it.
func NewRegion(margin float64, scale sample.Scale, size float64) Region {
	if scale == sample.Difference {
		return Region(margin * size)
	}
	return RatioRegion(margin)
}

// RatioRegion returns the region of a margin for ratios: it contains the ratios
// from 1/(1+margin) to 1+margin, so that exchanging the two sides changes
// nothing.
func RatioRegion(margin float64) Region { return Region(math.Log1p(margin)) }

// Margin returns the margin of a region of ratios.
func (r Region) Margin() float64 { return math.Expm1(float64(r)) }

// Ratios returns the smallest and the largest equivalent ratio.
func (r Region) Ratios() (lo, hi float64) { return math.Exp(-float64(r)), math.Exp(float64(r)) }

// Verdict reads the verdict from the interval [lo, hi]: Equivalent if the
// region contains it, otherwise Better or Worse if it excludes 0, otherwise
// Inconclusive. Every verdict of bakeoff is read here.
func (r Region) Verdict(lo, hi float64, better sample.Better) Verdict {
	switch {
	case -float64(r) <= lo && hi <= float64(r):
		return Equivalent
	case lo > 0 && better != sample.Lower, hi < 0 && better == sample.Lower:
		return Better
	case lo > 0 || hi < 0:
		return Worse
	}
	return Inconclusive
}

// Beyond reports whether the whole interval [lo, hi] of a verdict Better or Worse
// lies outside the region: the difference is larger than the margin, which the
// verdict alone does not say. It is nil for other verdicts.
func (r Region) Beyond(v Verdict, lo, hi float64) *bool {
	if v != Better && v != Worse {
		return nil
	}
	return new(lo > float64(r) || hi < -float64(r))
}

// Smallest returns the smallest estimate above 0 whose interval, with this distance to
// its lower and to its upper end, gives a verdict Better or Worse, and the smallest one
// whose interval lies outside of the region as a whole (Beyond).
func (r Region) Smallest(lower, upper float64) (found, beyond float64) {
	return max(lower, float64(r)-upper), float64(r) + lower
}

// Amount says how large the difference of a verdict is, seen from the margin:
// " by more than 2 %" or ", possibly by less than 2 %". beyond is
// Comparison.BeyondMargin; without it Amount is "".
func Amount(beyond *bool, margin float64) string {
	percent := strconv.FormatFloat(100*margin, 'g', 3, 64) + " %"
	switch {
	case beyond == nil || !(margin > 0):
		return ""
	case *beyond:
		return " by more than " + percent
	}
	return ", possibly by less than " + percent
}
