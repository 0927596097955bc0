package stats

import "math"

// ClopperPearson returns the closed interval of at least the given level, in
// (0, 1), for the probability of something that came true in k of n
// independent trials; [0, 1] where n is 0, NaN where k is not within 0 and n.
//
// Source: Clopper and Pearson, Biometrika 26 (1934) 404. It inverts the two
// one-sided binomial tests, so it covers more than its level, never less.
func ClopperPearson(k, n int, level float64) (lo, hi float64) {
	if k < 0 || k > n || !(level > 0 && level < 1) {
		return math.NaN(), math.NaN()
	}
	tail := (1 - level) / 2
	lo, hi = 0, 1
	a, b := float64(k), float64(n-k)
	if k > 0 { // P(X ≥ k) rises with p
		lo = bisectUnit(func(p float64) bool { return incompleteBeta(a, b+1, p) < tail })
	}
	if k < n { // P(X ≤ k) falls
		hi = bisectUnit(func(p float64) bool { return 1-incompleteBeta(a+1, b, p) > tail })
	}
	return lo, hi
}

// bisectUnit finds where low turns from true to false in [0, 1].
func bisectUnit(low func(float64) bool) float64 {
	lo, hi := 0.0, 1.0
	for range 100 {
		if mid := (lo + hi) / 2; low(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (lo + hi) / 2
}
