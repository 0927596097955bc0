package main

import (
	"math"
	"testing"
)

// Twice as long does not meet the target, 5 ms more than 2 ms does, and two pairs decide
// nothing.
func TestVerdict(t *testing.T) {
	through, bare := []float64{}, []float64{}
	for i := range 12 {
		bare = append(bare, 100+float64(i))
		through = append(through, 2*(100+float64(i)))
	}
	r, d := compare(through, bare)
	if math.Abs(r.Value-2) > 1e-9 || d.Value < 100 || verdict(r, d) != "not met" {
		t.Errorf("ratio %v, difference %v: %s", r, d, verdict(r, d))
	}
	for i := range bare {
		bare[i] = 2 + 0.01*float64(i)
		through[i] = bare[i] + 5
	}
	if r, d := compare(through, bare); verdict(r, d) != "met" || r.Value < 3 {
		t.Errorf("ratio %v, difference %v: %s", r, d, verdict(r, d))
	}
	if r, d := compare(through[:2], bare[:2]); verdict(r, d) != "inconclusive" {
		t.Errorf("two pairs: %s", verdict(r, d))
	}
}
