package stats

import (
	"cmp"
	"math"
	"slices"
)

// Holm returns the adjusted p-values of a family: rejecting those at most
// alpha keeps the probability of any false rejection at most alpha, whatever
// the dependence.
//
// ps are in [0, 1]; NaN counts as 1. The result is in the order of ps, which
// is not modified.
//
// Source: Holm, Scand. J. Statist. 6 (1979) 65.
func Holm(ps []float64) []float64 {
	order := make([]int, len(ps))
	clean := make([]float64, len(ps))
	for i, p := range ps {
		order[i] = i
		clean[i] = p
		if math.IsNaN(p) {
			clean[i] = 1
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(clean[a], clean[b]) })
	out := make([]float64, len(ps))
	running := 0.0
	for rank, i := range order {
		running = max(running, min(1, float64(len(ps)-rank)*clean[i]))
		out[i] = running
	}
	return out
}
