package stats

import (
	"math/rand/v2"
)

// ChangePoint is the result of a test for one change of level.
type ChangePoint struct {
	N int
	// At is the index of the first value after the most likely change.
	At int
	// Before and After are the medians on either side of it.
	Before, After float64
	P             float64
	Warnings      []string
}

// ChangePointTest looks for one change of level in xs, in the order in which
// they came, by Pettitt's rank statistic. Its p-value comes from permutations
// random orders of xs, so that it is exact with ties and for any n; its least
// value is 1/(permutations+1).
//
// xs are finite or ±Inf and not modified; permutations ≥ 1.
//
// Assumption: without a change the values are exchangeable. Trends and
// autocorrelation are found as changes as well.
//
// Source: Pettitt, Applied Statistics 28 (1979) 126.
func ChangePointTest(xs []float64, permutations int, r *rand.Rand) ChangePoint {
	c := ChangePoint{N: len(xs), P: 1}
	if hasNaN(xs) || len(xs) < 2 {
		c.Warnings = append(c.Warnings, "fewer than two values, or one is not a number: nothing was tested")
		return c
	}
	ranks := midranks(xs)
	var k int
	k, c.At = pettitt(ranks)
	c.Before, c.After = Median(xs[:c.At]), Median(xs[c.At:])
	hits := 1
	for range permutations {
		r.Shuffle(len(ranks), func(i, j int) { ranks[i], ranks[j] = ranks[j], ranks[i] })
		if other, _ := pettitt(ranks); other >= k {
			hits++
		}
	}
	c.P = float64(hits) / float64(permutations+1)
	return c
}

// ScanTest looks for one change of level as ChangePointTest does, by the
// largest standardised rank sum over all splits: it finds changes near the
// ends, which Pettitt's statistic gives little weight, and somewhat fewer in
// the middle. Everything said there holds here.
//
// Source: Lausen and Schumacher, Biometrics 48 (1992) 73, maximally selected
// rank statistics, with p-values by permutation.
func ScanTest(xs []float64, permutations int, r *rand.Rand) ChangePoint {
	c := ChangePoint{N: len(xs), P: 1}
	if hasNaN(xs) || len(xs) < 2 {
		c.Warnings = append(c.Warnings, "fewer than two values, or one is not a number: nothing was tested")
		return c
	}
	ranks := midranks(xs)
	var k float64
	k, c.At = scan(ranks)
	c.Before, c.After = Median(xs[:c.At]), Median(xs[c.At:])
	hits := 1
	for range permutations {
		r.Shuffle(len(ranks), func(i, j int) { ranks[i], ranks[j] = ranks[j], ranks[i] })
		if other, _ := scan(ranks); other >= k*(1-1e-12) {
			hits++
		}
	}
	c.P = float64(hits) / float64(permutations+1)
	return c
}

// scan returns the largest squared deviation of the cumulated ranks from
// their mean, in units of its variance but for a factor that is the same for
// all splits, and the index after it.
func scan(ranks []int) (k float64, at int) {
	sum, n := 0, len(ranks)
	at = 1
	for i, rank := range ranks[:n-1] {
		sum += rank - (n + 1) // ranks are doubled
		m := i + 1
		if d := float64(sum) * float64(sum) / float64(m*(n-m)); d > k {
			k, at = d, m
		}
	}
	return k, at
}

// pettitt returns the largest deviation of the cumulated ranks from their
// mean, and the index after it.
func pettitt(ranks []int) (k, at int) {
	sum := 0
	at = 1
	for i, rank := range ranks[:len(ranks)-1] {
		sum += rank - (len(ranks) + 1) // ranks are doubled
		if d := max(sum, -sum); d > k {
			k, at = d, i+1
		}
	}
	return k, at
}
