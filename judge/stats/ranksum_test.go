package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Permeability of membranes, Hollander, Wolfe and Chicken, example 4.1: W is
// 30, which R's wilcox.test gives as W = 35 of the other side, p = 0.2544.
func TestRankSumPublished(t *testing.T) {
	x := []float64{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46}
	y := []float64{1.15, 0.88, 0.90, 0.74, 1.21}
	r := RankSum(x, y)
	if r.U != 35 || !near(r.P, 0.2544, 5e-5) || !r.Exact {
		t.Errorf("%+v", r)
	}
}

func TestRankSumEqualsEnumeration(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 40 {
		n, m := 1+r.IntN(5), 1+r.IntN(5)
		all := make([]float64, n+m)
		for i := range all {
			all[i] = float64(r.IntN(6))
		}
		got := RankSum(all[:n], all[n:])
		u := func(mask int) (sum float64) {
			for i := range all {
				for j := range all {
					if mask>>i&1 == 1 && mask>>j&1 == 0 {
						switch {
						case all[i] > all[j]:
							sum++
						case all[i] == all[j]:
							sum += 0.5
						}
					}
				}
			}
			return sum
		}
		want := u(1<<n - 1)
		var less, greater, count float64
		for mask := range 1 << (n + m) {
			bits := 0
			for i := range n + m {
				bits += mask >> i & 1
			}
			if bits != n {
				continue
			}
			count++
			if v := u(mask); v <= want {
				less++
			}
			if v := u(mask); v >= want {
				greater++
			}
		}
		if p := math.Min(1, 2*math.Min(less, greater)/count); got.U != want || !near(got.P, p, 1e-12) {
			t.Errorf("%v | %v: %+v, want U %v, P %v", all[:n], all[n:], got, want, p)
		}
	}
}

func TestStudent(t *testing.T) {
	for _, c := range []struct{ t, df, p float64 }{ // tables of Student's distribution
		{12.706, 1, 0.05}, {2.228, 10, 0.05}, {2.750, 30, 0.01}, {1.960, 1e7, 0.05}, {0, 5, 1}, {-3.169, 10, 0.01},
	} {
		if got := StudentP(c.t, c.df); !near(got, c.p, 2e-4*math.Max(c.p, 0.1)+1e-5) {
			t.Errorf("t %v, df %v: %v, want %v", c.t, c.df, got, c.p)
		}
	}
	if StudentP(math.NaN(), 3) != 1 || StudentP(math.Inf(1), 3) != 0 {
		t.Error("what is not a number or infinite")
	}
}

func TestSignTest(t *testing.T) {
	for _, c := range []struct {
		plus, minus int
		p           float64
	}{{0, 0, 1}, {5, 5, 1}, {0, 8, 2. / 256}, {9, 1, 22. / 1024}, {20, 80, 1.1159e-9}} {
		if got := SignTest(c.plus, c.minus); !near(got, c.p, 1e-4*c.p) {
			t.Errorf("%d against %d: %v, want %v", c.plus, c.minus, got, c.p)
		}
	}
}

// The reference is t.test of R on its data set sleep: t = -1.8608, df = 17.776.
func TestWelchP(t *testing.T) {
	xs := []float64{0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0, 2}
	ys := []float64{1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4}
	for _, p := range []float64{WelchP(xs, ys), WelchP(ys, xs)} {
		if math.Abs(p-0.07939) > 5e-6 {
			t.Errorf("p = %v, want 0.07939", p)
		}
	}
	for _, c := range [][2][]float64{{{1}, ys}, {ys, nil}, {{1, 1}, {1, 1}}, {{1, 1}, {2, 2}}} {
		if p := WelchP(c[0], c[1]); p != 1 {
			t.Errorf("WelchP(%v, %v) = %v, want 1", c[0], c[1], p)
		}
	}
}
