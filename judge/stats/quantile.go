package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Quantile returns the q-quantile, q in [0, 1], of ascending values: the
// least value that at least a share q of them do not exceed. NaN where there
// is none.
//
// Source: Hyndman and Fan, Am. Stat. 50 (1996) 361, definition 1: no value
// that was not measured is made up in a tail.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 || !(q >= 0 && q <= 1) {
		return math.NaN()
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))-1e-9))-1)]
}

// CompareQuantile estimates how much the q-quantile of side a is above that
// of side b, with a bootstrap interval over groups.
//
// a[i] and b[i] are the values, say latencies, that both sides gave in group
// i, in one unit and any order; they are not modified. Groups are resampled
// in pairs, so that what a group's two sides share does not count as error;
// values inside a group are never taken for replicates. A warning says where
// q lies so far out that the groups hold too few values beyond it.
//
// Assumptions and source: Bootstrap; the quantile is that of all values of
// the groups together.
func CompareQuantile(a, b [][]float64, q, level float64, resamples int, r *rand.Rand) Estimate {
	n := min(len(a), len(b))
	least := math.MaxInt
	for i := range n {
		if hasNaN(a[i]) || hasNaN(b[i]) || len(a[i]) == 0 || len(b[i]) == 0 {
			return Estimate{Value: math.NaN(), Lo: math.Inf(-1), Hi: math.Inf(1), Level: level, Actual: 1, N: n,
				Warnings: []string{"a group has no values, or one that is not a number: nothing was estimated"}}
		}
		least = min(least, len(a[i]), len(b[i]))
	}
	var xs, ys []float64
	e := Bootstrap{Groups: n, Resamples: resamples, Level: level, Rand: r}.Interval(func(groups []int) float64 {
		xs, ys = xs[:0], ys[:0]
		for _, g := range groups {
			xs = append(xs, a[g]...)
			ys = append(ys, b[g]...)
		}
		return choice(xs, q) - choice(ys, q)
	})
	if beyond := min(q, 1-q) * float64(least); n > 0 && beyond*float64(n) < 10 {
		e.Warnings = append(e.Warnings, fmt.Sprintf("about %.1f values lie beyond the %v quantile: 10 are needed to tell it", beyond*float64(n), q))
	}
	return e
}

// choice is Quantile of values in any order, which it reorders.
func choice(xs []float64, q float64) float64 {
	if len(xs) < 64 {
		slices.Sort(xs)
		return Quantile(xs, q)
	}
	if !(q >= 0 && q <= 1) {
		return math.NaN()
	}
	return selectKth(xs, max(0, int(math.Ceil(q*float64(len(xs))-1e-9))-1))
}

// QuantileInterval returns the q-quantile of xs with the interval between
// two order statistics that covers that of the distribution with at least
// the given level.
//
// xs holds n ≥ 0 values in any order, ±Inf allowed, and is not modified; q
// and level lie in (0, 1). A side on which n is too small is ±Inf.
//
// Assumption: independent values of one distribution. Exact.
//
// Source: Conover, Practical Nonparametric Statistics, 3.2.
func QuantileInterval(xs []float64, q, level float64) Estimate {
	e := Estimate{Value: math.NaN(), Lo: math.Inf(-1), Hi: math.Inf(1), Level: level, Actual: 1, N: len(xs), Exact: true}
	if hasNaN(xs) || !(q > 0 && q < 1) || !(level > 0 && level < 1) {
		e.Warnings = append(e.Warnings, "a value, the quantile or the level is not a number in its range: nothing was estimated")
		return e
	}
	s := slices.Clone(xs)
	slices.Sort(s)
	e.Value = Quantile(s, q)
	tail := (1 - level) / 2
	lo, pl := binomialRank(len(s), q, tail)
	hi, ph := binomialRank(len(s), 1-q, tail)
	e.Actual = 1 - pl - ph
	if lo > 0 {
		e.Lo = s[lo-1]
	}
	if hi > 0 {
		e.Hi = s[len(s)-hi]
	}
	if lo == 0 || hi == 0 {
		e.Warnings = append(e.Warnings, fmt.Sprintf("%d values do not bound the %v quantile on both sides at level %v", len(s), q, level))
	}
	return e
}

// binomialRank returns the largest k with P(B ≤ k−1) ≤ tail, B binomial of n
// and p, and that probability.
func binomialRank(n int, p, tail float64) (k int, sum float64) {
	all, _ := math.Lgamma(float64(n) + 1)
	for k = 0; k < n; k++ {
		a, _ := math.Lgamma(float64(k) + 1)
		b, _ := math.Lgamma(float64(n-k) + 1)
		next := sum + math.Exp(all-a-b+float64(k)*math.Log(p)+float64(n-k)*math.Log1p(-p))
		if next > tail*(1+1e-12) {
			break
		}
		sum = next
	}
	return k, sum
}
