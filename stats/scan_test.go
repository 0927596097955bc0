package stats

import (
	"math/rand/v2"
	"testing"
)

// Orders are told as extreme exactly where the statistic, computed anew,
// reaches that of the values, also with ties; and a test that ends early says
// what the whole one does.
func TestScanTellsEachOrder(t *testing.T) {
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
		r, ranks := rand.New(rand.NewPCG(seed, 1)), midranks(xs)
		k, _ := scan(ranks)
		hits := 1
		for range permutations {
			r.Shuffle(n, func(i, j int) { ranks[i], ranks[j] = ranks[j], ranks[i] })
			if other, _ := scan(ranks); other >= k*(1-1e-12) {
				hits++
			}
		}
		want := float64(hits) / (permutations + 1)
		if c := ScanTest(xs, permutations, rand.New(rand.NewPCG(seed, 1))); c.P != want {
			t.Fatalf("%v: P is %v, want %v", xs, c.P, want)
		}
		for _, p := range []float64{0, 0.005, 0.02, 0.04, 0.3, want, 1} {
			if got := ScanWithin(xs, permutations, rand.New(rand.NewPCG(seed, 1)), p); got != (want <= p) {
				t.Fatalf("%v: P %v is within %v: %v", xs, want, p, got)
			}
		}
	}
	if ScanWithin(nil, 9, draw, .5) || !ScanWithin(nil, 9, draw, 1) {
		t.Error("nothing has a P of 1")
	}
}
