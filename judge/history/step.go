package history

import (
	"math"
	"slices"

	"bakeoff/base/lists"
	"bakeoff/judge/stats"
)

const (
	leastRanks    = 3  // runs on each side of a step that is found by ranks
	leastSerial   = 30 // runs from which autocorrelation can be estimated
	mostInflation = 9  // bound on inflationOf
	// Residuals have smaller correlations than the runs, because the levels and the most likely
	// step were fitted to them: biasOfSerial/n is added to a correlation of n residuals. Below
	// chanceOfSerial/√n, the sum of the first two may be chance.
	biasOfSerial   = 3.0
	chanceOfSerial = 0.5
	farOff         = 3.0   // deviations from the median of a part, beyond which a run is moved in: see moveIn
	widthOfSet     = 7.35  // of the set of places, as a difference of squares in variances: see locateStep
	chancePlace    = 10.0  // squares that the best of many places saves by chance, in variances
	medianOfSquare = 0.455 // of a squared standard normal value
	// The parts of the error rate: of a step and of a bump that are found by ranks, and of a
	// step that is found by its size.
	shareOfRanks = 0.025
	shareOfShift = 0.95
	// Readings of fewer and of more runs than these have the whole error rate: see shareOfReading.
	shortHistory = 10
	longHistory  = 50
)

// shareOfReading is the share of the error rate that a reading of n runs has. A history is
// usually read after each run, so its readings together give the false alarms. In a short
// history, only the whole rate finds steps, and in a long one the whole rate finds small ones.
// The many readings between them find a step almost as early with a small part of the rate.
func shareOfReading(n int) float64 {
	return min(1, math.Pow(max(shortHistory/float64(n), float64(n)/longHistory), 4))
}

// series are the estimates of runs in order, on the scale on which differences are
// taken, with the variances that the noise inside each run gives them.
type series struct {
	xs, within []float64
	seed       uint64
}

// cut is a step in a series.
type cut struct {
	at     int // the first run after it
	lo, hi int // the first runs after it that the set of places contains
	p      float64
}

// findCuts finds the steps of a series with an error rate of level: the probability that a
// part of the series without a step is cut is at most level.
func (s series) findCuts(level float64) []cut {
	out := s.cutPart(0, len(s.xs), level, s.variances())
	slices.SortFunc(out, func(a, b cut) int { return a.at - b.at })
	s.refineCuts(out)
	out = s.pruneCuts(out)
	s.refineCuts(out)
	return out
}

// pruneCuts removes the weakest of several cuts, again and again, while it saves fewer squares
// than the best of many places saves by chance: one edge of a bump, or a step that a later one
// explains. A cut next to only two runs must save more. Removing cuts adds no false one.
func (s series) pruneCuts(cuts []cut) []cut {
	variances := s.variances()
	for len(cuts) > 1 {
		places := placesOf(cuts)
		all := squaresLeft(s.xs, variances, places...)
		weakest, least := 0, math.Inf(1)
		for i := range cuts {
			gain := squaresLeft(s.xs, variances, slices.Delete(slices.Clone(places), i, i+1)...) - all
			if s.runsBeside(cuts, i) < leastRanks {
				gain -= 2 * math.Log(onlyTwo)
			}
			if gain < least {
				weakest, least = i, gain
			}
		}
		if least > chancePlace*max(1, all/float64(len(s.xs))) {
			break
		}
		cuts = slices.Delete(cuts, weakest, weakest+1)
	}
	return cuts
}

// runsBeside returns the number of runs of the shorter level next to a cut.
func (s series) runsBeside(cuts []cut, i int) int {
	ends := append(append([]int{0}, placesOf(cuts)...), len(s.xs))
	return min(ends[i+1]-ends[i], ends[i+2]-ends[i+1])
}

func placesOf(cuts []cut) []int { return lists.Map(cuts, func(c cut) int { return c.at }) }

// cutPart finds the steps in the runs [from, to): it tests them at their share of the level,
// and then the parts around the steps that it found. The first parts without a step that it
// tests are disjoint, so their shares add up to no more than the level. A part of each share is
// for each test.
func (s series) cutPart(from, to int, level float64, variances []float64) []cut {
	share := level * float64(to-from) / float64(len(s.xs))
	out := s.testPart(from, to, share, variances)
	if len(out) == 0 {
		return nil
	}
	ends := append(append([]int{from}, placesOf(out)...), to)
	for i, end := range ends[1:] {
		out = append(out, s.cutPart(ends[i], end, level, variances)...)
	}
	return out
}

// testPart returns the most likely step or bump in the runs [from, to), if it is significant at
// the error rate share.
func (s series) testPart(from, to int, share float64, variances []float64) []cut {
	part, v := s.xs[from:to], variances[from:to]
	ranks := share * shareOfRanks
	o := stats.StepOption{Least: leastRanks, Level: ranks, Inflation: 1, Seed: s.seed}
	step, bump := stats.StepTest(part, v, o), stats.BumpTest(part, v, o)
	shift, at := s.testShift(from, to, variances, nil), 0
	switch {
	case shift.p <= share*shareOfShift:
		at = shift.at
	case step.P <= ranks:
		at = step.At
	}
	if bump.P <= ranks && (at == 0 || clearer(part, v, bump, at)) {
		o.Inflation = inflation(residuals(part, v, bump.From, bump.To))
		if p := stats.BumpTest(part, v, o).P; p <= ranks {
			p /= shareOfRanks
			return []cut{{at: from + bump.From, p: p}, {at: from + bump.To, p: p}}
		}
		return nil
	}
	if at == 0 {
		return nil
	}
	dependence := inflationOf(residuals(part, v, at))
	o.Inflation = dependence(math.MaxInt)
	at, _, _ = locateStep(part, v, at, o.Inflation)
	if shift = s.testShift(from, to, variances, dependence); shift.p <= share*shareOfShift {
		return []cut{{at: from + at, p: shift.p / shareOfShift}}
	}
	if p := stats.StepTest(part, v, o).P; p <= ranks {
		return []cut{{at: from + at, p: p / shareOfRanks}}
	}
	return nil
}

// clearer reports whether a bump leaves so much smaller squares than a step at one place that
// its second place is hardly chance.
func clearer(xs, variances []float64, bump stats.Bump, at int) bool {
	with := squaresLeft(xs, variances, bump.From, bump.To)
	return squaresLeft(xs, variances, at)-with > widthOfSet*max(1, with/float64(len(xs)))
}

// squaresLeft returns the sum of the squared residuals that steps leave.
func squaresLeft(xs, variances []float64, at ...int) float64 {
	return lists.Sum(residuals(xs, variances, at...), func(r float64) float64 { return r * r })
}

// refineCuts locates each step again between its neighbors, because the first steps were
// located before those next to them were known.
func (s series) refineCuts(cuts []cut) {
	variances := s.variances()
	for i := range cuts {
		from, to := 0, len(s.xs)
		if i > 0 {
			from = cuts[i-1].at
		}
		if i+1 < len(cuts) {
			to = cuts[i+1].at
		}
		part, v := s.xs[from:to], variances[from:to]
		at, lo, hi := locateStep(part, v, cuts[i].at-from, inflation(residuals(part, v, cuts[i].at-from)))
		cuts[i].at, cuts[i].lo, cuts[i].hi = from+at, from+lo, from+hi
	}
}

// variances returns the variance of each run: the noise inside of it and the spread
// between runs, which neighbors show. Steps between them are few and do not move the
// median.
func (s series) variances() []float64 {
	var squares []float64
	for i := 1; i < len(s.xs); i++ {
		d := s.xs[i] - s.xs[i-1]
		squares = append(squares, d*d/2)
	}
	between := 0.0
	if len(squares) > 0 {
		between = max(0, stats.Median(squares)/medianOfSquare-stats.Median(s.within))
	}
	out := make([]float64, len(s.xs))
	for i, w := range s.within {
		if out[i] = between + w; !(out[i] > 0) {
			return slices.Repeat([]float64{1}, len(s.xs)) // all runs gave the same value
		}
	}
	return out
}

// weighted returns the weighted mean of xs.
func weighted(xs, variances []float64) float64 {
	var sum, weights float64
	for i, x := range xs {
		sum += x / variances[i]
		weights += 1 / variances[i]
	}
	return sum / weights
}

// residuals returns the standardized distances of runs from the level of their part
// between steps. Runs that are far off are moved in (moveIn).
func residuals(xs, variances []float64, at ...int) []float64 {
	clean := moveIn(xs, variances, at...)
	out := make([]float64, len(xs))
	forEachPart(len(xs), at, func(from, to int) {
		level := weighted(clean[from:to], variances[from:to])
		for i := from; i < to; i++ {
			out[i] = (clean[i] - level) / math.Sqrt(variances[i])
		}
	})
	return out
}

// forEachPart calls f for each part of n runs between steps.
func forEachPart(n int, at []int, f func(from, to int)) {
	from := 0
	for _, to := range at {
		f(from, to)
		from = to
	}
	f(from, n)
}

// moveIn moves runs that are more than farOff deviations away from the median of their part
// between steps to this distance.
func moveIn(xs, variances []float64, at ...int) []float64 {
	out := slices.Clone(xs)
	forEachPart(len(xs), at, func(from, to int) {
		part, v := out[from:to], variances[from:to]
		median := stats.Median(part)
		var squares []float64
		for i, x := range part {
			squares = append(squares, (x-median)*(x-median)/v[i])
		}
		scale := max(1, stats.Median(squares)/medianOfSquare)
		for i, x := range part {
			far := farOff * math.Sqrt(scale*v[i])
			part[i] = min(max(x, median-far), median+far)
		}
	})
	return out
}

// inflation returns inflationOf for the mean of many runs.
func inflation(residuals []float64) float64 { return inflationOf(residuals)(math.MaxInt) }

// inflationOf returns by how much the dependence of runs on earlier ones inflates the
// variance of a mean of m: 1 + 2·Σ(1−k/m)·ρₖ. It is the larger of two estimates from the
// residuals around the levels: that of an autoregression of first order, by ρ₁, and the sum
// of pairs of correlations until one is not positive (Geyer, Statist. Sci. 7 (1992) 473),
// which also sees a slow part under the noise inside runs. It is 1 where ρ₁ and ρ₂ may be
// chance.
func inflationOf(residuals []float64) func(m int) float64 {
	none := func(int) float64 { return 1 }
	n := float64(len(residuals))
	if len(residuals) < leastSerial {
		return none
	}
	a := stats.AutocorrelationTest(residuals, len(residuals)/6)
	if len(a.R) < 2 {
		return none
	}
	bias := biasOfSerial / n
	rho := min(a.R[0]+bias, 0.9)
	if rho+a.R[1]+bias < chanceOfSerial/math.Sqrt(n) {
		return none
	}
	last := 0 // number of correlations in the pairs
	for last+1 < len(a.R) && a.R[last]+a.R[last+1]+2*bias > 0 {
		last += 2
	}
	return func(m int) float64 {
		first, pairs, power := 1.0, 1.0, 2.0
		for k := 1; k < m && (power > 1e-9 || k <= last); k++ {
			power *= rho
			share := 1 - float64(k)/float64(m)
			first += share * power
			if k <= last {
				pairs += 2 * share * (a.R[k-1] + bias)
			}
		}
		return min(max(first, pairs, 1), mostInflation)
	}
}

// locateStep returns the place of a step that leaves the smallest weighted squares, and the
// range of places whose squares are not much larger: in normal noise it contains the
// true place with a probability of 95 %. near is where a test found the step; it decides which
// runs are far off.
//
// Source: Siegmund, Ann. Statist. 16 (1988) 487 (the set of places by the likelihood
// ratio): P(2·log ratio > c) ≈ 1 − (1 − exp(−c/2))².
func locateStep(xs, variances []float64, near int, inflation float64) (at, lo, hi int) {
	n := len(xs)
	clean := moveIn(xs, variances, near)
	squares := make([]float64, n)
	at = near
	squares[near] = cutSquares(clean, variances, near)
	for m := leastShift; m <= n-leastShift; m++ {
		squares[m] = cutSquares(clean, variances, m)
		if squares[m] < squares[at] {
			at = m
		}
	}
	limit := squares[at] + widthOfSet*inflation*squares[at]/float64(max(n-2, 1))
	lo, hi = at, at
	for m := leastShift; m <= n-leastShift; m++ {
		if squares[m] <= limit {
			lo, hi = min(lo, m), max(hi, m)
		}
	}
	return at, lo, hi
}

// cutSquares returns the sum of weighted squares that a step leaves.
func cutSquares(xs, variances []float64, at int) (sum float64) {
	before, after := weighted(xs[:at], variances[:at]), weighted(xs[at:], variances[at:])
	for i, x := range xs {
		d := x - before
		if i >= at {
			d = x - after
		}
		sum += d * d / variances[i]
	}
	return sum
}
