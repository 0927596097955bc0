package stats

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Closed forms of Student's distribution with 1 and 2 degrees of freedom, of the incomplete
// beta function of whole numbers, and of χ² with 1, 2 and 4.
func TestDistributionsEqualClosedForms(t *testing.T) {
	for _, x := range []float64{1e-3, 0.1, 0.5, 1, 1.4, 2, 3, 7, 20, 100, 1e4} {
		if p, want := StudentP(x, 1), 1-2/math.Pi*math.Atan(x); !relative(p, want, 1e-11) {
			t.Errorf("t %v, 1 degree: %v, want %v", x, p, want)
		}
		if p, want := StudentP(-x, 2), 1-x/math.Sqrt(2+x*x); math.Abs(p-want) > 1e-13 {
			t.Errorf("t %v, 2 degrees: %v, want %v", x, p, want)
		}
		if p, want := chiSquareTail(x, 2), math.Exp(-x/2); !relative(p, want, 1e-12) {
			t.Errorf("χ² %v, 2 degrees: %v, want %v", x, p, want)
		}
		if p, want := chiSquareTail(x, 4), math.Exp(-x/2)*(1+x/2); !relative(p, want, 1e-12) {
			t.Errorf("χ² %v, 4 degrees: %v, want %v", x, p, want)
		}
		if p, want := chiSquareTail(x, 1), math.Erfc(math.Sqrt(x/2)); !relative(p, want, 1e-11) {
			t.Errorf("χ² %v, 1 degree: %v, want %v", x, p, want)
		}
	}
	if chiSquareTail(0, 3) != 1 || chiSquareTail(-1, 3) != 1 || chiSquareTail(math.NaN(), 3) != 1 {
		t.Error("χ² that is not positive")
	}
	if StudentP(1, 0) != 1 || StudentP(1, -1) != 1 || StudentP(math.Inf(-1), 4) != 0 || StudentP(0, 4) != 1 {
		t.Error("Student's distribution at its limits")
	}
	for n := 1; n <= 30; n += 7 { // P(X ≥ k) of a binomial
		for k := 1; k <= n; k += 3 {
			for _, p := range []float64{0.01, 0.2, 0.5, 0.77, 0.99} {
				want := 0.0
				for i := k; i <= n; i++ {
					want += float64(binomial(n, i)) * math.Pow(p, float64(i)) * math.Pow(1-p, float64(n-i))
				}
				if got := incompleteBeta(float64(k), float64(n-k+1), p); !relative(got, want, 1e-11) {
					t.Errorf("%d or more of %d at %v: %v, want %v", k, n, p, got, want)
				}
			}
		}
	}
	if incompleteBeta(2, 3, 0) != 0 || incompleteBeta(2, 3, 1) != 1 || incompleteBeta(2, 3, -1) != 0 || incompleteBeta(2,
		3, 2) != 1 {
		t.Error("the incomplete beta function outside of (0, 1)")
	}
	for _, level := range []float64{0.01, 0.5, 0.9, 0.99, 0.9999} {
		if got, want := StudentQuantile(level, 1), math.Tan(math.Pi/2*level); !relative(got, want, 1e-9) {
			t.Errorf("level %v, 1 degree: %v, want %v", level, got, want)
		}
		if got, want := StudentQuantile(level, 2), level*math.Sqrt(2/(1-level*level)); !relative(got, want, 1e-9) {
			t.Errorf("level %v, 2 degrees: %v, want %v", level, got, want)
		}
	}
	if got := StudentQuantile(0, 3); got > 1e-6 {
		t.Errorf("level 0: %v", got)
	}
}

// At the bounds of Clopper and Pearson the binomial tails have half of the error each.
func TestClopperPearsonInvertsBothTails(t *testing.T) {
	for _, level := range []float64{0.5, 0.9, 0.99} {
		for n := 1; n <= 40; n += 13 {
			for k := 0; k <= n; k += 3 {
				lo, hi := ClopperPearson(k, n, level)
				upper, lower := 0.0, 0.0
				for i := 0; i <= n; i++ {
					c := float64(binomial(n, i))
					if i >= k {
						upper += c * math.Pow(lo, float64(i)) * math.Pow(1-lo, float64(n-i))
					}
					if i <= k {
						lower += c * math.Pow(hi, float64(i)) * math.Pow(1-hi, float64(n-i))
					}
				}
				if k == 0 != (lo == 0) || k > 0 && math.Abs(upper-(1-level)/2) > 1e-10 {
					t.Errorf("%d of %d at %v: %v has the tail %v", k, n, level, lo, upper)
				}
				if k == n != (hi == 1) || k < n && math.Abs(lower-(1-level)/2) > 1e-10 {
					t.Errorf("%d of %d at %v: %v has the tail %v", k, n, level, hi, lower)
				}
			}
		}
	}
	for _, x := range []struct {
		k, n  int
		level float64
	}{{-1, 5, 0.9}, {6, 5, 0.9}, {1, 5, 0}, {1, 5, 1}, {1, 5, math.NaN()}, {1, 5, -0.1}, {1, 5, 1.1}} {
		if lo, hi := ClopperPearson(x.k, x.n, x.level); lo == lo || hi == hi {
			t.Errorf("%+v: [%v, %v]", x, lo, hi)
		}
	}
}

// The autocorrelations, their test and the effective number by the formulas of the sources.
func TestAutocorrelationByHand(t *testing.T) {
	xs := []float64{1, 2, 3, 4, 6, 5, 4, 5, 7, 9, 8, 7, 3, 2, 1, 1}
	n, mean := 16., 68./16
	at := func(k int) float64 {
		c, v := 0.0, 0.0
		for i, x := range xs {
			v += (x - mean) * (x - mean)
			if i >= k {
				c += (x - mean) * (xs[i-k] - mean)
			}
		}
		return c / v
	}
	for _, lag := range []int{1, 2, 3, 4, 5, 15, 40} {
		a := AutocorrelationTest(xs, lag)
		want := min(lag, 15)
		if a.N != 16 || len(a.R) != want || (len(a.Warnings) == 1) != (lag > 4) {
			t.Fatalf("lag %d: %d correlations, want %d; warnings %q", lag, len(a.R), want, a.Warnings)
		}
		q := 0.0
		for i, r := range a.R {
			if !near(r, at(i+1), 1e-14) {
				t.Errorf("lag %d: %v, want %v", i+1, r, at(i+1))
			}
			q += n * (n + 2) * r * r / (n - float64(i+1))
		}
		if p := chiSquareTail(q, float64(want)); !near(a.P, p, 1e-13) {
			t.Errorf("lag %d: P %v, want %v", lag, a.P, p)
		}
	}
	// r₁ + r₂ > 0 ≥ r₃ + r₄ here.
	if at(1)+at(2) <= 0 || at(3)+at(4) > 0 {
		t.Fatal("the pairs of the series have other signs")
	}
	for lag, sum := range map[int]float64{1: 1 + 2*at(1), 2: 1 + 2*(at(1)+at(2)), 3: 1 + 2*(at(1)+at(2)),
		4: 1 + 2*(at(1)+at(2))} {
		if lag == 3 && at(3) > 0 {
			sum += 2 * at(3)
		}
		if got := AutocorrelationTest(xs, lag).Effective; !near(got, n/sum, 1e-12) {
			t.Errorf("lag %d: %v effective values, want %v", lag, got, n/sum)
		}
	}
	for name, x := range map[string]struct {
		xs   []float64
		lag  int
		want string
	}{
		"nothing": {nil, 1, "too few"}, "one": {[]float64{1}, 1, "too few"}, "constant": {[]float64{3, 3, 3, 3}, 1,
			"too few"},
		"no lag": {xs, 0, "too few"}, "infinite": {[]float64{1, math.Inf(1), 2}, 1, "not finite"},
		"not a number": {[]float64{math.NaN(), 1, 2}, 1, "not finite"}, "too large": {[]float64{1e200, -1e200, 1e200}, 1,
			"too few"},
	} {
		a := AutocorrelationTest(x.xs, x.lag)
		if len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], x.want) || a.P != 1 ||
			a.Effective != float64(len(x.xs)) || a.R != nil {
			t.Errorf("%s: %+v", name, a)
		}
	}
	if a := AutocorrelationTest([]float64{1, 2}, 1); len(a.R) != 1 || a.R[0] != -0.5 || a.Effective != 2 {
		t.Errorf("two values: %+v", a)
	}
}

// The change point is the split with the largest standardized rank sum.
func TestScanPointIsTheLargestSplit(t *testing.T) {
	r := rand.New(rand.NewPCG(61, 1))
	for range 200 {
		xs := make([]float64, 2+r.IntN(15))
		for i := range xs {
			xs[i] = math.Round(3 * r.NormFloat64())
		}
		best, at := 0.0, 1
		n := float64(len(xs))
		for m := 1; m < len(xs); m++ {
			u := RankSum(xs[:m], xs[m:]).U - float64(m)*(n-float64(m))/2
			if d := u * u / (float64(m) * (n - float64(m))); d > best*(1+1e-12) {
				best, at = d, m
			}
		}
		if c := ScanPoint(xs); c.At != at || c.Before != Median(xs[:at]) || c.After != Median(xs[at:]) {
			t.Fatalf("%v: %+v, want a change at %d", xs, c, at)
		}
		if k, _ := scanRanks(midranks(xs)); !near(k, 4*best, 1e-9) { // ranks are doubled
			t.Fatalf("%v: statistic %v, want %v", xs, k, 4*best)
		}
	}
	if c := ScanPoint([]float64{1}); c != (ChangePoint{}) {
		t.Errorf("one value changes: %+v", c)
	}
	if c := ScanPoint([]float64{1, 2}); c.At != 1 || c.Before != 1 || c.After != 2 {
		t.Errorf("two values: %+v", c)
	}
	if ScanWithin([]float64{1, math.NaN(), 3}, 9, rand.NewPCG(1, 1), 0.9) || !ScanWithin([]float64{math.NaN(), 2}, 9,
		rand.NewPCG(1, 1), 1) ||
		ScanWithin([]float64{5}, 9, rand.NewPCG(1, 1), 0.9) {
		t.Error("what cannot be tested has another P than 1")
	}
	// The smallest P is 1/(permutations+1), and it is within itself.
	rise := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}
	if !ScanWithin(rise, 99, rand.NewPCG(1, 1), 0.01) || ScanWithin(rise, 99, rand.NewPCG(1, 1), 0.0099) {
		t.Error("the smallest P is not 1/100")
	}
}

// The draws are those of rand.Rand, also where some have to be repeated.
func TestBelowDrawsAsRand(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 7, 8, 1000, 1 << 40, 1<<63 + 1, 1<<63 + 1<<61, math.MaxUint64} {
		a, b := rand.NewPCG(n, 5), rand.New(rand.NewPCG(n, 5))
		for range 200 {
			if got, want := drawBelow(a, n), b.Uint64N(n); got != want {
				t.Fatalf("below %d: %d, want %d", n, got, want)
			}
		}
	}
}

// The smallest cumulated deviation with which a split is as extreme as the first order.
func TestScannerThresholds(t *testing.T) {
	r := rand.New(rand.NewPCG(63, 1))
	for range 100 {
		xs := make([]float64, 2+r.IntN(20))
		for i := range xs {
			xs[i] = math.Round(4 * r.NormFloat64())
		}
		k, _ := scanRanks(midranks(xs))
		s := newScanner(xs)
		for m := 1; m < len(xs); m++ {
			split, least := float64(m*(len(xs)-m)), 0
			for float64(least*least)/split < k*(1-1e-12) {
				least++
			}
			if s.least[m] != least {
				t.Fatalf("%v: split %d needs %d, want %d", xs, m, s.least[m], least)
			}
		}
		sum := 0
		for _, x := range s.ranks {
			sum += x
		}
		if sum != 0 {
			t.Fatalf("the deviations of %v add up to %d", xs, sum)
		}
	}
}

// The binomial ranks are the largest that the tail allows, by exact arithmetic.
func TestMedianRankIsExact(t *testing.T) {
	for _, n := range []int{1, 2, 5, 6, 7, 9, 16, 59, 60, 61, 62, 100, 151} {
		row := make([]*big.Int, n+1)
		for k := range row {
			row[k] = new(big.Int).Binomial(int64(n), int64(k))
		}
		all := new(big.Int).Lsh(big.NewInt(1), uint(n))
		share := func(k int) float64 { // P(B ≤ k)
			sum := new(big.Int)
			for i := 0; i <= k; i++ {
				sum.Add(sum, row[i])
			}
			f, _ := new(big.Rat).SetFrac(sum, all).Float64()
			return f
		}
		for k := range row {
			f, _ := new(big.Rat).SetFrac(row[k], all).Float64()
			if got := binomialHalf(n, k); !relative(got, f, 1e-11) {
				t.Errorf("%d of %d: %v, want %v", k, n, got, f)
			}
		}
		for _, tail := range []float64{0.5, 0.25, 0.1, 0.025, 0.005, 1e-6} {
			want := 0
			for 2*(want+1) <= n+1 && share(want) <= tail*(1+1e-12) {
				want++
			}
			k, p := medianRank(n, tail)
			wantP := 0.0
			if want > 0 {
				wantP = share(want - 1)
			}
			if k != want || !relative(p, wantP, 1e-10) {
				t.Errorf("n = %d, tail %v: rank %d at %v, want %d at %v", n, tail, k, p, want, wantP)
			}
		}
	}
	if k, _ := medianRank(0, 0.5); k != 0 {
		t.Errorf("rank %d of nothing", k)
	}
	if k, _ := medianRank(9, 0); k != 0 {
		t.Errorf("rank %d at tail 0", k)
	}
	xs := []float64{9, 1, math.Inf(1), 3, 4, 5, 6, math.Inf(-1), 8}
	before := slices.Clone(xs)
	e := MedianInterval(xs, 0.95) // order statistics 2 and 8 of 9 cover 0.9609
	if e.Value != 5 || e.Lo != 1 || e.Hi != 9 || !near(e.Actual, 0.9609375, 1e-12) || !e.Exact || e.N != 9 ||
		e.Level != 0.95 {
		t.Errorf("%+v", e)
	}
	if !slices.Equal(xs, before) {
		t.Error("the values were reordered")
	}
	if e := MedianInterval([]float64{1, math.NaN()}, 0.5); e.Value == e.Value || len(e.Warnings) != 1 ||
		!math.IsInf(e.Hi, 1) {
		t.Errorf("not a number: %+v", e)
	}
	if m := Median(nil); m == m {
		t.Errorf("the median of nothing is %v", m)
	}
	if m := Median([]float64{4, 1, 3, 2}); m != 2.5 {
		t.Errorf("median %v", m)
	}
}

// wilcoxon is the distribution function of the signed-rank statistic of n untied values.
func wilcoxon(n int) []float64 {
	p := make([]float64, n*(n+1)/2+1)
	p[0] = 1
	for f := 1; f <= n; f++ {
		for s := len(p) - 1; s >= 0; s-- {
			p[s] /= 2
			if s >= f {
				p[s] += p[s-f] / 2
			}
		}
	}
	for s := 1; s < len(p); s++ {
		p[s] += p[s-1]
	}
	return p
}

// Ranks of few values are exact; of many values they are those of the normal approximation.
func TestWalshRank(t *testing.T) {
	for _, n := range []int{1, 2, 3, 6, 10, 33, 59, 60, 61, 75, 120} {
		p := wilcoxon(n)
		for _, tail := range []float64{0.5, 0.49, 0.3, 0.1, 0.025, 0.005} {
			want := 0
			for want < len(p) && p[want] <= tail*(1+1e-12) {
				want++
			}
			want = min(want, len(p)/2)
			k, got, exact := walshRank(n, tail)
			if exact != (n <= 60) || exact && k != want || math.Abs(float64(k-want)) > 5 {
				t.Errorf("n = %d, tail %v: rank %d, want %d (exact %v)", n, tail, k, want, exact)
			}
			if k > 0 && math.Abs(got-p[k-1]) > map[bool]float64{true: 1e-12, false: 1.5e-3}[exact] {
				t.Errorf("n = %d, rank %d: error %v, want %v", n, k, got, p[k-1])
			}
			if f := float64(n); !exact && tail < 0.4 { // normal with a continuity correction
				mean, sd := f*(f+1)/4, math.Sqrt(f*(f+1)*(2*f+1)/24)
				k2 := math.Floor(mean + 0.5 - sd*NormalTail(tail))
				if k != int(k2) || !near(got, normalCDF((k2-0.5-mean)/sd), 1e-12) {
					t.Errorf("n = %d, tail %v: rank %d at %v, want %v", n, tail, k, got, k2)
				}
			}
		}
	}
	for _, n := range []int{0, -1, 10, 70} {
		if k, p, exact := walshRank(n, 0); k != 0 || p != 0 || exact != (n <= 60) {
			t.Errorf("n = %d, tail 0: %d %v %v", n, k, p, exact)
		}
	}
	if k, _, _ := walshRank(70, 1e-300); k != 0 {
		t.Errorf("an impossible tail has rank %d", k)
	}
}

// Of 61 and more values the test is the normal approximation with the variance of the midranks
// and a continuity correction.
func TestSignedRankOfMany(t *testing.T) {
	r := rand.New(rand.NewPCG(65, 2))
	for range 20 {
		n := 61 + r.IntN(20)
		xs, sizes := make([]float64, n), make([]float64, n)
		for i := range xs {
			xs[i] = math.Round(10*r.NormFloat64()) + 0.5 // ties, and no zeros
			sizes[i] = math.Abs(xs[i])
		}
		s := SignedRankTest(xs)
		w, all, variance := plainW(xs), plainW(sizes), 0.0
		for _, x := range sizes { // the variance of the midranks
			less, same := 0.0, 0.0
			for _, y := range sizes {
				if y < x {
					less++
				} else if y == x {
					same++
				}
			}
			variance += math.Pow(less+(same+1)/2, 2) / 4
		}
		less, greater := normalCDF((w+0.5-all/2)/math.Sqrt(variance)), normalCDF(-(w-0.5-all/2)/math.Sqrt(variance))
		if s.Exact || s.N != n || s.W != w || s.Zeros != 0 || len(s.Warnings) != 0 {
			t.Fatalf("%+v", s)
		}
		if !near(s.Less, less, 1e-12) || !near(s.Greater, greater, 1e-12) || s.P != min(1, 2*min(s.Less, s.Greater)) {
			t.Errorf("n = %d, W = %v: %+v, want %v and %v", n, w, s, less, greater)
		}
	}
	for name, xs := range map[string][]float64{"nothing": nil, "zeros": {0, 0, 0}, "not a number": {1, math.NaN()}} {
		if s := SignedRankTest(xs); s.P != 1 || s.Less != 1 || s.Greater != 1 || len(s.Warnings) != 1 || s.N != len(xs) {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if s := SignedRankTest([]float64{0, 0, 3, -1}); s.Zeros != 2 || s.W != 4 || s.N != 4 {
		t.Errorf("zeros keep their ranks: %+v", s)
	}
	if n := SignedRankNeeds(-1); n != math.MaxInt {
		t.Errorf("a negative alpha needs %d", n)
	}
	// The levels of two one-sided tests at the smallest outcome.
	if n := SignedRankNeeds(2. / 256); n != 8 {
		t.Errorf("2/256 needs %d", n)
	}
}

// Up to 60 values together the rank sum is exact; above it is the normal approximation, also with ties.
func TestRankSumOfMany(t *testing.T) {
	r := rand.New(rand.NewPCG(67, 3))
	for round := range 4 {
		n, m := 30, 30+round/2
		all := make([]float64, n+m)
		for i := range all {
			all[i] = r.NormFloat64()
			if i < n {
				all[i] += 0.4
			}
			if round%2 == 0 {
				all[i] = math.Round(2 * all[i])
			}
		}
		got := RankSum(all[:n], all[n:])
		ranks := midranks(all)
		sum := 0
		for _, k := range ranks[:n] {
			sum += k
		}
		less, greater := subsetTails(ranks, n, sum)
		want := min(1, 2*min(less, greater))
		if got.Exact != (m == 30) || got.N != n || got.M != m || got.Exact && got.P != want || !near(got.P, want, 6e-3) {
			t.Errorf("%d and %d values: %+v, want P %v", n, m, got, want)
		}
		if !got.Exact {
			variance := 0.0 // of the sum of n ranks drawn without replacement
			for _, k := range ranks {
				variance += math.Pow(float64(k-(n+m+1))/2, 2) * float64(n*m) / float64((n+m)*(n+m-1))
			}
			z := (math.Abs(got.U-float64(n*m)/2) - 0.5) / math.Sqrt(variance)
			if !near(got.P, 2*normalCDF(-z), 1e-12) {
				t.Errorf("%d and %d values: P %v, by the formula %v", n, m, got.P, 2*normalCDF(-z))
			}
		}
	}
	same := make([]float64, 40)
	if p := RankSum(same, same).P; p != 1 {
		t.Errorf("values that are all the same: P %v", p)
	}
	for name, xs := range map[string][]float64{"nothing": nil, "not a number": {1, math.NaN()}} {
		for _, x := range []RankSumResult{RankSum(xs, []float64{1, 2}), RankSum([]float64{1, 2}, xs)} {
			if x.P != 1 || len(x.Warnings) != 1 {
				t.Errorf("%s: %+v", name, x)
			}
		}
	}
}

// The levels are shown in results and recomputed from run folders: they must stay. The first
// rows are the default design's and those of a look that spends nothing.
func TestBoundariesStay(t *testing.T) {
	for _, x := range []struct {
		looks       []int
		spend, want []float64
	}{
		{[]int{8, 10, 12, 14, 16, 18}, []float64{.016, .007, .006, .006, .006, .006},
			[]float64{0.016, 0.015013054937, 0.015460335999, 0.017089164007, 0.018959779467, 0.020942053255}},
		{[]int{8, 12, 18}, []float64{0, .02, .03}, []float64{0, 0.019999999997, 0.041639023153}},
		{[]int{5, 500}, []float64{.01, .04}, []float64{.01, 0.040479718517}},
		{[]int{20}, []float64{.05}, []float64{.05}},
	} {
		got := Boundaries(x.looks, x.spend)
		for k := range got {
			if k >= len(x.want) || !near(got[k], x.want[k], 1e-9) {
				t.Errorf("%v, %v: %.11g, want %v", x.looks, x.spend, got, x.want)
				break
			}
		}
	}
}

// What a quantile of a sorted list is.
func TestQuantileOf(t *testing.T) {
	xs := []float64{1, 2, 3, 4, 5}
	for p, want := range map[float64]float64{0: 1, 0.1: 2, 0.2: 2, 0.21: 3, 0.8: 5, 0.81: 5, 1: 5} {
		if got := quantileOf(xs, p); got != want {
			t.Errorf("%v: %v, want %v", p, got, want)
		}
	}
}

// The number of replays grows as the design gets smaller, within bounds; what they find is
// the same each time.
func TestReachReplays(t *testing.T) {
	for _, x := range []struct {
		looks []int
		runs  int
	}{{[]int{8, 12}, 2000}, {[]int{20, 180}, 2000}, {[]int{60, 340}, 1000}} {
		levels := make([]float64, len(x.looks))
		levels[len(levels)-1] = 0.05
		r := NewReach(x.looks, levels)
		last := len(x.looks) - 1
		if len(r.found[last]) != 2*x.runs || len(r.equal[last]) != x.runs {
			t.Errorf("%v: %d replays, want %d", x.looks, len(r.equal[last]), x.runs)
		}
		if last > 0 && (!math.IsInf(r.Smallest(0, 0.5), 1) || !math.IsInf(r.Equivalence(0, 0.5), 1) || r.Power(100)[0] != 0) {
			t.Errorf("%v: a look that spends nothing finds something", x.looks)
		}
		if p := r.Power(100); p[last] != 1 || len(p) != len(x.looks) {
			t.Errorf("%v: power %v at a shift of 100", x.looks, p)
		}
	}
	r := NewReach([]int{8, 12}, []float64{.02, .03})
	for i, pair := range [][2]float64{{r.Smallest(0, 0.8), 1.5536814953}, {r.Smallest(1, 0.8), 1.0088440809},
		{r.Equivalence(0, 0.8), 1.7802912429},
		{r.Equivalence(1, 0.8), 1.1589377061}, {r.Power(0)[1], 0.01875}, {r.Power(1)[0], 0.3995}} {
		if !near(pair[0], pair[1], 1e-9) {
			t.Errorf("number %d: %.10f, want %v", i, pair[0], pair[1])
		}
	}
}

// Growth by its formulas: z of the error and of the power for a difference, the probability
// of both bounds for an equivalence.
func TestGrowthByFormula(t *testing.T) {
	z := 1.959963984540054 + 0.8416212335729143 // of 5 % two-sided and of 80 %
	for _, x := range []struct{ estimate, se, limit float64 }{{1, 0.5, 0}, {-1, 0.5, 0}, {1, 2, 1}, {0.5, 0.1, 0.4}} {
		if got, want := Growth(x.estimate, x.se, x.limit, 0.05), math.Pow(z*x.se/x.estimate, 2); !relative(got, want, 1e-9) {
			t.Errorf("%+v: %v, want %v", x, got, want)
		}
	}
	for _, x := range []struct{ estimate, se, limit float64 }{{0, 1, 1}, {0.1, 1, 1}, {-0.3, 3, 1}, {0.2, 0.05, 1}} {
		g := Growth(x.estimate, x.se, x.limit, 0.05)
		s := x.se / math.Sqrt(g)
		size := math.Abs(x.estimate)
		p := normalCDF((x.limit-size)/s-1.959963984540054) - normalCDF(1.959963984540054-(x.limit+size)/s)
		if !near(p, 0.8, 1e-9) {
			t.Errorf("%+v: with %v times the values the probability is %v", x, g, p)
		}
	}
	// A difference inside of the limit that is found sooner than equivalence.
	if got, want := Growth(0.9, 1, 1, 0.05), math.Pow(z/0.9, 2); !relative(got, want, 1e-9) {
		t.Errorf("0.9 of 1: %v, want %v", got, want)
	}
	if z := NormalTail(0.025); !near(z, 1.959963984540054, 1e-12) {
		t.Errorf("z of 2.5 %% is %v", z)
	}
}
