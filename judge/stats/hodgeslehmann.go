package stats

import (
	"math"
	"slices"
	"sort"
)

// Estimate is an estimated location with its interval.
type Estimate struct {
	Value  float64 // NaN where there are no values
	Lo, Hi float64 // closed; ±Inf where not bounded
	Level  float64 // asked for
	Actual float64 // attained under continuity, at least Level; 1 where unbounded
	N      int
	Exact  bool
	// Warnings are for a person.
	Warnings []string
}

// HodgesLehmann estimates the center of symmetry of xs with an interval of at
// least the given level. It is the one-shot form of Walsh.
func HodgesLehmann(xs []float64, level float64) Estimate {
	return NewWalsh(xs).Interval(level)
}

// Walsh holds the averages (xi+xj)/2, i ≤ j, of n values. It gives the
// Hodges–Lehmann estimate and its intervals at any level. Its methods sort the
// averages as needed, so only one goroutine may use it at a time.
type Walsh struct {
	n, clash int
	nan      bool
	xs       []float64 // ascending; instead of averages when n is large
	averages []float64 // without the clashing ones; ascending once sorted
	sorted   bool
}

// walshListed is the largest n for which all averages are listed and sorted;
// above, finding order statistics by counting is quicker.
const walshListed = 40

// NewWalsh takes n ≥ 0 values of one unit in any order; they are not
// modified. ±Inf are allowed: the average of +Inf and −Inf could be anything,
// so it counts against both bounds of an interval, and as 0 in the estimate.
func NewWalsh(xs []float64) *Walsh {
	w := &Walsh{n: len(xs), nan: hasNaN(xs)}
	if w.nan {
		return w
	}
	w.xs = slices.Clone(xs)
	slices.Sort(w.xs)
	low, high := 0, 0
	for _, x := range w.xs {
		if math.IsInf(x, -1) {
			low++
		} else if math.IsInf(x, 1) {
			high++
		}
	}
	w.clash = low * high
	if w.n > walshListed {
		return w
	}
	w.averages = make([]float64, 0, w.n*(w.n+1)/2)
	for i, a := range w.xs {
		for _, b := range w.xs[i:] {
			if m := mean2(a, b); m == m {
				w.averages = append(w.averages, m)
			}
		}
	}
	return w
}

// mean2 is the mean of a and b without overflow; NaN for +Inf and −Inf.
func mean2(a, b float64) float64 {
	if s := a + b; !math.IsInf(s, 0) {
		return s / 2
	}
	return a/2 + b/2
}

// Median is the Hodges–Lehmann estimate: the median of all averages.
func (w *Walsh) Median() float64 {
	if w.n == 0 || w.nan {
		return math.NaN()
	}
	m := w.n * (w.n + 1) / 2
	a, b := w.middleAverage((m+1)/2), w.middleAverage(m/2+1)
	if c := mean2(a, b); c == c {
		return c
	}
	return 0
}

// middleAverage is the kth smallest average with clashing ones at 0.
func (w *Walsh) middleAverage(k int) float64 {
	if w.clash == 0 {
		return w.kthAverage(k)
	}
	below := w.countBelow(0, false)
	switch {
	case k <= below:
		return w.kthAverage(k)
	case k <= below+w.clash:
		return 0
	}
	return w.kthAverage(k - w.clash)
}

// kthAverage is the kth smallest (from 1) of the averages that do not clash.
func (w *Walsh) kthAverage(k int) float64 {
	switch {
	case w.sorted:
		return w.averages[k-1]
	case w.averages != nil:
		return selectKth(w.averages, k-1) // a few are asked for: sorting takes longer
	}
	// The least float t such that at least k averages are ≤ t, by bisection
	// over the floats in their order: at most 64 counts of O(n).
	lo, hi := floatKey(w.xs[0]), floatKey(w.xs[w.n-1])
	for lo < hi {
		mid := lo + (hi-lo)/2
		if w.countBelow(keyFloat(mid), true) >= k {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return keyFloat(lo)
}

// countBelow is the number of averages, without clashing ones, that are < t, or
// ≤ t when equal.
func (w *Walsh) countBelow(t float64, equal bool) int {
	if w.averages != nil {
		if !w.sorted {
			slices.Sort(w.averages)
			w.sorted = true
		}
		return sort.Search(len(w.averages), func(i int) bool {
			return w.averages[i] > t || !equal && w.averages[i] == t
		})
	}
	n, j := 0, w.n-1
	for i := 0; i <= j; {
		m := mean2(w.xs[i], w.xs[j])
		// A clash of −Inf (i) with +Inf (j) is passed over as too large: its
		// column j then loses only pairs that clash or are +Inf themselves.
		if m == m && (m < t || equal && m == t) {
			n += j - i + 1
			i++
		} else {
			j--
		}
	}
	return n
}

// floatKey maps floats to integers in the same order; unkey is its inverse.
func floatKey(f float64) uint64 {
	if f == 0 {
		f = 0 // −0 is 0
	}
	b := math.Float64bits(f)
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

func keyFloat(k uint64) float64 {
	if k>>63 != 0 {
		return math.Float64frombits(k &^ (1 << 63))
	}
	return math.Float64frombits(^k)
}

// Interval returns the estimate with the closed interval of at least the
// given level, in (0, 1), that inverts the exact two-sided signed-rank test.
//
// Assumption: xs are independent and symmetric about one center; no
// continuity is needed: with ties the closed interval covers more, never
// less. Above ExactSignedRank values the rank is from the normal
// approximation. When n is too small for the level, the interval is ±Inf and
// a warning says how many values are needed.
//
// Source: Hodges and Lehmann, Ann. Math. Stat. 34 (1963) 598; Hollander,
// Wolfe and Chicken, 3.2 and 3.3.
func (w *Walsh) Interval(level float64) Estimate {
	e := Estimate{Value: w.Median(), Lo: math.Inf(-1), Hi: math.Inf(1), Level: level, Actual: 1,
		N: w.n, Exact: w.n <= ExactSignedRank}
	if w.nan {
		e.Warnings = append(e.Warnings, "a value is not a number: nothing was estimated")
		return e
	}
	alpha := 1 - level
	k, p, _ := walshRank(w.n, alpha/2)
	if k == 0 {
		e.Warnings = append(e.Warnings, tooFew(w.n, SignedRankNeeds(alpha), level))
		return e
	}
	e.Actual = 1 - 2*p
	if k -= w.clash; k > 0 {
		e.Lo, e.Hi = w.kthAverage(k), w.kthAverage(w.n*(w.n+1)/2-w.clash-k+1)
	}
	return e
}
