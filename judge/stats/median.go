package stats

import (
	"math"
	"slices"
)

// Median returns the median of xs, in any order, which is not modified; NaN
// where there are no values or one is NaN.
func Median(xs []float64) float64 {
	if len(xs) == 0 || hasNaN(xs) {
		return math.NaN()
	}
	s := slices.Clone(xs)
	slices.Sort(s)
	return sortedMedian(s)
}

// Deviation returns the standard deviation of at least two values.
func Deviation(xs []float64) float64 {
	var mean, ss float64
	for _, x := range xs {
		mean += x / float64(len(xs))
	}
	for _, x := range xs {
		ss += (x - mean) * (x - mean)
	}
	return math.Sqrt(ss / float64(len(xs)-1))
}

func sortedMedian(s []float64) float64 {
	m := mean2(s[(len(s)-1)/2], s[len(s)/2])
	if m != m {
		return 0
	}
	return m
}

// MedianInterval returns the median of xs with the interval between two of
// its order statistics that covers the median of the distribution with at
// least the given level, in (0, 1).
//
// xs holds n ≥ 0 values of one unit in any order; ±Inf are allowed; it is not
// modified. When n is too small for the level, the interval is ±Inf and a
// warning says how many values are needed.
//
// Assumption: independent values of one distribution, of any shape; ties
// make the closed interval cover more. Exact.
//
// Source: Conover, Practical Nonparametric Statistics, 3.2.
func MedianInterval(xs []float64, level float64) Estimate {
	e := Estimate{Value: math.NaN(), Lo: math.Inf(-1), Hi: math.Inf(1), Level: level, Actual: 1, N: len(xs), Exact: true}
	if hasNaN(xs) {
		e.Warnings = append(e.Warnings, "a value is not a number: nothing was estimated")
		return e
	}
	if len(xs) > 0 {
		e.Value = Median(xs)
	}
	alpha := 1 - level
	k, p := medianRank(len(xs), alpha/2)
	if k == 0 {
		e.Warnings = append(e.Warnings, tooFew(len(xs), SignedRankNeeds(alpha), level))
		return e
	}
	s := slices.Clone(xs)
	slices.Sort(s)
	e.Lo, e.Hi, e.Actual = s[k-1], s[len(s)-k], 1-2*p
	return e
}

// medianRank returns the largest k with P(B ≤ k−1) ≤ tail, B binomial of n
// and one half, and that probability; k is 0 when not even k = 1 will do.
func medianRank(n int, tail float64) (k int, p float64) {
	if n == 0 || !(tail > 0) {
		return 0, 0
	}
	limit := tail * (1 + 1e-12)
	var sum float64
	for k = 0; 2*(k+1) <= n+1; k++ {
		next := sum + binomialHalf(n, k)
		if next > limit {
			break
		}
		sum = next
	}
	return k, sum
}

// binomialHalf is the probability of k heads of n.
func binomialHalf(n, k int) float64 {
	if n <= 60 { // logarithms lose the last digits of what is exact
		return math.Ldexp(float64(binomial(n, k)), -n)
	}
	all, _ := math.Lgamma(float64(n) + 1)
	a, _ := math.Lgamma(float64(k) + 1)
	b, _ := math.Lgamma(float64(n-k) + 1)
	return math.Exp(all - a - b - float64(n)*math.Ln2)
}

// binomial is the binomial coefficient for n ≤ 60.
func binomial(n, k int) uint64 {
	row := make([]uint64, k+1)
	row[0] = 1
	for i := 1; i <= n; i++ {
		for j := min(i, k); j > 0; j-- {
			row[j] += row[j-1]
		}
	}
	return row[k]
}
