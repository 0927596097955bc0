package stats

import (
	"math"
	"testing"
)

// The closed forms at k = 0 and k = n, and the table of Clopper and Pearson as
// R's binom.test gives it for 5 of 100 and 2 of 8.
func TestClopperPearson(t *testing.T) {
	for _, x := range []struct {
		k, n   int
		lo, hi float64
	}{
		{0, 10, 0, 1 - math.Pow(0.025, 0.1)},
		{10, 10, math.Pow(0.025, 0.1), 1},
		{5, 100, 0.01643187, 0.11283491},
		{2, 8, 0.03185403, 0.65085579},
		{0, 0, 0, 1},
	} {
		lo, hi := ClopperPearson(x.k, x.n, 0.95)
		if math.Abs(lo-x.lo) > 1e-6 || math.Abs(hi-x.hi) > 1e-6 {
			t.Errorf("%d of %d: [%.8f, %.8f], want [%.8f, %.8f]", x.k, x.n, lo, hi, x.lo, x.hi)
		}
	}
	if lo, hi := ClopperPearson(3, 2, 0.95); !math.IsNaN(lo) || !math.IsNaN(hi) {
		t.Errorf("3 of 2: [%v, %v]", lo, hi)
	}
}

// For every true probability the interval holds it at least as often as it
// says, by full enumeration.
func TestClopperPearsonCovers(t *testing.T) {
	const n = 12
	for p := 0.01; p < 1; p += 0.01 {
		var covered float64
		choose := 1.0
		for k := 0; k <= n; k++ {
			if lo, hi := ClopperPearson(k, n, 0.9); lo <= p && p <= hi {
				covered += choose * math.Pow(p, float64(k)) * math.Pow(1-p, float64(n-k))
			}
			choose *= float64(n-k) / float64(k+1)
		}
		if covered < 0.9 {
			t.Errorf("at %.2f it covers %.4f", p, covered)
		}
	}
}

// Table: t(0.975) for 1, 4 and 30 degrees of freedom.
func TestStudentQuantile(t *testing.T) {
	for df, want := range map[float64]float64{1: 12.7062, 4: 2.7764, 30: 2.0423} {
		if got := StudentQuantile(0.95, df); math.Abs(got-want) > 1e-3 {
			t.Errorf("%v degrees: %v, want %v", df, got, want)
		}
	}
}
