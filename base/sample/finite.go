package sample

import "math"

// IsFinite reports whether v is neither infinite nor NaN.
func IsFinite(v float64) bool { return !math.IsInf(v, 0) && !math.IsNaN(v) }

// Finite returns a pointer to v; nil if v is not finite, because JSON has no such numbers.
func Finite(v float64) *float64 {
	if !IsFinite(v) {
		return nil
	}
	return &v
}
