package stats

import "math"

// StudentP returns the two-sided p-value of a t statistic with df > 0 degrees
// of freedom; 1 where t is NaN.
//
// Source: Abramowitz and Stegun 26.7.1 with the incomplete beta function by
// its continued fraction (Numerical Recipes 6.4, modified Lentz).
func StudentP(t, df float64) float64 {
	if math.IsNaN(t) || !(df > 0) {
		return 1
	}
	if math.IsInf(t, 0) {
		return 0
	}
	return incompleteBeta(df/2, 0.5, df/(df+t*t))
}

// WelchP returns the two-sided p-value of Welch's t-test: whether two samples, whose
// variances may differ, have the same mean. It is 1 if a sample has fewer than two
// values or neither varies.
//
// Source: Welch (1947), with the degrees of freedom of Satterthwaite (1946).
func WelchP(xs, ys []float64) float64 {
	if len(xs) < 2 || len(ys) < 2 {
		return 1
	}
	meanX, x := errorOfMean(xs)
	meanY, y := errorOfMean(ys)
	df := (x + y) * (x + y) / (x*x/float64(len(xs)-1) + y*y/float64(len(ys)-1))
	return StudentP((meanX-meanY)/math.Sqrt(x+y), df)
}

// errorOfMean returns the mean and the square of its standard error.
func errorOfMean(xs []float64) (mean, squared float64) {
	n := float64(len(xs))
	for _, x := range xs {
		mean += x / n
	}
	for _, x := range xs {
		squared += (x - mean) * (x - mean) / (n - 1) / n
	}
	return mean, squared
}

// incompleteBeta is the regularized incomplete beta function.
func incompleteBeta(a, b, x float64) float64 {
	if x <= 0 {
		return 0
	}
	if x >= 1 {
		return 1
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(lab - la - lb + a*math.Log(x) + b*math.Log1p(-x))
	if x > (a+1)/(a+b+2) {
		return 1 - front*betaFraction(b, a, 1-x)/b
	}
	return front * betaFraction(a, b, x) / a
}

func betaFraction(a, b, x float64) float64 {
	const tiny = 1e-300
	guard := func(v float64) float64 {
		if math.Abs(v) < tiny {
			return tiny
		}
		return v
	}
	c, d := 1.0, 1/guard(1-(a+b)*x/(a+1))
	h := d
	for m := 1.0; m < 500; m++ {
		even := m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		d = 1 / guard(1+even*d)
		c = guard(1 + even/c)
		h *= d * c
		odd := -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		d = 1 / guard(1+odd*d)
		c = guard(1 + odd/c)
		step := d * c
		h *= step
		if math.Abs(step-1) < 1e-14 {
			break
		}
	}
	return h
}

// StudentQuantile returns the t ≥ 0 beyond which, on both sides together, a
// Student variable with df > 0 degrees of freedom lies with probability
// 1 − level, for a level in [0, 1): the inverse of StudentP, by bisection.
func StudentQuantile(level, df float64) float64 {
	lo, hi := 0.0, 1.0
	for StudentP(hi, df) > 1-level && hi < 1e12 {
		hi *= 2
	}
	for range 200 {
		mid := (lo + hi) / 2
		if mid == lo || mid == hi {
			break // no number lies between them
		}
		if StudentP(mid, df) > 1-level {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}
