package evidence

import (
	"fmt"
	"math"
	"sync"

	"bakeoff/base/lists"
	"bakeoff/base/unit"
)

// The bounds of the trend gate.
const (
	trendAlpha  = 0.01
	trendChange = 0.20 // less is what neighbours on the machine do all the time
	trendMost   = 32   // windows; neighbours are merged beyond
	trendLeast  = 14   // below, no order is unlikely enough
)

// trend says how the work done in equal slices of a trial changed, "" where
// it did not.
//
// It looks for the split at which the ranks before and after differ most
// (Mann and Whitney 1947, exact distribution, two-sided, multiplied by the
// number of splits), which answers to steps and to slopes. A change must also
// matter: slices depend on their neighbours, so a test of chance alone finds
// changes that nobody would mind.
func trend(windows []float64) string {
	w := mergeWindows(windows)
	n := len(w)
	if n < trendLeast {
		return ""
	}
	best, at := 1.0, 0
	for m := 1; m < n; m++ {
		if p := rankSum(w[:m], w[m:]); p < best {
			best, at = p, m
		}
	}
	if best*float64(n-1) > trendAlpha {
		return ""
	}
	before, after := mean(w[:at]), mean(w[at:])
	if !(before > 0 && after > 0) || math.Abs(math.Log(after/before)) < math.Log1p(trendChange) {
		return ""
	}
	return fmt.Sprintf("the speed changed by %s %% after %.0f %% of the time",
		unit.Signed(100*(after/before-1), 0), 100*float64(at)/float64(n))
}

// mergeWindows averages neighbours until at most trendMost windows are left; a
// window that is not a number gives nil.
func mergeWindows(w []float64) []float64 {
	for _, x := range w {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil
		}
	}
	k := (len(w) + trendMost - 1) / trendMost
	if k <= 1 {
		return w
	}
	var out []float64
	for i := 0; i+k <= len(w); i += k {
		out = append(out, mean(w[i:i+k]))
	}
	return out
}

func mean(xs []float64) float64 {
	sum := lists.Sum(xs, func(x float64) float64 { return x })
	return sum / float64(len(xs))
}

// rankSum returns the exact two-sided p value of the Mann–Whitney test of a
// against b. Ties count half, which makes it conservative.
func rankSum(a, b []float64) float64 {
	u := 0.0
	for _, x := range a {
		for _, y := range b {
			switch {
			case x > y:
				u++
			case x == y:
				u += .5
			}
		}
	}
	m, n := len(a), len(b)
	low := min(u, float64(m*n)-u)
	counts := arrangements(m, n)
	tail, all := 0.0, 0.0
	for i, c := range counts {
		all += c
		// Half a tie is rounded towards the middle.
		if float64(i) <= math.Ceil(low) {
			tail += c
		}
	}
	return min(1, 2*tail/all)
}

var ranks sync.Map // [2]int → []float64

// arrangements counts the orders of m and n values by their U (Mann and
// Whitney 1947, recurrence 2).
func arrangements(m, n int) []float64 {
	if m == 0 || n == 0 {
		return []float64{1}
	}
	if c, ok := ranks.Load([2]int{m, n}); ok {
		return c.([]float64)
	}
	// The largest value is one of the first kind and beats all n of the
	// second, or is one of the second and beats none.
	out := make([]float64, m*n+1)
	for i, c := range arrangements(m-1, n) {
		out[i+n] += c
	}
	for i, c := range arrangements(m, n-1) {
		out[i] += c
	}
	ranks.Store([2]int{m, n}, out)
	return out
}
