package plan

import (
	"math"
	"time"

	"bakeoff/stats"
)

// Costs is what an estimate is made from.
type Costs struct {
	Trial  map[string]time.Duration // cell → one trial with its reset
	Create map[string]time.Duration // driver → making and removing one environment
	// Settle is spent beside each trial: thawing, settling, freezing, writing.
	Settle time.Duration
	Noise  Noise
}

// Noise is how much the logarithm of one trial's value scatters from trial to
// trial, on top of what a block has in common: its standard deviation.
type Noise struct {
	SD float64
	// Source says where the number is from.
	Source string
}

// AssumedNoise is used until a calibration on the machine has measured it: a
// mild case, as the simulations of the design use it.
var AssumedNoise = Noise{SD: 0.02, Source: "assumed: 2 % from trial to trial; `bakeoff calibrate` measures it on this machine"}

// Estimate is what a plan can be expected to take and to decide.
type Estimate struct {
	Trials int           // of all planned blocks
	Block  time.Duration // one block with its environments
	Total  time.Duration // all planned blocks; no contender leaves early
	Budget time.Duration // 0: none
	Blocks int           // planned blocks that the budget lasts for
	Noise  Noise
	Looks  []LookEstimate
}

// LookEstimate is what one look can be expected to decide.
type LookEstimate struct {
	Blocks  int           // at the look
	At      time.Duration // since the start
	Reached bool          // within the budget
	// Possible tells whether the exact test has an outcome that could
	// decide: with n blocks its smallest p value is 2^(1−n).
	Possible bool
	// Smallest is the smallest true difference (0.03 for 3 %) that is found
	// with 80 % probability while all primary comparisons are open; with
	// fewer open ones less is enough. Infinite where it is not Possible.
	Smallest float64
	// Equivalence is the smallest margin for which two equal contenders are
	// found equivalent with 80 % probability.
	Equivalence float64
}

// Estimate tells what a plan can be expected to take and to decide.
//
// A block's difference d is the mean of a contender's trials minus that of
// the baseline's: its standard deviation is SD·√(2/v) for v visits. The
// signed rank test needs π/3 times as many blocks as the t test where the
// noise is normal (Hodges and Lehmann 1956; Lehmann, Nonparametrics, 4.3), so
// at n blocks the standard error is SD·√(2/v)·√(π/3n). A look has the level
// that the analysis gives it (stats.Boundaries) while its alpha is divided
// among all primary comparisons. Outliers make all of this worse, a look
// before makes it better.
func (p *Plan) Estimate(c Costs) Estimate {
	planned := p.Planned()
	e := Estimate{Budget: p.Design.Budget, Blocks: planned, Noise: c.Noise}
	var create time.Duration
	for _, x := range p.Contenders {
		create += c.Create[x.Driver]
	}
	if len(p.Blocks) > 0 {
		for _, s := range p.Blocks[0].Slots() {
			e.Block += c.Trial[s.Cell] + c.Settle
			e.Trials += planned
		}
	}
	var once time.Duration
	if p.Design.Instances == "run" {
		once = create
	} else {
		e.Block += create
	}
	e.Total = once + time.Duration(planned)*e.Block
	if e.Budget > 0 && e.Block > 0 {
		e.Blocks = max(0, min(planned, int((e.Budget-once)/e.Block)))
	}
	visits := 1.0
	if p.Design.Mirror {
		visits = 2
	}
	open := float64(max(1, len(p.Family)))
	spend := make([]float64, len(p.Design.Alphas))
	for i, a := range p.Design.Alphas {
		spend[i] = a / open
	}
	levels := stats.Boundaries(p.Design.Looks, spend)
	for i, n := range p.Design.Looks {
		alpha := levels[i]
		look := LookEstimate{
			Blocks: n, At: once + time.Duration(n)*e.Block, Reached: n <= e.Blocks,
			Possible: math.Exp2(float64(1-n)) <= alpha,
			Smallest: math.Inf(1), Equivalence: math.Inf(1),
		}
		if look.Possible {
			se := c.Noise.SD * math.Sqrt(2/visits) * math.Sqrt(math.Pi/3/float64(n))
			half := student(1-alpha/2, float64(n-1))
			look.Smallest = math.Expm1((half + normal(.8)) * se)
			// Both bounds must lie inside: each misses with probability .1.
			look.Equivalence = math.Expm1((half + normal(.9)) * se)
		}
		e.Looks = append(e.Looks, look)
	}
	return e
}

// student is the quantile of Student's t distribution: the noise is not known
// but has to be estimated from the blocks. Expansion of Fisher and Cornish,
// Technometrics 2 (1960), first two terms, within 2 % from 7 degrees of freedom
// and p = .995 on.
func student(p, df float64) float64 {
	z := normal(p)
	return z + (z*z*z+z)/(4*df) + (5*math.Pow(z, 5)+16*z*z*z+3*z)/(96*df*df)
}

// normal is the quantile of the standard normal distribution.
func normal(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }
