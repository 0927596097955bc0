package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestAutocorrelation(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	xs := make([]float64, 5000)
	x := 0.0
	for i := range xs {
		x = 0.8*x + 0.6*r.NormFloat64()
		xs[i] = x
	}
	a := AutocorrelationTest(xs, 60)
	if !near(a.R[0], 0.8, 0.05) || !near(a.R[1], 0.64, 0.06) || a.P > 1e-6 {
		t.Errorf("%v %v", a.R[:2], a.P)
	}
	if want := 5000. / 9; math.Abs(a.Effective/want-1) > 0.25 { // (1+ρ)/(1−ρ) = 9
		t.Errorf("%v effective values, want about %v", a.Effective, want)
	}
	for _, c := range []struct{ x, df, p float64 }{{3.841, 1, 0.05}, {18.307, 10, 0.05},
		{2.558, 10, 0.99}, {135.807, 100, 0.01}} {
		if got := chiSquareTail(c.x, c.df); !near(got, c.p, 1e-4) { // tables of χ²
			t.Errorf("χ² %v with %v: %v, want %v", c.x, c.df, got, c.p)
		}
	}
	hits := 0
	for range 400 {
		for i := range 100 {
			xs[i] = r.NormFloat64()
		}
		if AutocorrelationTest(xs[:100], 10).P <= 0.05 {
			hits++
		}
	}
	if s := float64(hits) / 400; s > 0.05+5*math.Sqrt(0.05*0.95/400) {
		t.Errorf("independent values were called dependent in %v of runs", s)
	}
}

func FuzzSeries(f *testing.F) {
	f.Add([]byte{1, 2, 3, 255, 254, 253, 0, 0})
	f.Add([]byte{})
	f.Add([]byte{7})
	f.Add([]byte{7, 7})
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 200 {
			return
		}
		xs := make([]float64, len(in))
		for i, b := range in {
			xs[i] = float64(int8(b))
			switch b {
			case 255:
				xs[i] = math.Inf(1)
			case 254:
				xs[i] = math.Inf(-1)
			case 253:
				xs[i] = math.NaN()
			}
		}
		if c := ScanPoint(xs); c.At < 0 || c.At > 0 && c.At >= len(xs) {
			t.Fatalf("%+v of %d values", c, len(xs))
		}
		ScanWithin(xs, 20, rand.NewPCG(6, 6), 0.05)
		for i, p := range []float64{AutocorrelationTest(xs, 5).P, RankSum(xs[:len(xs)/2], xs[len(xs)/2:]).P} {
			if !(p >= 0 && p <= 1) {
				t.Fatalf("test %d of %v: P %v", i, xs, p)
			}
		}
	})
}

// The p-value of a scan is the share of all orders that are as far, and a
// change near an end is found.
func TestScan(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	xs := []float64{1, 2, 0, 9, 8, 7, 10} // the first three are low
	c, p := ScanPoint(xs), scanP(xs, 20000, r)
	if c.At != 3 || c.Before != 1 || c.After != 8.5 {
		t.Errorf("%+v", c)
	}
	ranks := midranks(xs)
	want, _ := scanRanks(ranks)
	hits, all := 0, 0
	var orders func(i int)
	orders = func(i int) {
		if i == len(ranks) {
			all++
			if k, _ := scanRanks(ranks); k >= want*(1-1e-12) {
				hits++
			}
			return
		}
		for j := i; j < len(ranks); j++ {
			ranks[i], ranks[j] = ranks[j], ranks[i]
			orders(i + 1)
			ranks[i], ranks[j] = ranks[j], ranks[i]
		}
	}
	orders(0)
	if exact := float64(hits) / float64(all); math.Abs(p-exact) > 0.01 {
		t.Errorf("p is %v, and %v of all orders are as far", p, exact)
	}
	late := make([]float64, 26)
	for i := range late {
		late[i] = float64(i % 5)
		if i >= 22 {
			late[i] += 10
		}
	}
	if c := ScanPoint(late); c.At != 22 || scanP(late, 999, r) > 0.01 {
		t.Errorf("a change near the end: %+v", c)
	}
	if c := ScanPoint([]float64{1, math.NaN()}); c != (ChangePoint{}) {
		t.Errorf("not a number: %+v", c)
	}
}
