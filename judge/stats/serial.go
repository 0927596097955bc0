package stats

import "math"

// Serial is the estimated center of values that one source measured one after
// another.
type Serial struct {
	N int
	// Effective is the number of independent values with as much information.
	Effective float64
	Center    float64 // Hodges–Lehmann estimate; NaN without values
	// Below and Above are the distances from Center to the bounds of its interval;
	// +Inf if there are too few values for the level.
	Below, Above float64
	Warnings     []string
}

// mostLags bounds the autocorrelations that SerialCenter computes of a long series.
const mostLags = 250

// SerialCenter estimates the center of xs, finite values in measured order, with an
// interval of at least the given level. The interval is that of HodgesLehmann, and
// each half is widened by √(n / n′), where n′ is the number of independent values
// with as much information as the n autocorrelated ones (AutocorrelationTest).
//
// Assumption: the values are symmetric about one center, and their correlations end
// within a quarter of the series and within 250 values.
func SerialCenter(xs []float64, level float64) Serial {
	e := HodgesLehmann(xs, level)
	s := Serial{N: len(xs), Effective: float64(len(xs)), Center: e.Value, Warnings: e.Warnings}
	wide := 1.0
	if a := AutocorrelationTest(xs, max(1, min(len(xs)/4, mostLags))); a.Effective > 0 && a.Effective < s.Effective {
		s.Effective = a.Effective
		wide = math.Sqrt(float64(len(xs)) / a.Effective)
	}
	s.Below, s.Above = (e.Value-e.Lo)*wide, (e.Hi-e.Value)*wide
	return s
}

// To returns the shift from s to later, two independent series, and how far its
// interval reaches below and above. The halves are combined as the root of the sum
// of squares (MOVER).
//
// Source: Zou and Donner, Statistics in Medicine 27 (2008) 1693.
func (s Serial) To(later Serial) (shift, below, above float64) {
	return later.Center - s.Center, math.Hypot(s.Above, later.Below), math.Hypot(s.Below, later.Above)
}
