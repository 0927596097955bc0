package stats

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// ChangePoint is the most likely change of level in a series.
type ChangePoint struct {
	// At is the index of the first value after the change; 0: there is none.
	At int
	// Before and After are the medians of the two sides.
	Before, After float64
}

// ScanPoint returns the most likely change of level in xs, which are in measured
// order: the split with the largest standardized rank sum. It also finds changes
// near the ends, to which Pettitt's statistic gives little weight. It finds none
// in fewer than two values, or if a value is NaN.
//
// Source: Lausen and Schumacher, Biometrics 48 (1992) 73, maximally selected
// rank statistics.
func ScanPoint(xs []float64) (c ChangePoint) {
	if hasNaN(xs) || len(xs) < 2 {
		return c
	}
	_, c.At = scanRanks(midranks(xs))
	c.Before, c.After = Median(xs[:c.At]), Median(xs[c.At:])
	return c
}

// ScanWithin reports whether the p-value of the change that ScanPoint finds is
// at most p. The p-value counts the order of xs and random permutations of it: it
// is the share of them whose statistic is at least as large. So it is exact with
// ties and for any n; its least value is 1/(permutations+1). ScanWithin stops as soon as
// the answer is certain, which leaves r in an arbitrary state.
//
// xs holds finite values or ±Inf and is not modified; permutations ≥ 1.
//
// Assumption: without a change the values are exchangeable. The scan also finds
// trends and autocorrelation as changes.
func ScanWithin(xs []float64, permutations int, r *rand.PCG, p float64) bool {
	if hasNaN(xs) || len(xs) < 2 {
		return p >= 1
	}
	s := newScanner(xs)
	hits := 1
	for range permutations {
		if s.shuffle(r) {
			hits++
		}
		if float64(hits)/float64(permutations+1) > p {
			return false
		}
	}
	return float64(hits)/float64(permutations+1) <= p
}

// scanner draws random orders of values, and reports for each whether its scan
// statistic is as large as that of the first order.
type scanner struct {
	ranks []int
	// least is, by length of the part before a split, the smallest cumulated
	// deviation of its ranks with which the statistic is as large: whole
	// numbers, so that no order costs a division.
	least []int
}

func newScanner(xs []float64) scanner {
	s := scanner{ranks: midranks(xs)}
	n := len(s.ranks)
	k, _ := scanRanks(s.ranks)
	k *= 1 - 1e-12
	for i := range s.ranks {
		s.ranks[i] -= n + 1 // which is their mean, doubled as they are
	}
	s.least = make([]int, n)
	for m := 1; m < n; m++ {
		split := float64(m * (n - m))
		at := int(math.Sqrt(k * split))
		for at > 0 && float64(at-1)*float64(at-1)/split >= k {
			at--
		}
		for float64(at)*float64(at)/split < k {
			at++
		}
		s.least[m] = at
	}
	return s
}

// shuffle draws another order and reports whether its statistic is as large. Like
// rand.Shuffle it draws from the end, so the part after a split is complete first.
// The part before the split has the same sum with the opposite sign.
func (s scanner) shuffle(r *rand.PCG) bool {
	hit, sum := false, 0
	for m := len(s.ranks) - 1; m > 0; m-- {
		j := drawBelow(r, uint64(m+1))
		x := s.ranks[j]
		s.ranks[j] = s.ranks[m]
		s.ranks[m] = x
		sum += x
		if sum >= s.least[m] || -sum >= s.least[m] {
			hit = true
		}
	}
	return hit
}

// drawBelow draws a number below n as rand.Rand does, without its detours.
//
// Source: Lemire, ACM Trans. Model. Comput. Simul. 29 (2019) 3.
func drawBelow(r *rand.PCG, n uint64) uint64 {
	x := r.Uint64()
	if n&(n-1) == 0 {
		return x & (n - 1)
	}
	hi, lo := bits.Mul64(x, n)
	if lo < n {
		for least := -n % n; lo < least; {
			hi, lo = bits.Mul64(r.Uint64(), n)
		}
	}
	return hi
}

// scanRanks returns the largest squared deviation of the cumulated ranks from
// their mean, in units of its variance but for a factor that is the same for
// all splits, and the index after it.
func scanRanks(ranks []int) (k float64, at int) {
	sum, n := 0, len(ranks)
	at = 1
	for i, rank := range ranks[:n-1] {
		sum += rank - (n + 1) // ranks are doubled
		m := i + 1
		if d := float64(sum) * float64(sum) / float64(m*(n-m)); d > k {
			k, at = d, m
		}
	}
	return k, at
}
