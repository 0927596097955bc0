package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// What is predicted is what the test does in other replays, look by look.
func TestReachIsThatOfTheTest(t *testing.T) {
	looks := []int{8, 10, 12, 14, 16, 18}
	levels := Boundaries(looks, []float64{.016, .007, .006, .006, .006, .006})
	reach := NewReach(looks, levels)
	r := rand.New(rand.NewPCG(1, 2))
	const runs = 2000
	for _, shift := range []float64{0, 0.4, 0.7, 1, 1.6} {
		want := reach.Power(shift)
		got := make([]float64, len(looks))
		for range runs {
			x := make([]float64, 18)
			for i := range x {
				x[i] = shift + r.NormFloat64()
			}
			for k, n := range looks {
				if s := SignedRankTest(x[:n]); s.P <= levels[k] && NewWalsh(x[:n]).Median() > 0 {
					for j := k; j < len(looks); j++ {
						got[j]++
					}
					break
				}
			}
		}
		for k := range looks {
			if d := got[k]/runs - want[k]; math.Abs(d) > 0.04 {
				t.Errorf("shift %v: by %d values %.3f are called, %.3f were predicted", shift, looks[k], got[k]/runs, want[k])
			}
		}
	}
	for k := range looks {
		if s := reach.Smallest(k, 0.8); math.Abs(reach.Power(s)[k]-0.8) > 0.01 {
			t.Errorf("look %d: %v is called in %v", k, s, reach.Power(s))
		}
		if k > 0 && (reach.Smallest(k, 0.8) >= reach.Smallest(k-1, 0.8) ||
			reach.Equivalence(k, 0.8) >= reach.Equivalence(k-1, 0.8)) {
			t.Error("a later look finds less")
		}
	}
}

// With many values it is the normal test of n·3/π values; eight have no
// outcome that is rarer than 2^−7.
func TestReachAtItsLimits(t *testing.T) {
	reach := NewReach([]int{8, 400}, []float64{.004, .05})
	if s := reach.Smallest(0, 0.8); !math.IsInf(s, 1) {
		t.Errorf("eight values at 0.4 %% call %v", s)
	}
	if s, want := reach.Smallest(1, 0.8), 2.802/math.Sqrt(400*3/math.Pi); math.Abs(s/want-1) > 0.06 {
		t.Errorf("400 values call %v, a normal test %v", s, want)
	}
	if s, want := reach.Equivalence(1, 0.8), (1.960+1.282)/math.Sqrt(400*3/math.Pi); math.Abs(s/want-1) > 0.06 {
		t.Errorf("400 values are equal within %v, by a normal test %v", s, want)
	}
	// What is reached there takes as many values again as there are.
	se := 1 / math.Sqrt(400*3/math.Pi)
	if g := Growth(reach.Smallest(1, Likely), se, 0, .05); math.Abs(g-1) > 0.12 {
		t.Errorf("a difference that 400 values call takes %v times as many", g)
	}
	if g := Growth(0, se, reach.Equivalence(1, Likely), .05); math.Abs(g-1) > 0.12 {
		t.Errorf("an equivalence that 400 values call takes %v times as many", g)
	}
	if p := NewReach(nil, nil).Power(1); len(p) != 0 {
		t.Errorf("without looks %v", p)
	}
}

// The interval of so many times the values decides as often as is promised.
func TestGrowth(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	const limit, se, alpha = 1.0, 0.7, .02
	z := NormalTail(alpha / 2)
	for _, truth := range []float64{0, 0.1, 0.45, -0.45, 0.8, 1.0, -1.7} {
		s := se / math.Sqrt(Growth(truth, se, limit, alpha))
		differ, same := 0, 0
		const runs = 20000
		for range runs {
			e := truth + s*r.NormFloat64()
			if (e-z*s)*truth > 0 && e > 0 || (e+z*s)*truth > 0 && e < 0 {
				differ++
			}
			if e-z*s >= -limit && e+z*s <= limit {
				same++
			}
		}
		if p := float64(max(differ, same)) / runs; math.Abs(p-Likely) > 0.01 {
			t.Errorf("a truth of %v is decided in %v, want %v", truth, p, Likely)
		}
	}
	if g := Growth(0, 1, 0, .05); !math.IsInf(g, 1) {
		t.Errorf("nothing is told from nothing by %v times as many", g)
	}
}
