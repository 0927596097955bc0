package history

import (
	"math"

	"bakeoff/base/lists"
	"bakeoff/judge/stats"
)

// leastShift are the runs on each side of a step that is found by its size.
const leastShift = 2

// onlyTwo is the factor of the p-value of a step with only two runs on a side, unless the
// order of the runs is enough evidence: see twoRuns.
const onlyTwo = 300

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
		p := stats.StudentP(t, float64(n-2))
		if min(m, n-m) == leastShift {
			p = twoRuns(n, p)
		}
		if p *= shiftPlaces(n, m); p < out.p && sideAgrees(xs, m, size) {
			out = shift{at: m, p: p}
		}
	}
	return out
}

// shiftPlaces is the factor of the p-value of a place m in n runs, by Bonferroni. The share
// of a place is inversely proportional to the number of runs from it on: a history is mostly
// read to see whether something changed lately.
func shiftPlaces(n, m int) (factor float64) {
	after := float64(n - m)
	for k := leastShift; k <= n-leastShift; k++ {
		factor += after / float64(k)
	}
	return factor
}

// clearPlaces is the factor of a step whose p-value is Student's alone.
func clearPlaces(n, m int) float64 {
	if min(m, n-m) == leastShift {
		return onlyTwo * shiftPlaces(n, m)
	}
	return shiftPlaces(n, m)
}

// twoRuns is the p-value of a step that only two of n runs show. Two bad runs in a row are
// not rare, and Student's t takes them for a step. sideAgrees requires that both are on one
// side and farther away than all others. In symmetric noise of any shape, two given runs are so
// with the probability 1/(n·(n−1)). The p-value is the larger of this and Student's. Where n
// is too small for that, or to see that neighbors are alike, Student's t must be much clearer.
func twoRuns(n int, student float64) float64 {
	if n < leastSerial {
		return onlyTwo * student
	}
	return min(onlyTwo*student, max(student, 1/float64(n*(n-1))))
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
// the longer side: where bad runs occur, two in a row are not a step.
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
