package stats

import "math"

// Autocorrelation describes how consecutive values of a series depend on each
// other.
type Autocorrelation struct {
	N int
	// R holds the correlations at lags 1, 2, ….
	R []float64
	// P is the p-value of the Ljung–Box test that all of R are zero.
	P float64
	// Effective is the number of independent values that would estimate the
	// mean as precisely.
	Effective float64
	Warnings  []string
}

// AutocorrelationTest returns the autocorrelations of xs, in measured order, up
// to a lag ≥ 1.
//
// xs are finite values of one unit at equal steps and not modified. The
// number of independent values sums the correlations in pairs until a pair
// is not positive (Geyer).
//
// Assumption: a stationary series with finite variance; P is asymptotic and
// wants n well above lag.
//
// Sources: Ljung and Box, Biometrika 65 (1978) 297; Geyer, Statist. Sci. 7
// (1992) 473.
func AutocorrelationTest(xs []float64, lag int) Autocorrelation {
	n := len(xs)
	a := Autocorrelation{N: n, P: 1, Effective: float64(n)}
	var mean float64
	for _, x := range xs {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			a.Warnings = append(a.Warnings, "a value is not finite: nothing was computed")
			return a
		}
		mean += x / float64(n)
	}
	var variance float64
	for _, x := range xs {
		variance += (x - mean) * (x - mean)
	}
	lag = min(lag, n-1)
	if lag < 1 || !(variance > 0) || math.IsInf(variance, 0) {
		a.Warnings = append(a.Warnings, "too few values, or all are the same: nothing was computed")
		return a
	}
	if n < 4*lag {
		a.Warnings = append(a.Warnings, "the lag is large for the number of values, so P is approximate")
	}
	var q float64
	for k := 1; k <= lag; k++ {
		var c float64
		for i := k; i < n; i++ {
			c += (xs[i] - mean) * (xs[i-k] - mean)
		}
		r := c / variance
		a.R = append(a.R, r)
		q += r * r / float64(n-k)
	}
	a.P = chiSquareTail(q*float64(n)*float64(n+2), float64(lag))
	sum := 1.0
	for k := 0; k < len(a.R); k += 2 {
		pair := a.R[k]
		if k+1 < len(a.R) {
			pair += a.R[k+1]
		}
		if pair <= 0 {
			break
		}
		sum += 2 * pair
	}
	a.Effective = float64(n) / sum
	return a
}

// chiSquareTail is P(X ≥ x) for df > 0 degrees of freedom: the regularized
// incomplete gamma function Q(df/2, x/2).
//
// Source: Numerical Recipes 6.2 (series, and Lentz's continued fraction).
func chiSquareTail(x, df float64) float64 {
	if !(x > 0) {
		return 1
	}
	a, x := df/2, x/2
	lg, _ := math.Lgamma(a)
	front := math.Exp(a*math.Log(x) - x - lg)
	if x < a+1 {
		term, sum := 1/a, 1/a
		for k := 1.0; k < 10000 && term > sum*1e-16; k++ {
			term *= x / (a + k)
			sum += term
		}
		return max(0, 1-front*sum)
	}
	const tiny = 1e-300
	b := x + 1 - a
	c, d := 1/tiny, 1/b
	h := d
	for k := 1.0; k < 10000; k++ {
		an := -k * (k - a)
		b += 2
		if d = an*d + b; math.Abs(d) < tiny {
			d = tiny
		}
		if c = b + an/c; math.Abs(c) < tiny {
			c = tiny
		}
		d = 1 / d
		step := d * c
		h *= step
		if math.Abs(step-1) < 1e-15 {
			break
		}
	}
	return front * h
}
