package history

import (
	"math"

	"bakeoff/base/lists"
	"bakeoff/judge/stats"
)

// leastShift are the runs on each side of a step that is found by its size.
const leastShift = 2

// onlyTwo is the factor of the p-value of a step with only two runs on a side.
const onlyTwo = 1000

// newest are the last places of a part, which share half of the error rate of its step: a
// history is mostly read to see whether something changed lately.
const newest = 8

// chanceOfOrder is the largest probability that runs in random order have the runs of
// one side of a step above or below all others: two runs suffice beside five, three beside
// three.
const chanceOfOrder = 0.1

// nearest is the share of a shift by which runs of the shorter side must differ from the
// level of the other. One in manyRuns of them need not.
const (
	nearest  = 1.0 / 3
	manyRuns = 6
)

// shift is the place at which two levels explain runs best.
type shift struct {
	at int     // the first run after it
	p  float64 // that one level explains the runs
}

// testShift tests by Student's t whether the level of a part changes once. In short series this
// finds what the test by ranks cannot: ten runs have only 210 orders of six and four. Runs
// far off widen the scale, and the runs of the shorter side must agree, so one bad run is no
// step. p is the bound of Bonferroni over the places.
//
// Source: Worsley, J. Amer. Statist. Assoc. 74 (1979) 365.
//
// inflation returns by how much dependence inflates the variance of a mean of m runs; nil
// for independent runs.
func (s series) testShift(from, to int, variances []float64, inflation func(m int) float64) shift {
	xs, v := s.xs[from:to], variances[from:to]
	n := len(xs)
	// The noise inside runs is known: runs that agree better than it do so by chance.
	var known []float64
	for i, x := range v {
		known = append(known, s.within[from+i]/x)
	}
	of := func(variances []float64) float64 {
		if inflation == nil {
			return 1 / weights(variances)
		}
		return inflation(len(variances)) / weights(variances)
	}
	out := shift{p: 1}
	for m := leastShift; m <= n-leastShift; m++ {
		if !ordered(m, n-m) {
			continue
		}
		size := weighted(xs[m:], v[m:]) - weighted(xs[:m], v[:m])
		scale := max(stats.Median(known), cutSquares(xs, v, m)/float64(n-2))
		t := math.Abs(size) / math.Sqrt(scale*(of(v[:m])+of(v[m:])))
		if p := shiftPlaces(n, m) * stats.StudentP(t, float64(n-2)); p < out.p && sideAgrees(xs, m, size) {
			out = shift{at: m, p: p}
		}
	}
	return out
}

// shiftPlaces is the factor of the p-value of a place m in n runs, by Bonferroni: the newest
// places share one half of the error rate, and the others the other half. Two bad runs in a
// row are not rare, so a step that only two runs show needs
// much clearer evidence.
func shiftPlaces(n, m int) float64 {
	places := float64(n - 2*leastShift + 1)
	switch {
	case places <= 2*newest:
	case n-m < leastShift+newest:
		places = 2 * newest
	default:
		places = 2 * (places - newest)
	}
	if min(m, n-m) == leastShift {
		return places * onlyTwo
	}
	return places
}

// ordered reports whether the order of the runs is enough evidence for a step between a
// and b runs.
func ordered(a, b int) bool {
	chance := 2.0
	for i := range min(a, b) {
		chance *= float64(i+1) / float64(a+b-i)
	}
	return chance <= chanceOfOrder
}

// sideAgrees reports whether the runs of the shorter side of a step of this size are away from
// the level of the longer. If they are only two, each must be farther away than any run of
// the longer side: where bad runs occur, two in a row are no step.
func sideAgrees(xs []float64, at int, size float64) bool {
	short, long := xs[at:], xs[:at]
	if len(long) < len(short) {
		short, long, size = long, short, -size
	}
	level := stats.Median(long)
	if len(short) == leastShift {
		for _, x := range long {
			if math.Abs(x-level) >= min(math.Abs(short[0]-level), math.Abs(short[1]-level)) {
				return false
			}
		}
	}
	near := lists.Filter(short, func(x float64) bool { return (x-level)*size < nearest*size*size })
	return len(near)*manyRuns <= len(short)
}

func weights(variances []float64) (sum float64) {
	return lists.Sum(variances, func(v float64) float64 { return 1 / v })
}
