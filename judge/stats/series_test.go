package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestEquivalenceAgreesWithTheInterval(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		xs := make([]float64, 5+r.IntN(20))
		for i := range xs {
			xs[i] = r.NormFloat64()
		}
		alpha := 0.05
		margin := r.Float64()
		e := HodgesLehmann(xs, 1-2*alpha)
		if in := -margin < e.Lo && e.Hi < margin; in != (EquivalenceTest(xs, margin).P <= alpha) {
			t.Fatalf("interval [%v %v], margin %v, P %v", e.Lo, e.Hi, margin, EquivalenceTest(xs, margin).P)
		}
	}
	if e := EquivalenceTest([]float64{1}, math.NaN()); e.P != 1 || len(e.Warnings) != 1 {
		t.Errorf("%+v", e)
	}
}

func permute(n int, f func([]float64)) {
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = float64(i)
	}
	var rec func(int)
	rec = func(k int) {
		if k == n {
			f(xs)
			return
		}
		for i := k; i < n; i++ {
			xs[k], xs[i] = xs[i], xs[k]
			rec(k + 1)
			xs[k], xs[i] = xs[i], xs[k]
		}
	}
	rec(0)
}

func TestTrendEqualsEnumeration(t *testing.T) {
	counts, all := map[int]float64{}, 0.0
	permute(6, func(xs []float64) {
		s := 0
		for i := range xs {
			for _, y := range xs[i+1:] {
				if y > xs[i] {
					s++
				} else {
					s--
				}
			}
		}
		if got := TrendTest(xs).S; got != s {
			t.Fatalf("%v: S %d, want %d", xs, got, s)
		}
		counts[s]++
		all++
	})
	for s := range counts {
		var tail float64
		for other, c := range counts {
			if max(other, -other) >= max(s, -s) {
				tail += c
			}
		}
		if got := kendallP(6, s); !near(got, min(1, tail/all), 1e-12) {
			t.Errorf("S %d: %v, want %v", s, got, tail/all)
		}
	}
}

func TestTrendPublished(t *testing.T) {
	// Kendall's table: n = 10, S = 23 has P(S ≥ 23) = 0.023.
	if got := kendallP(10, 23) / 2; !near(got, 0.023, 5e-4) {
		t.Errorf("%v", got)
	}
	// Sen 1968: slope of x against 1, 2, 3, 4, 10, 12, 18 is 4; here even steps.
	if r := TrendTest([]float64{1, 3, 5, 7, 9, 11, 13}); r.Slope != 2 || r.S != 21 || !near(r.P, 2./5040, 1e-12) {
		t.Errorf("%+v", r)
	}
	// All the same: no trend. A clear one with ties: not exact, and found.
	if r := TrendTest([]float64{5, 5, 5, 5}); r.P != 1 || r.S != 0 || r.Slope != 0 {
		t.Errorf("%+v", r)
	}
	if r := TrendTest([]float64{1, 2, 2, 3, 3, 3, 4, 5, 5, 6}); r.S != 40 || r.Exact || r.P > 0.001 {
		t.Errorf("%+v", r)
	}
}

func TestChangePoint(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	xs := make([]float64, 40)
	for i := range xs {
		xs[i] = r.NormFloat64()
		if i >= 25 {
			xs[i] += 3
		}
	}
	c := ChangePointTest(xs, 999, r)
	if c.At < 23 || c.At > 27 || c.P > 0.002 || c.After-c.Before < 2 {
		t.Errorf("%+v", c)
	}
	hits := 0
	for range 400 { // holds its level without a change
		for i := range xs {
			xs[i] = r.NormFloat64()
		}
		if ChangePointTest(xs, 99, r).P <= 0.05 {
			hits++
		}
	}
	if s := float64(hits) / 400; s > 0.05+4*math.Sqrt(0.05*0.95/400) {
		t.Errorf("called a change in %v of runs without one", s)
	}
}

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
	for _, c := range []struct{ x, df, p float64 }{{3.841, 1, 0.05}, {18.307, 10, 0.05}, {2.558, 10, 0.99}, {135.807, 100, 0.01}} {
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

// Groups with an effect of their own: resampling trials as if they were
// independent would cover far less.
func TestBootstrapKeepsGroupsTogether(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	covered, naive := 0, 0
	const runs = 200
	for range runs {
		groups := make([][]float64, 20)
		var flat []float64
		for i := range groups {
			g := r.NormFloat64()
			for range 10 {
				groups[i] = append(groups[i], g+0.3*r.NormFloat64())
			}
			flat = append(flat, groups[i]...)
		}
		mean := func(at func(int) []float64, n int) float64 {
			var sum, count float64
			for i := range n {
				for _, x := range at(i) {
					sum, count = sum+x, count+1
				}
			}
			return sum / count
		}
		b := Bootstrap{Groups: 20, Resamples: 300, Level: 0.9, Rand: r}
		e := b.Interval(func(p []int) float64 { return mean(func(i int) []float64 { return groups[p[i]] }, len(p)) })
		if e.Lo <= 0 && 0 <= e.Hi {
			covered++
		}
		b.Groups = len(flat)
		e = b.Interval(func(p []int) float64 { return mean(func(i int) []float64 { return flat[p[i] : p[i]+1] }, len(p)) })
		if e.Lo <= 0 && 0 <= e.Hi {
			naive++
		}
	}
	if s := float64(covered) / runs; s < 0.87-4*math.Sqrt(0.09/runs) {
		t.Errorf("covers %v", s)
	}
	if naive > covered-runs/4 {
		t.Errorf("groups cover %d of %d, single values %d: the test shows nothing", covered, runs, naive)
	}
}

func TestCompareQuantile(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	a, b := make([][]float64, 20), make([][]float64, 20)
	for i := range a {
		g := 1 + 0.2*r.Float64()
		for range 200 {
			a[i] = append(a[i], g+r.ExpFloat64()*1.5)
			b[i] = append(b[i], g+r.ExpFloat64())
		}
	}
	e := CompareQuantile(a, b, 0.99, 0.95, 400, r)
	if want := 0.5 * math.Log(100); e.Lo > want || want > e.Hi || e.Lo < 0.5 || len(e.Warnings) != 0 {
		t.Errorf("%+v, want about %v", e, want)
	}
	if e := CompareQuantile(a[:3], b[:3], 0.999, 0.95, 50, r); len(e.Warnings) != 2 {
		t.Errorf("%+v", e)
	}
	if e := CompareQuantile([][]float64{{}}, [][]float64{{1}}, 0.5, 0.95, 50, r); len(e.Warnings) != 1 {
		t.Errorf("%+v", e)
	}
	xs := make([]float64, 100)
	for i := range xs {
		xs[i] = float64(i + 1)
	}
	if q := Quantile(xs, 0.99); q != 99 {
		t.Errorf("p99 of 1…100 is %v", q)
	}
	// The median's interval is the special case.
	m, q := MedianInterval(xs, 0.95), QuantileInterval(xs, 0.5, 0.95)
	if m.Lo != q.Lo || m.Hi != q.Hi || !near(m.Actual, q.Actual, 1e-9) {
		t.Errorf("%+v %+v", m, q)
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
		r := rand.New(rand.NewPCG(6, 6))
		back := slices.Clone(xs)
		slices.Reverse(back)
		a, b := TrendTest(xs), TrendTest(back)
		if a.S != -b.S || a.P != b.P || !(a.P >= 0 && a.P <= 1) {
			t.Fatalf("forwards %+v, backwards %+v", a, b)
		}
		ps := []float64{ChangePointTest(xs, 20, r).P, AutocorrelationTest(xs, 5).P, EquivalenceTest(xs, 1).P,
			RankSum(xs[:len(xs)/2], xs[len(xs)/2:]).P}
		for i, p := range ps {
			if !(p >= 0 && p <= 1) {
				t.Fatalf("test %d of %v: P %v", i, xs, p)
			}
		}
		for _, e := range []Estimate{QuantileInterval(xs, 0.9, 0.9), CompareQuantile([][]float64{xs, xs}, [][]float64{back, xs}, 0.5, 0.9, 20, r)} {
			if e.Lo > e.Hi {
				t.Fatalf("%+v", e)
			}
		}
	})
}

// The p-value of a scan is the share of all orders that are as far, and a
// change near an end is found.
func TestScan(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	xs := []float64{1, 2, 0, 9, 8, 7, 10} // the first three are low
	c := ScanTest(xs, 20000, r)
	if c.At != 3 || c.Before != 1 || c.After != 8.5 {
		t.Errorf("%+v", c)
	}
	ranks := midranks(xs)
	want, _ := scan(ranks)
	hits, all := 0, 0
	var orders func(i int)
	orders = func(i int) {
		if i == len(ranks) {
			all++
			if k, _ := scan(ranks); k >= want*(1-1e-12) {
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
	if exact := float64(hits) / float64(all); math.Abs(c.P-exact) > 0.01 {
		t.Errorf("p is %v, and %v of all orders are as far", c.P, exact)
	}
	late := make([]float64, 26)
	for i := range late {
		late[i] = float64(i % 5)
		if i >= 22 {
			late[i] += 10
		}
	}
	if c := ScanTest(late, 999, r); c.At != 22 || c.P > 0.01 {
		t.Errorf("a change near the end: %+v", c)
	}
	if c := ScanTest([]float64{1, math.NaN()}, 9, r); c.P != 1 || len(c.Warnings) == 0 {
		t.Errorf("what is no number: %+v", c)
	}
}
