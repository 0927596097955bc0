package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"bakeoff/bench/study"
	"bakeoff/judge/noise"
	"bakeoff/judge/stats"
)

// A contrast turns the trials of mirrored blocks, in order, into residuals. The score of a
// block is the sum of one side's residuals minus the other's. No contrast knows the sides.
type contrast struct {
	name string
	// step is the variance of the level's step from trial to trial, as a share
	// of a trial's variance; 0 means no smoothing. between multiplies it between
	// blocks.
	step, between float64
	weight        func(x float64) float64 // of a residual in standard deviations
}

func weighAll(float64) float64 { return 1 }

func huberWeight(c float64) func(float64) float64 {
	return func(x float64) float64 { return math.Min(1, c/math.Max(math.Abs(x), 1e-12)) }
}

func biweight(c float64) func(float64) float64 {
	return func(x float64) float64 {
		if x /= c; math.Abs(x) < 1 {
			return (1 - x*x) * (1 - x*x)
		}
		return 0
	}
}

var contrastsTried = []contrast{
	{"block means", 0, 1, weighAll},
	{"level followed, no weights", 0.2, 1, weighAll},
	{"Huber 1", 0.2, 4, huberWeight(1)},
	{"Huber 1.5", 0.2, 4, huberWeight(1.5)},
	{"Huber 2", 0.2, 4, huberWeight(2)},
	{"biweight 3", 0.2, 4, biweight(3)},
	{"biweight 4", 0.2, 4, biweight(4)},
	{"biweight 5 (adopted)", 0.2, 4, biweight(5)},
	{"biweight 6", 0.2, 4, biweight(6)},
	{"biweight 5, stiffer level", 0.05, 4, biweight(5)},
	{"biweight 5, looser level", 1, 4, biweight(5)},
	{"biweight 5, one level over blocks", 0.2, 1, biweight(5)},
	{"biweight 5, each block by itself", 0.2, 1000, biweight(5)},
}

// residuals returns the weighted residuals of y from the level.
func (c contrast) residuals(y []float64) []float64 {
	level, w := make([]float64, len(y)), make([]float64, len(y))
	for i := range y {
		part := slices.Clone(y[i/4*4 : i/4*4+4])
		slices.Sort(part)
		level[i], w[i] = (part[1]+part[2])/2, 1
	}
	if c.step > 0 {
		for range 5 {
			size := make([]float64, len(y))
			for i := range y {
				size[i] = math.Abs(y[i] - level[i])
			}
			scale := 1.4826 * stats.Median(size)
			for i := range y {
				w[i] = c.weight((y[i] - level[i]) / scale)
			}
			c.smoothLevels(y, w, level)
		}
	}
	out := make([]float64, len(y))
	for i := range y {
		out[i] = w[i] * (y[i] - level[i])
	}
	return out
}

func (c contrast) smoothLevels(y, w, level []float64) {
	up, rhs := make([]float64, len(y)), make([]float64, len(y))
	before := 0.0
	for i := range y {
		next := 1 / c.step
		if (i+1)%4 == 0 {
			next /= c.between
		}
		if i == len(y)-1 {
			next = 0
		}
		den, r := w[i]+1e-9+before+next, w[i]*y[i]
		if i > 0 {
			den -= before * up[i-1]
			r += before * rhs[i-1]
		}
		up[i], rhs[i] = next/den, r/den
		before = next
	}
	for i := len(y) - 1; i >= 0; i-- {
		level[i] = rhs[i]
		if i+1 < len(y) {
			level[i] += up[i] * level[i+1]
		}
	}
}

// contrastsTable compares the contrasts in one fixed look of twelve blocks at 5 %, under the
// signed-rank test and under the randomization test of the sum of the scores.
func contrastsTable(s study.Study) {
	w := s.Table("Contrasts and tests at 12 blocks and 5 %: called different, percent", "contrast", "test", "A/A", "2 %")
	for _, c := range contrastsTried {
		for _, test := range []struct {
			name string
			p    func(scores []float64, r *rand.Rand) float64
		}{
			{"signed rank", func(u []float64, _ *rand.Rand) float64 { return stats.SignedRankTest(u).P }},
			{"all 4096 signs of the sum", func(u []float64, _ *rand.Rand) float64 { return signTest(u) }},
		} {
			var cells [2]total
			for i, effect := range []float64{0, math.Log(1.02)} {
				cells[i] = replayed(s, func(r *rand.Rand) outcome {
					y, side := drawBlocks(noise.Reference.Start(r), r, 12, effect)
					u := make([]float64, 12)
					for j, x := range c.residuals(y) {
						u[j/4] += side[j] * x
					}
					return outcome{different: test.p(u, r) <= 0.05}
				})
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.name, test.name, percent(cells[0].different, cells[0].n),
				percent(cells[1].different, cells[1].n))
		}
	}
	w.Flush()
}

// drawBlocks measures mirrored blocks in random orders.
func drawBlocks(n *noise.Run, r *rand.Rand, blocks int, effect float64) (y, side []float64) {
	for range blocks {
		first := float64(2*r.IntN(2) - 1)
		for i, s := range [4]float64{first, -first, -first, first} {
			y = append(y, n.Trial(s*effect/2, i))
			side = append(side, s)
		}
	}
	return y, side
}

// signTest is the randomization test of the sum, over all assignments of signs in the order
// of a Gray code.
func signTest(u []float64) float64 {
	var observed, sum float64
	s := slices.Clone(u)
	for _, x := range u {
		observed += x
		sum += x
	}
	hits := 0
	for i := range 1 << len(u) {
		if i > 0 {
			bit := 0
			for i>>bit&1 == 0 {
				bit++
			}
			sum -= 2 * s[bit]
			s[bit] = -s[bit]
		}
		if math.Abs(sum) >= math.Abs(observed)*(1-1e-12) {
			hits++
		}
	}
	return float64(hits) / float64(int(1)<<len(u))
}
