package stats

import (
	"math"
	"slices"
)

// TrimmedMean returns the mean of xs without the share trim of its values at each end, as R's
// mean(x, trim): of n values it removes ⌊n × trim⌋ at each end, so 0.1 of fewer than ten values
// removes none. xs holds n ≥ 1 finite values and is not modified; trim lies in [0, 0.5).
func TrimmedMean(xs []float64, trim float64) float64 {
	sorted := slices.Sorted(slices.Values(xs))
	n := int(float64(len(sorted)) * trim)
	kept := sorted[n : len(sorted)-n]
	sum := 0.0
	for _, x := range kept {
		sum += x / float64(len(kept))
	}
	return sum
}

// Variation returns the coefficient of variation of xs against their trimmed mean, as a share:
// R's sd(x) / mean(x, trim). ok is false for fewer than two values, and if the mean is not
// positive.
func Variation(xs []float64, trim float64) (cv float64, ok bool) {
	center := TrimmedMean(xs, trim)
	if len(xs) < 2 || !(center > 0) {
		return 0, false
	}
	mean, squares := TrimmedMean(xs, 0)/center, 0.0
	for _, x := range xs {
		squares += (x/center - mean) * (x/center - mean)
	}
	cv = math.Sqrt(squares / float64(len(xs)-1))
	return cv, !math.IsNaN(cv) && !math.IsInf(cv, 0)
}
