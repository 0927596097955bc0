package stats

import (
	"math/rand/v2"
	"testing"
)

// scanP is the p-value that ScanWithin compares, from all permutations.
func scanP(xs []float64, permutations int, r *rand.Rand) float64 {
	ranks := midranks(xs)
	k, _ := scanRanks(ranks)
	hits := 1
	for range permutations {
		r.Shuffle(len(ranks), func(i, j int) { ranks[i], ranks[j] = ranks[j], ranks[i] })
		if other, _ := scanRanks(ranks); other >= k*(1-1e-12) {
			hits++
		}
	}
	return float64(hits) / float64(permutations+1)
}

// A test that ends early, and computes no statistic, says what the whole one
// does, also with ties.
func TestScanWithin(t *testing.T) {
	draw := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		n := 2 + draw.IntN(40)
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = draw.NormFloat64()
			if n%3 == 0 {
				xs[i] = float64(draw.IntN(4)) // ties
			}
			if n%4 == 0 && i > n/2 {
				xs[i]++
			}
		}
		const permutations = 199
		seed := draw.Uint64()
		want := scanP(xs, permutations, rand.New(rand.NewPCG(seed, 1)))
		for _, p := range []float64{0, 0.005, 0.02, 0.04, 0.3, want, 1} {
			if got := ScanWithin(xs, permutations, rand.NewPCG(seed, 1), p); got != (want <= p) {
				t.Fatalf("%v: P %v is within %v: %v", xs, want, p, got)
			}
		}
	}
	if ScanWithin(nil, 9, rand.NewPCG(1, 1), .5) || !ScanWithin(nil, 9, rand.NewPCG(1, 1), 1) {
		t.Error("nothing has a P of 1")
	}
}
