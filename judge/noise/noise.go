// Package noise makes the noise of machines, seeded: what measurements are
// made of besides the thing measured. The operating characteristics of the
// analysis are taken on it.
//
// A Family draws the log of a trial's disturbance. What belongs to the trial
// (jitter, outliers) is drawn for each; what belongs to time (drift, regimes)
// goes on through all trials in the order in which they ran; what belongs to
// an instance is drawn once for each.
package noise

import (
	"math"
	"math/rand/v2"
)

// Family is one kind of noise.
type Family struct {
	Name string
	// Doc says what it is, in numbers.
	Doc string
	// start returns the noise of one run: the log disturbance of the trial
	// at a position of its block, trials being asked for in order.
	start func(r *rand.Rand) func(position int) float64
	// instance is the standard deviation of the log effect of an instance.
	instance float64
	// round is the log step to which values are rounded; 0: none.
	round float64
}

// Run is the noise of one run.
type Run struct {
	family Family
	r      *rand.Rand
	trial  func(int) float64
}

// Start begins a run.
func (f Family) Start(r *rand.Rand) *Run { return &Run{family: f, r: r, trial: f.start(r)} }

// Instance draws the effect of a new instance.
func (n *Run) Instance() float64 {
	if n.family.instance == 0 {
		return 0
	}
	return n.family.instance * n.r.NormFloat64()
}

// Trial returns the log of the value of the next trial: level is the log of
// what would be measured without noise, the instance's effect included;
// position counts through the block from 0.
func (n *Run) Trial(level float64, position int) float64 {
	v := level + n.trial(position)
	if n.family.round > 0 {
		v = math.Round(v/n.family.round) * n.family.round
	}
	return v
}

// sd is the size of the jitter of a trial in most families.
const sd = 0.02

// autoregression returns a stationary first-order autoregression.
func autoregression(r *rand.Rand, rho, sd float64) func() float64 {
	x := sd * r.NormFloat64()
	return func() float64 {
		x = rho*x + sd*math.Sqrt(1-rho*rho)*r.NormFloat64()
		return x
	}
}

// slowOutlier is the outlier of the reference noise: one trial in twenty is slower
// by 10 % on average, exponentially distributed.
func slowOutlier(r *rand.Rand) float64 {
	if r.Float64() < 0.05 {
		return 0.10 * r.ExpFloat64()
	}
	return 0
}

// Reference is the noise that designs are compared on: 2 % jitter, a drift
// of 2 % that forgets with 0.9 a trial, 5 % slow outliers of +10 %.
var Reference = Family{Name: "reference",
	Doc: "2 % jitter, AR(1) drift ρ 0.9 sd 2 %, 5 % of trials slower by 10 % on average",
	start: func(r *rand.Rand) func(int) float64 {
		drift := autoregression(r, 0.9, 0.02)
		return func(int) float64 { return drift() + sd*r.NormFloat64() + slowOutlier(r) }
	}}

// First is Reference with 1 % more for the first trial of a block.
var First = Family{Name: "first", Doc: "reference, and the first trial of a block is 1 % slower",
	start: func(r *rand.Rand) func(int) float64 {
		n := Reference.start(r)
		return func(p int) float64 {
			if p == 0 {
				return n(p) + math.Log(1.01)
			}
			return n(p)
		}
	}}

func independent(draw func(r *rand.Rand) float64) func(*rand.Rand) func(int) float64 {
	return func(r *rand.Rand) func(int) float64 {
		return func(int) float64 { return draw(r) }
	}
}

// Families are all kinds of noise, the reference first.
var Families = []Family{
	Reference,
	First,
	{Name: "normal", Doc: "2 % jitter", start: independent(func(r *rand.Rand) float64 { return sd * r.NormFloat64() })},
	{Name: "skewed", Doc: "exponential above a floor, sd 2 %",
		start: independent(func(r *rand.Rand) float64 { return sd * r.ExpFloat64() })},
	{Name: "heavy", Doc: "Cauchy, half of it within 1 %", start: independent(func(r *rand.Rand) float64 {
		return 0.01 * math.Tan(math.Pi*(r.Float64()-0.5))
	})},
	{Name: "bimodal", Doc: "two modes 6 % apart, one trial in four in the upper, 1 % jitter",
		start: independent(func(r *rand.Rand) float64 {
			if r.Float64() < 0.25 {
				return 0.06 + 0.01*r.NormFloat64()
			}
			return 0.01 * r.NormFloat64()
		})},
	{Name: "drifting", Doc: "2 % jitter, 0.3 % more with every trial", start: func(r *rand.Rand) func(int) float64 {
		t := 0.0
		return func(int) float64 { t += 0.003; return t + sd*r.NormFloat64() }
	}},
	{Name: "random walk", Doc: "2 % jitter on a walk of 1 % a trial", start: func(r *rand.Rand) func(int) float64 {
		t := 0.0
		return func(int) float64 { t += 0.01 * r.NormFloat64(); return t + sd*r.NormFloat64() }
	}},
	{Name: "regimes", Doc: "2 % jitter, two speeds 8 % apart that last 15 trials on average",
		start: func(r *rand.Rand) func(int) float64 {
			on := r.Float64() < 0.5
			return func(int) float64 {
				if r.Float64() < 1.0/15 {
					on = !on
				}
				if on {
					return 0.08 + sd*r.NormFloat64()
				}
				return sd * r.NormFloat64()
			}
		}},
	{Name: "position", Doc: "2 % jitter, and positions of the block at 3, 0, 0, −2, 1 % …",
		start: func(r *rand.Rand) func(int) float64 {
			at := [...]float64{0.03, 0, 0, -0.02, 0.01, 0.015, -0.01, 0.005}
			return func(p int) float64 { return at[p%len(at)] + sd*r.NormFloat64() }
		}},
	{Name: "rounded", Doc: "2 % jitter, values rounded to steps of 2 %", round: 0.02,
		start: independent(func(r *rand.Rand) float64 { return sd * r.NormFloat64() })},
	{Name: "instance", Doc: "reference, and every instance differs by 1 %", start: Reference.start, instance: 0.01},
}
