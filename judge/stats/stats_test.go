package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func near(a, b, tol float64) bool { return a == b || math.Abs(a-b) <= tol }

// enumerate calls f with every assignment of signs to the magnitudes of xs.
func enumerate(xs []float64, f func([]float64)) {
	s := make([]float64, len(xs))
	for mask := range 1 << len(xs) {
		for i, x := range xs {
			s[i] = math.Abs(x)
			if mask>>i&1 == 1 {
				s[i] = -s[i]
			}
		}
		f(s)
	}
}

// plainW is the sum of the midranks of the positive values, the slow way.
func plainW(xs []float64) float64 {
	var w float64
	for _, x := range xs {
		if x <= 0 {
			continue
		}
		less, same := 0, 0
		for _, y := range xs {
			if math.Abs(y) < x {
				less++
			} else if math.Abs(y) == x {
				same++
			}
		}
		w += float64(less) + float64(same+1)/2
	}
	return w
}

func TestSignedRankEqualsEnumeration(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for n := 1; n <= 9; n++ {
		for range 6 {
			xs := make([]float64, n)
			for i := range xs {
				xs[i] = math.Round(r.NormFloat64()*3) / 2 // ties and zeros
				if r.IntN(12) == 0 {
					xs[i] = math.Inf(1 - 2*r.IntN(2))
				}
			}
			got := SignedRankTest(xs)
			w := plainW(xs)
			if got.W != w && got.Zeros < n {
				t.Fatalf("%v: W = %v, want %v", xs, got.W, w)
			}
			if got.Zeros == n {
				continue
			}
			var less, greater, all float64
			enumerate(xs, func(s []float64) {
				all++
				if v := plainW(s); v <= w {
					less++
				}
				if v := plainW(s); v >= w {
					greater++
				}
			})
			if !near(got.Less, less/all, 1e-12) || !near(got.Greater, greater/all, 1e-12) {
				t.Errorf("%v: %v %v, want %v %v", xs, got.Less, got.Greater, less/all, greater/all)
			}
		}
	}
}

// Wilcoxon's critical values: the largest w with P(W ≤ w) ≤ 0.025 and 0.005.
// Source: Hollander, Wolfe and Chicken, table A.4 (and McCornack 1965).
func TestSignedRankTable(t *testing.T) {
	for _, c := range []struct {
		n, at025, at005 int
	}{{6, 0, -1}, {8, 3, 0}, {10, 8, 3}, {12, 13, 7}, {15, 25, 15}, {18, 40, 27}, {20, 52, 37}, {25, 89, 68}, {30, 137,
		109}, {40, 264, 220}, {50, 434, 373}} {
		for tail, want := range map[float64]int{0.025: c.at025, 0.005: c.at005} {
			k, p, exact := walshRank(c.n, tail)
			if k-1 != want || !exact || p > tail {
				t.Errorf("n = %d, tail %v: critical value %d (p %v), want %d", c.n, tail, k-1, p, want)
			}
		}
	}
	// Counts of subsets of {1..n} by their sum, by hand for n = 5.
	if got := signedRankTail(5); !slices.Equal(got, []uint64{1, 2, 3, 5, 7, 10, 13, 16, 19, 22, 25, 27, 29, 30, 31, 32}) {
		t.Errorf("n = 5: %v", got)
	}
}

func TestSignedRankApproximationMeetsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 50 {
		xs := make([]float64, ExactSignedRank)
		for i := range xs {
			xs[i] = math.Round(40*(r.NormFloat64()+0.2)) / 20
		}
		exact := SignedRankTest(xs)
		var flips []int
		total, plus := 0, int(2*exact.W)
		for i, k := range doubledRanks(xs) {
			if xs[i] != 0 {
				flips, total = append(flips, k), total+k
			}
		}
		less, greater := normalTails(flips, plus, total)
		if !near(less, exact.Less, 0.002) || !near(greater, exact.Greater, 0.002) {
			t.Errorf("approximation %v %v, exact %v %v", less, greater, exact.Less, exact.Greater)
		}
	}
	over := SignedRankTest(make([]float64, 61))
	if over.Exact {
		t.Error("61 values are claimed to be exact")
	}
}

// The interval holds θ exactly when the test of xs − θ does not reject: the
// defining property, checked by the coverage under all signs.
func TestHodgesLehmannCoversUnderAllSigns(t *testing.T) {
	for _, c := range []struct {
		xs     []float64
		exact  bool // no ties: attained coverage is the truth
		levels []float64
	}{
		{[]float64{1, 2.5, 4.1, 5.3, 7.7, 9.2, 11.9, 13.1, 17.3, 23.9}, true, []float64{0.9, 0.95, 0.99, 0.998}},
		{[]float64{1, 1, 2, 2, 2, 3, 3, 0, 0}, false, []float64{0.9, 0.99}},
		{[]float64{1, 2, 3, math.Inf(1), math.Inf(1), 4, 4, 5}, false, []float64{0.9, 0.99}},
	} {
		for _, level := range c.levels {
			var covered, all, actual float64
			enumerate(c.xs, func(s []float64) {
				e := HodgesLehmann(s, level)
				all++
				actual = e.Actual
				if e.Lo <= 0 && 0 <= e.Hi {
					covered++
				}
			})
			if covered/all < actual-1e-12 || actual < level {
				t.Errorf("%v: covers %v, says %v, asked %v", c.xs, covered/all, actual, level)
			}
			if c.exact && !near(covered/all, actual, 1e-12) {
				t.Errorf("%v: covers %v, says %v", c.xs, covered/all, actual)
			}
		}
	}
}

// Depression scale of nine patients: estimate −0.46, 96 % interval
// (−0.786, −0.010). Source: Hollander, Wolfe and Chicken, examples 3.1 to 3.4
// (R: wilcox.test(y, x, paired = TRUE, conf.int = TRUE): V = 5, p = 0.03906).
func TestHodgesLehmannPublished(t *testing.T) {
	x := []float64{1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30}
	y := []float64{0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29}
	var z []float64
	for i := range x {
		z = append(z, y[i]-x[i])
	}
	e := HodgesLehmann(z, 0.96)
	if !near(e.Value, -0.46, 1e-9) || !near(e.Lo, -0.786, 1e-9) || !near(e.Hi, -0.010, 1e-9) ||
		!near(e.Actual, 0.9609375, 1e-9) {
		t.Errorf("%+v", e)
	}
	if s := SignedRankTest(z); s.W != 5 || !near(s.P, 0.0390625, 1e-12) {
		t.Errorf("%+v", s)
	}
}

func TestTooFewValuesBoundNothing(t *testing.T) {
	for n := range 8 {
		e := HodgesLehmann(make([]float64, n), 0.99)
		if !math.IsInf(e.Lo, -1) || !math.IsInf(e.Hi, 1) || len(e.Warnings) != 1 || e.Actual != 1 {
			t.Errorf("n = %d: %+v", n, e)
		}
		if m := MedianInterval(make([]float64, n), 0.99); !math.IsInf(m.Lo, -1) || len(m.Warnings) != 1 {
			t.Errorf("n = %d: %+v", n, m)
		}
	}
	if e := HodgesLehmann(make([]float64, 8), 0.99); e.Lo != 0 || e.Hi != 0 || len(e.Warnings) != 0 {
		t.Errorf("n = 8: %+v", e)
	}
	for alpha, want := range map[float64]int{0.01: 8, 0.05: 6, 0.015: 8, 0.0025: 10, 1: 1, 0: math.MaxInt} {
		if got := SignedRankNeeds(alpha); got != want {
			t.Errorf("SignedRankNeeds(%v) = %d, want %d", alpha, got, want)
		}
	}
}

// Above walshListed values order statistics are found by counting: the two
// ways must agree, infinities and ties included.
func TestWalshCountingEqualsListing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for round := range 40 {
		xs := make([]float64, 20+r.IntN(60))
		for i := range xs {
			xs[i] = math.Round(r.NormFloat64() * 8)
			if round%2 == 1 && r.IntN(9) == 0 {
				xs[i] = math.Inf(1 - 2*r.IntN(2))
			}
		}
		listed := NewWalsh(xs)
		counted := NewWalsh(xs)
		counted.averages = nil
		if a, b := listed.Median(), counted.Median(); a != b {
			t.Fatalf("medians %v and %v of %v", a, b, xs)
		}
		for _, level := range []float64{0.5, 0.9, 0.99, 0.9999} {
			a, b := listed.Interval(level), counted.Interval(level)
			if a.Lo != b.Lo || a.Hi != b.Hi {
				t.Fatalf("[%v %v] and [%v %v] of %v", a.Lo, a.Hi, b.Lo, b.Hi, xs)
			}
		}
	}
}

func TestMedianInterval(t *testing.T) {
	// Conover 3.2: n = 16, order statistics 5 and 12 cover 0.9232.
	xs := make([]float64, 16)
	for i := range xs {
		xs[i] = float64(i + 1)
	}
	e := MedianInterval(xs, 0.90)
	if e.Lo != 5 || e.Hi != 12 || !near(e.Actual, 0.923187255859375, 1e-12) || e.Value != 8.5 {
		t.Errorf("%+v", e)
	}
	for n := 1; n <= 200; n++ { // logarithms and whole numbers agree where they meet
		if k, p := medianRank(n, 0.025); p > 0.025*(1+1e-9) || 2*k > n+1 {
			t.Errorf("n = %d: k = %d, p = %v", n, k, p)
		}
	}
	if k, p := medianRank(100, 0.025); k != 40 || !near(p, 0.0176001, 1e-6) { // binomial tables
		t.Errorf("n = 100: %d %v", k, p)
	}
	if m := Median([]float64{math.Inf(-1), math.Inf(1)}); m != 0 {
		t.Errorf("median of two infinities: %v", m)
	}
}

func FuzzLocation(f *testing.F) {
	for _, s := range [][]byte{{}, {0}, {1, 2}, {255, 254, 1, 1, 0, 0, 128}, {253, 5},
		{7, 7, 7, 7, 7, 7, 7, 7, 200, 201, 255, 254}} {
		f.Add(s, 0.95)
	}
	f.Add([]byte{1, 2, 3}, math.NaN())
	f.Fuzz(func(t *testing.T, in []byte, level float64) {
		if len(in) > 600 {
			return
		}
		xs := make([]float64, len(in))
		neg := make([]float64, len(in))
		double := make([]float64, len(in))
		for i, b := range in {
			switch b {
			case 255:
				xs[i] = math.Inf(1)
			case 254:
				xs[i] = math.Inf(-1)
			case 253:
				xs[i] = math.NaN()
			case 252:
				xs[i] = math.MaxFloat64
			default:
				xs[i] = float64(int8(b)) / 4
			}
			neg[i], double[i] = -xs[i], 2*xs[i]
		}
		before := slices.Clone(xs)
		a, b := SignedRankTest(xs), SignedRankTest(neg)
		if !(a.P >= 0 && a.P <= 1) || a.P != b.P || !near(a.Less, b.Greater, 1e-9) {
			t.Fatalf("signs are not symmetric: %+v %+v", a, b)
		}
		for name, est := range map[string]func([]float64, float64) Estimate{"hl": HodgesLehmann, "median": MedianInterval} {
			e, n := est(xs, level), est(neg, level)
			if e.Lo > e.Hi || e.Lo != -n.Hi || e.Hi != -n.Lo {
				t.Fatalf("%s: %+v, of the negatives %+v", name, e, n)
			}
			if e.N > 0 && e.Value == e.Value && (e.Value < e.Lo || e.Value > e.Hi) && level > 0.5 {
				t.Fatalf("%s: the estimate is outside of its interval: %+v", name, e)
			}
			r := slices.Clone(xs)
			slices.Reverse(r)
			if o := est(r, level); o.Lo != e.Lo || o.Hi != e.Hi || o.Value != e.Value && e.Value == e.Value {
				t.Fatalf("%s: order matters: %+v %+v", name, e, o)
			}
			if d := est(double, level); !slices.Contains(in, 252) && (d.Lo != 2*e.Lo || d.Hi != 2*e.Hi) {
				t.Fatalf("%s: units matter: %+v %+v", name, e, d)
			}
		}
		for i := range xs {
			if math.Float64bits(xs[i]) != math.Float64bits(before[i]) {
				t.Fatal("input was modified")
			}
		}
	})
}
