package stats

import "math"

// The grid of the numerical integration over the region in which a
// sequential test goes on: intervals of at most gridStep standard deviations
// of what a look adds, within bounds.
const (
	gridStep = 0.3
	gridMin  = 32 // half the number of intervals
	gridMax  = 1000
)

// Boundaries returns the two-sided nominal level of each look of a group
// sequential test that spends spend[k] of error at look k.
//
// looks are ascending sample sizes, spend are not negative and add up to
// less than 1. The probability, without a difference, that the test is first
// significant at look k is spend[k]; the nominal levels are larger than that
// from the second look on, because looks share their data. A level is 0 where
// nothing is spent.
//
// Assumption: the statistics of the looks are jointly normal with
// correlations √(nᵢ/nⱼ), as sums of independent parts have for large n. Where
// single looks are exact and discrete, less than spend is used.
//
// Sources: Armitage, McPherson and Rowe, JRSS A 132 (1969) 235; Lan and
// DeMets, Biometrika 70 (1983) 659; Jennison and Turnbull, Group Sequential
// Methods, ch. 19.
func Boundaries(looks []int, spend []float64) []float64 {
	out := make([]float64, len(looks))
	// The density of the sum at the look before, where the test went on;
	// before the first look all mass is at 0.
	points, mass := []float64{0}, []float64{1}
	before := 0.0
	for k, look := range looks {
		n := float64(look)
		step := math.Sqrt(n - before)
		exit := func(c float64) float64 {
			var p float64
			for i, x := range points {
				p += mass[i] * (normalCDF((-c-x)/step) + normalCDF((x-c)/step))
			}
			return p
		}
		root := math.Sqrt(n)
		lo, hi := 0.0, 9*root
		if spend[k] > 0 {
			for range 60 {
				if c := (lo + hi) / 2; exit(c) > spend[k] {
					lo = c
				} else {
					hi = c
				}
			}
			out[k] = 2 * normalCDF(-hi/root)
			if len(points) == 1 { // nothing was spent before
				out[k] = spend[k]
			}
		}
		points, mass = advance(points, mass, step, hi)
		before = n
	}
	return out
}

// advance returns Simpson's points on [−c, c] and the mass at each of them
// after a normal step of the given standard deviation.
func advance(points, mass []float64, step, c float64) (x, m []float64) {
	n := 2 * min(max(int(math.Ceil(c/(gridStep*step))), gridMin), gridMax)
	h := 2 * c / float64(n)
	x, m = make([]float64, n+1), make([]float64, n+1)
	for i := range x {
		x[i] = -c + float64(i)*h
		w := h / 3
		switch {
		case i == 0 || i == n:
		case i%2 == 1:
			w *= 4
		default:
			w *= 2
		}
		var f float64
		for j, y := range points {
			z := (x[i] - y) / step
			f += mass[j] * math.Exp(-z*z/2)
		}
		m[i] = w * f / (step * math.Sqrt(2*math.Pi))
	}
	return x, m
}
