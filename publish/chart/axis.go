package chart

import (
	"math"
	"slices"
)

// many is the ratio of the largest to the smallest value from which on an axis is
// logarithmic.
const many = 16

// Axis places values between two ends. The zero value places everything in the
// middle.
type Axis struct {
	lo, hi float64 // values, or their logarithms
	log    bool
}

// NewAxis returns the axis of values, with a share of room at both ends.
func NewAxis(values []float64, room float64) Axis {
	if len(values) == 0 {
		return Axis{}
	}
	lo, hi := slices.Min(values), slices.Max(values)
	return Between(lo, hi, lo > 0 && hi/lo >= many, room, room)
}

// Between returns an axis with a share of room at both ends. If the ends are equal, the
// room is the share alone of their value.
func Between(lo, hi float64, log bool, room, alone float64) Axis {
	a := Axis{lo: lo, hi: hi, log: log}
	if log {
		a.lo, a.hi = math.Log(lo), math.Log(hi)
	}
	pad := room * (a.hi - a.lo)
	if pad == 0 && room > 0 {
		pad = max(math.Abs(a.hi)*alone, 1e-300)
	}
	a.lo, a.hi = a.lo-pad, a.hi+pad
	return a
}

// Log reports whether the axis is logarithmic.
func (a Axis) Log() bool { return a.log }

// Has reports whether a value is on the axis.
func (a Axis) Has(v float64) bool {
	if a.log {
		v = math.Log(v)
	}
	return v >= a.lo && v <= a.hi
}

// At is the place of a value: 0 at the lower end, 1 at the upper.
func (a Axis) At(v float64) float64 {
	if a.log {
		v = math.Log(v)
	}
	share := (v - a.lo) / (a.hi - a.lo)
	if math.IsNaN(share) {
		return 0.5
	}
	return min(max(share, 0), 1)
}

// Ticks returns round values on the axis, with the step between them; that of a
// logarithmic axis is its smallest value.
func (a Axis) Ticks(n int) (values []float64, step float64) {
	if !a.log {
		return Ticks(a.lo, a.hi, n)
	}
	lo, hi := math.Exp(a.lo), math.Exp(a.hi)
	for decade := math.Floor(math.Log10(lo)); decade <= math.Ceil(math.Log10(hi)) && len(values) < 60; decade++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow(10, decade); v >= lo && v <= hi {
				values = append(values, v)
			}
		}
	}
	if len(values) == 0 {
		values = []float64{lo}
	}
	return values, values[0]
}
