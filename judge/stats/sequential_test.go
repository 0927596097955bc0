package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Pocock's constants for 5 % two-sided: with the nominal level that all five
// looks share, the error spent must add up to 5 %. Source: Jennison and
// Turnbull, table 2.1 (K = 5: 2.413; K = 2: 2.178) and for O'Brien and
// Fleming table 2.3 (K = 5: 2.040·√(5/k)).
func TestBoundariesPublished(t *testing.T) {
	for _, c := range []struct {
		name string
		z    []float64
	}{
		{"Pocock 2", []float64{2.178, 2.178}},
		{"Pocock 5", []float64{2.413, 2.413, 2.413, 2.413, 2.413}},
		{"O'Brien and Fleming 5", []float64{2.040 * math.Sqrt(5), 2.040 * math.Sqrt(5./2), 2.040 * math.Sqrt(5./3),
			2.040 * math.Sqrt(5./4), 2.040}},
	} {
		looks := make([]int, len(c.z))
		spend := make([]float64, len(c.z))
		total := 0.0
		for k := range c.z { // find the spending that gives these boundaries, look by look
			looks[k] = 10 * (k + 1)
			lo, hi := 0.0, 0.05
			for range 24 {
				spend[k] = (lo + hi) / 2
				if Boundaries(looks[:k+1], spend[:k+1])[k] < 2*normalCDF(-c.z[k]) {
					lo = spend[k]
				} else {
					hi = spend[k]
				}
			}
			total += spend[k]
		}
		if !near(total, 0.05, 1e-4) {
			t.Errorf("%s spends %v", c.name, total)
		}
	}
}

func TestBoundariesHoldTheirError(t *testing.T) {
	looks, spend := []int{8, 12, 18, 26}, []float64{.010, .010, .015, .015}
	levels := Boundaries(looks, spend)
	if !near(levels[0], .010, 1e-9) {
		t.Errorf("the first look has %v", levels[0])
	}
	r := rand.New(rand.NewPCG(4, 4))
	const runs = 40000
	hits := make([]float64, 4)
	for range runs {
		sum, n := 0.0, 0
		for k, l := range looks {
			for ; n < l; n++ {
				sum += r.NormFloat64()
			}
			if 2*normalCDF(-math.Abs(sum)/math.Sqrt(float64(n))) <= levels[k] {
				hits[k]++
				break
			}
		}
	}
	for k := range looks {
		if got := hits[k] / runs; !near(got, spend[k], 4*math.Sqrt(spend[k]/runs)) {
			t.Errorf("look %d: spent %v of %v", k, got, spend[k])
		}
	}
	for k, l := range Boundaries(looks, []float64{0, .02, 0, .02}) {
		if (l == 0) != (k%2 == 0) {
			t.Errorf("look %d spends nothing or something at level %v", k, l)
		}
	}
	// A smaller share has smaller levels at every look.
	for k, l := range Boundaries(looks, []float64{.005, .005, .0075, .0075}) {
		if l >= levels[k] {
			t.Errorf("half the error gives level %v at look %d, all of it %v", l, k, levels[k])
		}
	}
}
