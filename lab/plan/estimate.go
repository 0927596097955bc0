package plan

import (
	"math"
	"time"

	"bakeoff/base/lists"
	"bakeoff/judge/analysis"
	"bakeoff/judge/stats"
)

// Costs is what an estimate is made from.
type Costs struct {
	Trial map[string]time.Duration // cell → one trial with its reset
	// Own is contender → cell → the same, where the contender has parameters of
	// its own.
	Own    map[string]map[string]time.Duration
	Create map[string]time.Duration // driver → making and removing one environment
	Fresh  map[string]bool          // cells whose trials each make an environment
	// Settle is spent beside each trial: thawing, settling, freezing, writing.
	Settle time.Duration
	// Boot is spent on each boot of a machine that is switched.
	Boot  time.Duration
	Noise Noise
	// Gone are contenders that cannot run, and Unfit the cells that others cannot.
	Gone  map[string]bool
	Unfit map[Place]bool
}

// Noise is the scatter of the logarithm of one trial's value from trial to trial,
// in addition to what a block has in common: the standard deviation of the normal
// noise that would affect verdicts as much. Single disturbed trials have little
// influence on the scores behind verdicts (stats.Contrast), so Noise is smaller
// than the scatter of values with outliers. A calibration measures it from the
// scores.
type Noise struct {
	SD float64
	// CPU is the noise of CPU time (sample.Metric.CPUTime), which waiting does
	// not increase. It is 0 if unknown: then SD applies to both.
	CPU float64
	// Source says where the number is from.
	Source string
}

// AssumedNoise applies until a calibration on the machine has measured the noise:
// it is the effect of the reference noise of the simulations on a verdict
// (bench/statistics measures it).
var AssumedNoise = Noise{SD: 0.022,
	Source: "assumed: 2.2 % from trial to trial; `bakeoff calibrate` measures it on this machine"}

// Estimate is the expected time of a plan and what it can decide.
type Estimate struct {
	Trials int           // of all planned blocks
	Block  time.Duration // one block with its environments
	Total  time.Duration // all planned blocks; no contender leaves early
	Budget time.Duration // 0: none
	Blocks int           // planned blocks that the budget lasts for
	Open   int           // primary comparisons of contenders and cells that can run
	Noise  Noise
	Looks  []LookEstimate
	// ByCPU is the same for the primary comparisons of CPU time, where there are
	// others beside them and its noise is known; nil otherwise.
	ByCPU *Estimate

	reach *stats.Reach
	once  time.Duration // spent before the first block
	score float64       // deviation of a block's score
}

// LookEstimate is what one look is expected to decide.
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

// Estimate returns the expected time of a plan and what it can decide.
//
// A block's score has the standard deviation SD·√(2/v) for v visits. The looks
// have the levels that the analysis gives them (stats.Boundaries) while alpha
// is divided among all primary comparisons, and the sequential test itself is
// replayed on normal scores (stats.Reach): what a look can decide includes
// what the looks before it have.
func (p *Plan) Estimate(c Costs) Estimate {
	planned := p.Planned()
	e := Estimate{Budget: p.Design.Budget, Blocks: planned, Noise: c.Noise}
	var create time.Duration
	each := map[string]time.Duration{} // contender → making one of its environments
	for _, x := range p.Contenders {
		if c.Gone[x.Name] {
			continue
		}
		each[x.Name] = c.Create[x.Driver]
		create += c.Create[x.Driver]
	}
	if len(p.Blocks) > 0 {
		block := p.Blocks[0].Without(c.Gone, c.Unfit)
		for _, boot := range block.Boots {
			if boot.Host != "" && len(boot.Contenders) > 0 {
				e.Block += c.Boot
			}
		}
		for _, s := range block.Slots() {
			e.Block += c.trial(s) + c.Settle
			if c.Fresh[s.Cell] {
				e.Block += each[s.Contender]
			}
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
	clock, cpu := p.measures()
	cpu = cpu && c.Noise.CPU > 0
	if cpu && !clock {
		e.Noise.SD = c.Noise.CPU
	}
	e.once = once
	e.Open = lists.Count(p.Family, func(x Comparison) bool {
		return !c.Gone[x.Contender] && !c.Unfit[At(x.Contender, x.Cell)]
	})
	spend := make([]float64, len(p.Design.Alphas))
	for i, a := range p.Design.Alphas {
		spend[i] = a / float64(max(1, e.Open))
	}
	levels := stats.Boundaries(p.Design.Looks, spend)
	e.reach = stats.NewReach(p.Design.Looks, levels)
	e = e.with(e.Noise.SD, p.Design.Looks, levels, visits)
	if cpu && clock {
		e.ByCPU = new(e.with(c.Noise.CPU, p.Design.Looks, levels, visits))
	}
	return e
}

// trial is what one trial takes.
func (c Costs) trial(s Slot) time.Duration {
	if d, ok := c.Own[s.Contender][s.Cell]; ok {
		return d
	}
	return c.Trial[s.Cell]
}

// measures tells whether primary metrics are read from a clock, and whether
// from CPU time. Without any, the clock is what is meant.
func (p *Plan) measures() (clock, cpu bool) {
	for _, c := range p.Cells {
		for _, m := range c.Metrics {
			clock = clock || m.Primary && !m.CPUTime
			cpu = cpu || m.Primary && m.CPUTime
		}
	}
	return clock || !cpu, cpu
}

// with returns e with its looks at a noise.
func (e Estimate) with(sd float64, looks []int, levels []float64, visits float64) Estimate {
	e.Noise.SD, e.score, e.Looks = sd, sd*math.Sqrt(2/visits), nil
	for i, n := range looks {
		e.Looks = append(e.Looks, LookEstimate{
			Blocks: n, At: e.once + time.Duration(n)*e.Block, Reached: n <= e.Blocks,
			Possible:    math.Exp2(float64(1-n)) <= levels[i],
			Smallest:    math.Expm1(e.reach.Smallest(i, stats.Likely) * e.score),
			Equivalence: analysis.Region(e.reach.Equivalence(i, stats.Likely) * e.score).Margin(),
		})
	}
	return e
}

// Need is the blocks and the time needed to detect a difference.
type Need struct {
	Difference float64 // 0.02 for 2 %
	// Blocks with which it is found with 80 % probability: those of a look,
	// or where Planned is false, roughly as many as a last look had to come
	// at. 0: it cannot be told.
	Blocks  int
	Planned bool // Blocks is a look of the plan
	Reached bool // and within the budget
	At      time.Duration
	// Mean is how many blocks are used on average, up to the last look within
	// the budget, and Power the probability that it is found by then.
	Mean, Power float64
}

// Needs returns the blocks and the time needed to detect a difference, while all
// primary comparisons are open. The difference is of ratios: 0.02 for 2 %.
func (e Estimate) Needs(difference float64) Need {
	need := Need{Difference: difference}
	if len(e.Looks) == 0 || !(difference > 0) || !(e.score > 0) {
		return need
	}
	shift := math.Log1p(difference) / e.score
	power := e.reach.Power(shift)
	before := 0.0
	for i, l := range e.Looks {
		if l.Reached {
			need.Mean += float64(l.Blocks) * (power[i] - before)
			before, need.Power = power[i], power[i]
		}
		if power[i] >= stats.Likely && need.Blocks == 0 {
			need.Blocks, need.Planned, need.Reached = l.Blocks, true, l.Reached
		}
	}
	need.Mean += float64(e.Blocks) * (1 - before)
	last := e.Looks[len(e.Looks)-1]
	if s := e.reach.Smallest(len(e.Looks)-1, stats.Likely); need.Blocks == 0 && !math.IsInf(s, 1) {
		// The interval narrows with the square root of the number of blocks.
		if n := math.Ceil(float64(last.Blocks) * (s / shift) * (s / shift)); n < math.MaxInt32 {
			need.Blocks = int(n)
		}
	}
	need.At = e.once + time.Duration(need.Blocks)*e.Block
	return need
}
