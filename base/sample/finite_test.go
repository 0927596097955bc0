package sample

import (
	"math"
	"testing"
)

func TestFiniteOmitsWhatJSONLacks(t *testing.T) {
	for _, v := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
		if Finite(v) != nil || IsFinite(v) {
			t.Errorf("%g is finite", v)
		}
	}
	if v := Finite(-2); v == nil || *v != -2 {
		t.Errorf("-2 is %v", v)
	}
}
