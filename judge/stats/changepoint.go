package stats

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// ChangePoint is the result of a test for one change of level.
type ChangePoint struct {
	N int
	// At is the index of the first value after the most likely change.
	At int
	// Before and After are the medians on either side of it.
	Before, After float64
	P             float64
	Warnings      []string
}

// ChangePointTest looks for one change of level in xs, in the order in which
// they came, by Pettitt's rank statistic. Its p-value comes from permutations
// random orders of xs, so that it is exact with ties and for any n; its least
// value is 1/(permutations+1).
//
// xs are finite or ±Inf and not modified; permutations ≥ 1.
//
// Assumption: without a change the values are exchangeable. Trends and
// autocorrelation are found as changes as well.
//
// Source: Pettitt, Applied Statistics 28 (1979) 126.
func ChangePointTest(xs []float64, permutations int, r *rand.Rand) ChangePoint {
	c := ChangePoint{N: len(xs), P: 1}
	if hasNaN(xs) || len(xs) < 2 {
		c.Warnings = append(c.Warnings, "fewer than two values, or one is not a number: nothing was tested")
		return c
	}
	ranks := midranks(xs)
	var k int
	k, c.At = pettitt(ranks)
	c.Before, c.After = Median(xs[:c.At]), Median(xs[c.At:])
	hits := 1
	for range permutations {
		r.Shuffle(len(ranks), func(i, j int) { ranks[i], ranks[j] = ranks[j], ranks[i] })
		if other, _ := pettitt(ranks); other >= k {
			hits++
		}
	}
	c.P = float64(hits) / float64(permutations+1)
	return c
}

// ScanTest looks for one change of level as ChangePointTest does, by the
// largest standardised rank sum over all splits: it finds changes near the
// ends, which Pettitt's statistic gives little weight, and somewhat fewer in
// the middle. Everything said there holds here.
//
// Source: Lausen and Schumacher, Biometrics 48 (1992) 73, maximally selected
// rank statistics, with p-values by permutation.
func ScanTest(xs []float64, permutations int, r *rand.Rand) ChangePoint {
	c := ScanPoint(xs)
	if len(c.Warnings) > 0 {
		return c
	}
	ranks := midranks(xs)
	k, _ := scan(ranks)
	hits := 1
	for range permutations {
		r.Shuffle(len(ranks), func(i, j int) { ranks[i], ranks[j] = ranks[j], ranks[i] })
		if other, _ := scan(ranks); other >= k*(1-1e-12) {
			hits++
		}
	}
	c.P = float64(hits) / float64(permutations+1)
	return c
}

// ScanPoint finds the most likely change of ScanTest and tests nothing: P is 1.
func ScanPoint(xs []float64) ChangePoint {
	c := ChangePoint{N: len(xs), P: 1}
	if hasNaN(xs) || len(xs) < 2 {
		c.Warnings = append(c.Warnings, "fewer than two values, or one is not a number: nothing was tested")
		return c
	}
	_, c.At = scan(midranks(xs))
	c.Before, c.After = Median(xs[:c.At]), Median(xs[c.At:])
	return c
}

// ScanWithin tells whether the P of ScanTest, with a rand.Rand of r, is at most
// p, and looks at no further order once it cannot be: where nothing changed,
// which is nearly always, a few are enough. r is then left anywhere.
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

// scanner holds values in an order that is drawn again and again, and tells of
// each whether its scan statistic is as large as that of the first.
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
	k, _ := scan(s.ranks)
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

// shuffle draws another order and tells whether its statistic is as large. It
// draws as rand.Shuffle does, from the end: what stands behind a split is
// complete then, and what stands before it cumulates to the same with the other
// sign.
func (s scanner) shuffle(r *rand.PCG) bool {
	hit, sum := false, 0
	for m := len(s.ranks) - 1; m > 0; m-- {
		j := below(r, uint64(m+1))
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

// below draws a number below n as rand.Rand does, without its detours.
//
// Source: Lemire, ACM Trans. Model. Comput. Simul. 29 (2019) 3.
func below(r *rand.PCG, n uint64) uint64 {
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

// scan returns the largest squared deviation of the cumulated ranks from
// their mean, in units of its variance but for a factor that is the same for
// all splits, and the index after it.
func scan(ranks []int) (k float64, at int) {
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

// pettitt returns the largest deviation of the cumulated ranks from their
// mean, and the index after it.
func pettitt(ranks []int) (k, at int) {
	sum := 0
	at = 1
	for i, rank := range ranks[:len(ranks)-1] {
		sum += rank - (len(ranks) + 1) // ranks are doubled
		if d := max(sum, -sum); d > k {
			k, at = d, i+1
		}
	}
	return k, at
}
