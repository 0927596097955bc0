// Package mirror compares bakeoff with another program in mirrored blocks: one, other,
// other, one, or the reverse. What changes the speed of the machine at a constant rate
// within a block then has no effect on its ratio.
package mirror

import (
	"fmt"
	"math"
	"math/rand/v2"

	"bakeoff/judge/stats"
)

// Blocks measures n blocks. once measures one of the two in a block, which counts from
// 1, and returns a positive value. The result estimates the logarithm of ours / theirs,
// with a 95 % interval.
func Blocks(n int, rnd *rand.Rand, once func(block int, ours bool) (float64, error)) (stats.Estimate, error) {
	var ratios []float64
	for block := range n {
		order := [4]bool{true, false, false, true} // ours?
		if rnd.IntN(2) == 1 {
			order = [4]bool{false, true, true, false}
		}
		sum := map[bool]float64{}
		for _, ours := range order {
			v, err := once(block+1, ours)
			if err != nil {
				return stats.Estimate{}, err
			}
			sum[ours] += math.Log(v) / 2
		}
		ratios = append(ratios, sum[true]-sum[false])
	}
	return stats.HodgesLehmann(ratios, 0.95), nil
}

// Text writes the ratio whose logarithm is e, with its interval if n of the things named by
// unit, such as blocks, are enough for an interval.
func Text(e stats.Estimate, digits, n int, unit string) string {
	text := fmt.Sprintf("%.*f", digits, math.Exp(e.Value))
	if math.IsInf(e.Lo, 0) || math.IsInf(e.Hi, 0) || math.IsNaN(e.Lo) || math.IsNaN(e.Hi) {
		return text + fmt.Sprintf(", no interval: %d %s are too few", n, unit)
	}
	return text + fmt.Sprintf(", interval %.*f to %.*f from %d %s", digits, math.Exp(e.Lo), digits, math.Exp(e.Hi), n,
		unit)
}

// Inverse is the estimate of the logarithm of the inverse ratio.
func Inverse(e stats.Estimate) stats.Estimate {
	e.Value, e.Lo, e.Hi = -e.Value, -e.Hi, -e.Lo
	return e
}
