package stats

import (
	"fmt"
	"math"
	"slices"
	"sync"
)

// ExactSignedRank is the largest number of values for which the
// distribution of the signed-rank statistic is computed exactly; above it
// the normal approximation with continuity correction is used.
const ExactSignedRank = 60

// SignedRank is the result of a signed-rank test.
type SignedRank struct {
	N     int // values, zeros included
	Zeros int
	// W is the sum of the ranks of the positive values.
	W float64
	// Less and Greater are the one-sided p-values: small where the center of
	// symmetry is below (above) zero. P is two-sided: twice the smaller one,
	// at most 1.
	Less, Greater, P float64
	Exact            bool
	Warnings         []string
}

// SignedRankTest tests whether xs, one value a pair, is symmetric about zero.
//
// xs is in any unit and any order and is not modified; ±Inf are the largest
// possible magnitudes and tie with each other. Ties get midranks and the
// distribution is that of the sums of these midranks under all 2^n
// assignments of signs, so the p-values are exact with ties as well. Zeros
// keep their ranks and add nothing to either side (Pratt 1959): under the
// signs' distribution the test stays exact. Up to ExactSignedRank values the
// distribution is computed; above, it is approximated by the normal one with
// the variance of the midranks and a continuity correction of one half.
//
// Assumption: given the magnitudes, every sign is + or − with probability one
// half, independently. Drawing the order of a pair at random gives that for
// identical sides whatever the noise is, if an exchange of the sides does no
// more than change the sign.
//
// Source: Wilcoxon 1945; Pratt, JASA 54 (1959) 655; Hollander, Wolfe and
// Chicken, Nonparametric Statistical Methods, 3.1.
func SignedRankTest(xs []float64) SignedRank {
	r := SignedRank{N: len(xs), Less: 1, Greater: 1, P: 1, Exact: len(xs) <= ExactSignedRank}
	if hasNaN(xs) {
		r.Warnings = append(r.Warnings, "a value is not a number: nothing was tested")
		return r
	}
	ranks := doubledRanks(xs)
	var plus, total int
	var flips []int
	for i, x := range xs {
		switch {
		case x == 0:
			r.Zeros++
			continue
		case x > 0:
			plus += ranks[i]
		}
		total += ranks[i]
		flips = append(flips, ranks[i])
	}
	r.W = float64(plus) / 2
	if len(flips) == 0 {
		r.Warnings = append(r.Warnings, "there is no value other than zero")
		return r
	}
	if r.Exact {
		r.Less, r.Greater = exactTails(flips, plus, total)
	} else {
		r.Less, r.Greater = normalTails(flips, plus, total)
	}
	r.P = min(1, 2*min(r.Less, r.Greater))
	return r
}

// SignedRankNeeds returns the least number of values with which a two-sided
// signed-rank test can reach the level alpha at all: 2·2⁻ⁿ ≤ alpha.
func SignedRankNeeds(alpha float64) int {
	if !(alpha > 0) {
		return math.MaxInt
	}
	n := 1
	for math.Ldexp(2, -n) > alpha {
		n++
	}
	return n
}

// doubledRanks returns twice the midrank of each magnitude, which is whole.
func doubledRanks(xs []float64) []int {
	sizes := make([]float64, len(xs))
	for i, x := range xs {
		sizes[i] = math.Abs(x)
	}
	return midranks(sizes)
}

// exactTails returns P(W ≤ plus) and P(W ≥ plus) where W is the sum of a
// random subset of flips, by counting subsets. Counts stay below 2^60.
func exactTails(flips []int, plus, total int) (less, greater float64) {
	var below, above uint64
	for s, c := range subsets(flips, total) {
		if s <= plus {
			below += c
		}
		if s >= plus {
			above += c
		}
	}
	all := math.Ldexp(1, len(flips))
	return float64(below) / all, float64(above) / all
}

// subsets counts, for each sum up to total, the subsets of flips that have it.
func subsets(flips []int, total int) []uint64 {
	counts := make([]uint64, total+1)
	counts[0] = 1
	reach := 0
	for _, f := range flips {
		reach += f
		for s := reach; s >= f; s-- {
			counts[s] += counts[s-f]
		}
	}
	return counts
}

func normalTails(flips []int, plus, total int) (less, greater float64) {
	var squares float64
	for _, f := range flips {
		squares += float64(f) * float64(f)
	}
	// In doubled ranks: variance Σf²/4, continuity correction 1.
	sd := math.Sqrt(squares) / 2
	d := float64(plus) - float64(total)/2
	return normalCDF((d + 1) / sd), normalCDF(-(d - 1) / sd)
}

// signedRankTail[n] holds for w = 0, 1, … the number of the 2^n sign
// assignments of n untied values whose statistic is at most w.
var (
	tailMu sync.Mutex
	tails  [ExactSignedRank + 1][]uint64
)

func signedRankTail(n int) []uint64 {
	tailMu.Lock()
	defer tailMu.Unlock()
	if tails[n] != nil {
		return tails[n]
	}
	ranks := make([]int, n)
	for i := range ranks {
		ranks[i] = i + 1
	}
	counts := subsets(ranks, n*(n+1)/2)
	for s := range counts[1:] {
		counts[s+1] += counts[s]
	}
	tails[n] = counts
	return counts
}

// walshRank returns the largest k with P(W ≤ k−1) ≤ tail for n untied
// values, and that probability; k is 0 when not even k = 1 will do.
func walshRank(n int, tail float64) (k int, p float64, exact bool) {
	if n <= 0 || !(tail > 0) {
		return 0, 0, n <= ExactSignedRank
	}
	if n <= ExactSignedRank {
		counts := signedRankTail(n)
		// The guard lets a level that is a sum of decimal fractions reach the
		// dyadic probability it was meant to equal.
		limit := tail * (1 + 1e-12)
		k, _ = slices.BinarySearchFunc(counts, limit, func(c uint64, limit float64) int {
			if math.Ldexp(float64(c), -n) <= limit {
				return -1
			}
			return 1
		})
		if 2*k > len(counts) { // the two bounds would cross
			k = len(counts) / 2
		}
		if k > 0 {
			p = math.Ldexp(float64(counts[k-1]), -n)
		}
		return k, p, true
	}
	f := float64(n)
	mean, sd := f*(f+1)/4, math.Sqrt(f*(f+1)*(2*f+1)/24)
	k = int(math.Floor(mean + 0.5 + sd*normalQuantile(tail)))
	k = min(max(k, 0), n*(n+1)/4)
	if k > 0 {
		p = normalCDF((float64(k) - 0.5 - mean) / sd)
	}
	return k, p, false
}

func hasNaN(xs []float64) bool {
	return slices.ContainsFunc(xs, math.IsNaN)
}

func tooFew(n, need int, level float64) string {
	return fmt.Sprintf("an interval at level %.4g needs at least %d values, and there are %d", level, need, n)
}
