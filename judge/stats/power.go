package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
)

// Likely is the power that plans, calibrations and results mean when they say
// what a number of blocks finds.
const Likely = 0.8

// Growth returns by what factor the number of values must grow until the
// interval of a normal estimate, with two-sided error alpha, decides with the
// probability Likely. It assumes that the estimate is the true value. The interval
// decides if it excludes 0 or lies within ±limit, whichever takes fewer values.
// Growth is +Inf if no number suffices.
//
// Assumption: the standard error falls with the square root of the number.
func Growth(estimate, se, limit, alpha float64) float64 {
	size := math.Abs(estimate)
	z := NormalTail(alpha / 2)
	different := se * (z + NormalTail(1-Likely)) / size
	different *= different
	if !(size < limit) {
		return different
	}
	// Within the limits on either side: the probability grows with the number.
	inside := func(growth float64) bool {
		s := se / math.Sqrt(growth)
		return normalCDF((limit-size)/s-z)-normalCDF(z-(limit+size)/s) >= Likely
	}
	lo, hi := 0.0, 1.0
	for !inside(hi) {
		if lo, hi = hi, 2*hi; lo > different || math.IsInf(hi, 1) {
			return different
		}
	}
	for range 50 {
		if mid := (lo + hi) / 2; inside(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return min(different, hi)
}

// Reach is what a group sequential signed-rank test can find, from seeded
// replays of the test itself on independent normal values with deviation 1.
//
// In a replay the test calls a shift up if and only if it exceeds minus the
// lower bound of the interval of the noise alone, at this look or an earlier
// one. So one replay covers every shift, and its mirror image is a second one.
type Reach struct {
	looks []int
	// found and equal are, by look and in ascending order, the shift from
	// which each replay called a difference by then, and the half-width of
	// the region in which it found two equal sides equivalent.
	found, equal [][]float64
}

// reachValues bounds the values of all replays of a Reach: a small design gets
// more replays, of which the last digit is better known.
const (
	reachValues = 400_000
	reachMost   = 2000
	reachLeast  = 100
)

// NewReach replays looks, which are ascending numbers of values, at their
// two-sided nominal levels (of Boundaries).
func NewReach(looks []int, levels []float64) *Reach {
	r := &Reach{looks: looks, found: make([][]float64, len(looks)), equal: make([][]float64, len(looks))}
	if len(looks) == 0 {
		return r
	}
	sum, last := 0, looks[len(looks)-1]
	for _, n := range looks {
		sum += n
	}
	runs := max(reachLeast, min(reachMost, reachValues/max(sum, 1)))
	bounds := make([][][2]float64, runs)
	var wg sync.WaitGroup
	for i := range runs {
		wg.Go(func() { bounds[i] = replayLooks(rand.New(rand.NewPCG(1, uint64(i))), looks, levels, last) })
	}
	wg.Wait()
	for _, b := range bounds {
		up, down, both := math.Inf(1), math.Inf(1), math.Inf(1)
		for k := range looks {
			up, down = min(up, -b[k][0]), min(down, b[k][1])
			both = min(both, max(-b[k][0], b[k][1]))
			r.found[k] = append(r.found[k], up, down)
			r.equal[k] = append(r.equal[k], both)
		}
	}
	for k := range looks {
		slices.Sort(r.found[k])
		slices.Sort(r.equal[k])
	}
	return r
}

// replayLooks returns the bounds of the interval at each look of one run.
func replayLooks(r *rand.Rand, looks []int, levels []float64, last int) [][2]float64 {
	x := make([]float64, last)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	out := make([][2]float64, len(looks))
	for k, n := range looks {
		out[k] = [2]float64{math.Inf(-1), math.Inf(1)}
		if levels[k] > 0 {
			e := HodgesLehmann(x[:n], 1-levels[k])
			out[k] = [2]float64{e.Lo, e.Hi}
		}
	}
	return out
}

// Smallest returns the shift, in standard deviations of a value, that the test
// finds by a look with probability p. It is +Inf if the test cannot find any
// difference by then.
func (r *Reach) Smallest(look int, p float64) float64 { return quantileOf(r.found[look], p) }

// Equivalence returns the half-width of the margin within which the test finds
// two equal sides equivalent by a look with probability p. It is +Inf if it
// cannot.
func (r *Reach) Equivalence(look int, p float64) float64 { return quantileOf(r.equal[look], p) }

// Power returns, for each look, the probability that the test has found a shift
// ≥ 0 in its direction by then.
func (r *Reach) Power(shift float64) []float64 {
	out := make([]float64, len(r.looks))
	for k, f := range r.found {
		n, _ := slices.BinarySearch(f, shift)
		out[k] = float64(n) / float64(len(f))
	}
	return out
}

// quantileOf is the smallest of ascending values that a share p lies below.
func quantileOf(sorted []float64, p float64) float64 {
	return sorted[min(len(sorted)-1, int(math.Ceil(p*float64(len(sorted)))))]
}
