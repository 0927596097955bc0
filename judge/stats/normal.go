package stats

import "math"

// normalCDF is the standard normal distribution function.
func normalCDF(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// normalQuantile is its inverse; p lies in (0, 1).
func normalQuantile(p float64) float64 { return -math.Sqrt2 * math.Erfcinv(2*p) }

// NormalTail returns the z above which a standard normal value lies with
// probability p, in (0, 1).
func NormalTail(p float64) float64 { return -normalQuantile(p) }
