package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Step is what StepTest found.
type Step struct {
	// P is the p-value of the test that the series has one level. It is 1 if the
	// series is too short for a step.
	P float64
	// At is the index of the first value after the most likely step.
	At int
	// Scan is the largest standardized squared difference between both sides.
	Scan float64
}

// StepOption configures StepTest.
type StepOption struct {
	// Least is the smallest number of values on each side of a step, at least 1.
	Least int
	// Level is the error rate that P is compared with. It decides how many orders
	// are drawn; StepTest stops as soon as P exceeds it.
	Level float64
	// Inflation is by how much serial dependence inflates the variance of a mean of
	// neighbors, at least 1. The statistic of the series is divided by it.
	Inflation float64
	Seed      uint64
}

// The number of random orders that a step is tested against.
const (
	leastOrders = 2000
	mostOrders  = 100000
)

// StepTest tests whether the level of a series changes once.
//
// xs are finite values in order; variances, as long as xs and positive, are those of
// the noise of each. Neither is modified. Each value minus the weighted mean, in units
// of its deviation, is replaced by the normal score of its rank: a single value far
// away counts for little. For each place that leaves Least values on both sides, the
// statistic is the squared difference of the weighted means of both sides in units of
// its variance over all orders; the scan takes the largest. The p-value counts random
// orders of the scores: it is exact if the standardized values are exchangeable, as
// they are for independent noise of equal variances, whatever its distribution, and
// nearly so for unequal variances. An Inflation above 1 makes it conservative for
// independent noise.
//
// Once P must exceed Level, no more orders are drawn: P is then an upper bound that is
// valid as a p-value too (Besag and Clifford, Biometrika 78 (1991) 301).
//
// Sources: Pettitt, Appl. Statist. 28 (1979) 126 (scan of ranks); van der Waerden (1952)
// (normal scores).
func StepTest(xs, variances []float64, o StepOption) Step {
	n, least := len(xs), max(o.Least, 1)
	if n < 2*least || len(variances) != n {
		return Step{P: 1}
	}
	s := newStepper(xs, variances, least)
	if s == nil {
		return Step{P: 1}
	}
	out := Step{P: 1}
	out.Scan, out.At = s.largestScan(s.scores)
	out.P = s.pValue(out.Scan, o, s.reaches)
	return out
}

// Bump is what BumpTest found.
type Bump struct {
	P        float64 // as Step.P
	From, To int     // the values [From, To) have another level than the others
}

// longestBump bounds the values of a bump, so that the time of a test of n values grows
// with n.
const longestBump = 100

// BumpTest tests whether the level of a series changes for a while and returns: a change
// that StepTest finds badly, because the values before and after a place in the middle
// of it have the same mean. Its statistic is that of StepTest with Least to 100
// neighbors, but at most n − 2·Least, on one side and all other values on the other.
//
// Source: Olshen et al., Biostatistics 5 (2004) 557 (circular binary segmentation).
func BumpTest(xs, variances []float64, o StepOption) Bump {
	n, least := len(xs), max(o.Least, 1)
	if n < 3*least || len(variances) != n {
		return Bump{P: 1}
	}
	s := newStepper(xs, variances, least)
	if s == nil {
		return Bump{P: 1}
	}
	s.computeBumps()
	out := Bump{P: 1}
	k := 0.0
	all := s.sumSuffixes(s.scores)
	for i := range s.arcs {
		for j := range s.arcs[i] {
			from, to := least+i, 2*least+i+j
			d := s.suffix[from] - s.suffix[to] - s.arcs[i][j].share*all
			if x := d * d * s.arcs[i][j].norm; x > k {
				k, out.From, out.To = x, from, to
			}
		}
	}
	out.P = s.pValue(k, o, s.reachesBump)
	return out
}

// pValue counts the orders of the scores whose statistic reaches scan.
func (s *stepper) pValue(scan float64, o StepOption, reaches func([]float64, float64) bool) float64 {
	if !(scan > 0) {
		return 1
	}
	scan /= max(o.Inflation, 1)
	scan *= 1 - 1e-9 // orders that differ by rounding only are as large
	orders := min(max(leastOrders, int(math.Ceil(100/max(o.Level, 1e-9)))), mostOrders)
	most := int(o.Level*float64(orders+1)) + 1 // hits from which on the p-value exceeds Level
	r := rand.New(rand.NewPCG(o.Seed, uint64(len(s.scores))))
	order := slices.Clone(s.scores)
	hits := 0
	for drawn := 1; drawn <= orders; drawn++ {
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		if reaches(order, scan) {
			if hits++; hits >= most {
				return float64(hits) / float64(drawn)
			}
		}
	}
	return float64(hits+1) / float64(orders+1)
}

// stepper computes the statistics of a series and of its orders.
type stepper struct {
	least  int
	scores []float64 // centered
	root   []float64 // of the weight of each place
	after  []float64 // share of the weights from each place on
	norm   []float64 // 1 / variance of the difference for a step at each place
	suffix []float64 // scratch
	square float64   // of the scores
	arcs   [][]arc   // by the first value of a bump, and by its length
}

// arc is what does not depend on the order: the share of the weights in it, and
// 1 / variance of its difference from the others.
type arc struct{ share, norm float64 }

// newStepper returns nil if the values are too large for their differences.
func newStepper(xs, variances []float64, least int) *stepper {
	n := len(xs)
	s := &stepper{least: least, root: make([]float64, n), after: make([]float64, n), norm: make([]float64, n),
		suffix: make([]float64, n+1)}
	var weights, mean float64
	for i, v := range variances {
		s.root[i] = 1 / math.Sqrt(v)
		weights += 1 / v
		mean += xs[i] / v
	}
	mean /= weights
	standardized := make([]float64, n)
	for i, x := range xs {
		standardized[i] = (x - mean) * s.root[i]
	}
	if hasNaN(standardized) {
		return nil
	}
	s.scores, s.square = normalScores(standardized)
	var roots, rest, restRoots float64
	for _, a := range s.root {
		roots += a
	}
	for m := n - 1; m > 0; m-- {
		rest += s.root[m] * s.root[m]
		restRoots += s.root[m]
		share := rest / weights
		s.after[m] = share
		s.norm[m] = s.inverseVariance(rest, weights, restRoots, roots)
	}
	return s
}

// inverseVariance returns 1 / variance, over all orders, of the difference between values that
// have this weight of all and this sum of roots of all, and the others; 0 if it is 0.
func (s *stepper) inverseVariance(weight, weights, root, roots float64) float64 {
	n, share := float64(len(s.scores)), weight/weights
	average := (root - share*roots) / n
	variance := (weight*(1-share) - n*average*average) * s.square / (n - 1)
	if !(variance > 1e-12*weight*s.square/n) {
		return 0
	}
	return 1 / variance
}

// computeBumps computes the arcs of all bumps.
func (s *stepper) computeBumps() {
	n := len(s.scores)
	var weights, roots float64
	for _, a := range s.root {
		weights, roots = weights+a*a, roots+a
	}
	for from := s.least; from+s.least <= n-s.least; from++ {
		var row []arc
		var weight, root float64
		for to := from + 1; to <= min(n-s.least, from+longestBump); to++ {
			weight, root = weight+s.root[to-1]*s.root[to-1], root+s.root[to-1]
			if to >= from+s.least {
				row = append(row, arc{weight / weights, s.inverseVariance(weight, weights, root, roots)})
			}
		}
		s.arcs = append(s.arcs, row)
	}
}

// reachesBump is as reaches, for bumps.
func (s *stepper) reachesBump(scores []float64, k float64) bool {
	all := s.sumSuffixes(scores)
	for i, row := range s.arcs {
		from := s.least + i
		for j, a := range row {
			if d := s.suffix[from] - s.suffix[from+s.least+j] - a.share*all; d*d*a.norm >= k {
				return true
			}
		}
	}
	return false
}

// normalScores returns the normal scores of xs minus their mean, and the sum of their
// squares. Equal values have equal scores.
func normalScores(xs []float64) (scores []float64, square float64) {
	n := float64(len(xs))
	var mean float64
	for _, rank := range midranks(xs) { // doubled
		score := normalQuantile(float64(rank) / 2 / (n + 1))
		scores = append(scores, score)
		mean += score / n
	}
	for i := range scores {
		scores[i] -= mean
		square += scores[i] * scores[i]
	}
	return scores, square
}

// sumSuffixes fills suffix with the sums of weighted scores from each place on.
func (s *stepper) sumSuffixes(scores []float64) float64 {
	sum := 0.0
	for i := len(scores) - 1; i >= 0; i-- {
		sum += s.root[i] * scores[i]
		s.suffix[i] = sum
	}
	return sum
}

// largestScan returns the largest statistic and its place.
func (s *stepper) largestScan(scores []float64) (largest float64, at int) {
	all := s.sumSuffixes(scores)
	at = s.least
	for m := s.least; m <= len(scores)-s.least; m++ {
		d := s.suffix[m] - s.after[m]*all
		if k := d * d * s.norm[m]; k > largest {
			largest, at = k, m
		}
	}
	return largest, at
}

// reaches reports whether any statistic of an order is at least k.
func (s *stepper) reaches(scores []float64, k float64) bool {
	all := s.sumSuffixes(scores)
	for m := s.least; m <= len(scores)-s.least; m++ {
		if d := s.suffix[m] - s.after[m]*all; d*d*s.norm[m] >= k {
			return true
		}
	}
	return false
}
