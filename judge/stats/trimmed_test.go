package stats

import (
	"math"
	"testing"
)

// As R defines them: x <- c(260, 286.2, 196.4, 205, 183.4, 201.4, 214.6, 203.6, 215.2, 900);
// mean(x, trim=0.1); sd(x)/mean(x, trim=0.1); mean(x[1:5], trim=0.1).
func TestTrimmedMean(t *testing.T) {
	xs := []float64{260, 286.2, 196.4, 205, 183.4, 201.4, 214.6, 203.6, 215.2, 900}
	near := func(name string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9*want {
			t.Errorf("%s: %.12g, want %.12g", name, got, want)
		}
	}
	near("ten values", TrimmedMean(xs, .1), 222.8)
	near("five values keep all", TrimmedMean(xs[:5], .1), 226.2)
	cv, ok := Variation(xs, .1)
	if !ok {
		t.Fatal("no variation")
	}
	near("variation", cv, 0.9774559415890396)
	for _, bad := range [][]float64{{1}, {0, 0}, {-1, -2}} {
		if cv, ok := Variation(bad, .1); ok {
			t.Errorf("%v: %g", bad, cv)
		}
	}
}
