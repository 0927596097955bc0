package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	clock "time"

	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/judge/noise"
	"bakeoff/judge/stats"
	"bakeoff/lab/manifest"
)

// rule is a rule that decides whether two things differ.
type rule struct {
	name string
	// everywhere means that the rule is shown in every noise, not only in the
	// reference noise.
	everywhere bool
	decide     func(f noise.Family, r *rand.Rand, effect float64) outcome
}

var rules = []rule{
	{"Phoronix: each until its deviation is 3 %, then disjoint bars", false, phoronix},
	{"hyperfine: 10 of A, then 10 of B, Welch's t", false, batches(stats.WelchP)},
	{"10 of A, then 10 of B, Mann–Whitney", false, batches(mannWhitney)},
	{"fixed order AB, 40 pairs, paired t", false, pairTest},
	{"random mirrored blocks, paired t after each from the 4th", false, peeking},
	{"the baseline: mirrored blocks, block means, exact signed rank, union bound over 4 looks", true, baseline},
	{"bakeoff", true, func(f noise.Family, r *rand.Rand, effect float64) outcome {
		return analysed(f, r, standard, [][]float64{{effect}})
	}},
	{"bakeoff with looks at 8, 12, 18 and 26, as lab files have", true,
		func(f noise.Family, r *rand.Rand, effect float64) outcome {
			return analysed(f, r, labs, [][]float64{{effect}})
		}},
}

// measure draws n random trials of one side.
func measure(n *noise.Run, level float64, count int) []float64 {
	level += n.Instance()
	out := make([]float64, count)
	for i := range out {
		out[i] = n.Trial(level, i)
	}
	return out
}

func moments(xs []float64) (mean, sd float64) {
	for _, x := range xs {
		mean += x
	}
	mean /= float64(len(xs))
	for _, x := range xs {
		sd += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(sd / float64(len(xs)-1))
}

// phoronix runs one side after the other, each at least three and at most twelve times,
// until the coefficient of variation is at most 3 %. A reader takes disjoint bars of the
// standard error for a difference.
func phoronix(f noise.Family, r *rand.Rand, effect float64) outcome {
	n := f.Start(r)
	var lo, hi [2]float64
	used := 0
	for i := range 2 {
		level := float64(i)*effect + n.Instance()
		var xs []float64
		for len(xs) < 12 {
			xs = append(xs, math.Exp(n.Trial(level, len(xs))))
			if len(xs) >= 3 {
				if mean, sd := moments(xs); sd <= 0.03*mean {
					break
				}
			}
		}
		mean, sd := moments(xs)
		e := sd / math.Sqrt(float64(len(xs)))
		lo[i], hi[i] = mean-e, mean+e
		used += len(xs)
	}
	return outcome{different: hi[0] < lo[1] || hi[1] < lo[0], trials: used}
}

func batches(test func(a, b []float64) float64) func(noise.Family, *rand.Rand, float64) outcome {
	return func(f noise.Family, r *rand.Rand, effect float64) outcome {
		n := f.Start(r)
		a, b := measure(n, 0, 10), measure(n, effect, 10)
		return outcome{different: test(a, b) <= 0.05, trials: 20}
	}
}

func mannWhitney(a, b []float64) float64 { return stats.RankSum(a, b).P }

func pairTest(f noise.Family, r *rand.Rand, effect float64) outcome {
	n := f.Start(r)
	a, b := n.Instance(), n.Instance()
	d := make([]float64, 40)
	for i := range d {
		x := n.Trial(a, 0)
		d[i] = n.Trial(b+effect, 1) - x
	}
	return outcome{different: pairedP(d) <= 0.05, trials: 80}
}

func pairedP(d []float64) float64 {
	mean, sd := moments(d)
	return stats.StudentP(mean/(sd/math.Sqrt(float64(len(d)))), float64(len(d)-1))
}

// mirrored draws the difference of the block means of a mirrored block, B minus A.
func mirrored(n *noise.Run, r *rand.Rand, effect float64) float64 {
	levels := [2]float64{n.Instance(), n.Instance() + effect}
	first := r.IntN(2)
	var sum [2]float64
	for i, side := range [4]int{first, 1 - first, 1 - first, first} {
		sum[side] += n.Trial(levels[side], i)
	}
	return (sum[1] - sum[0]) / 2
}

func peeking(f noise.Family, r *rand.Rand, effect float64) outcome {
	n := f.Start(r)
	var d []float64
	for len(d) < 26 {
		d = append(d, mirrored(n, r, effect))
		if len(d) >= 4 && pairedP(d) <= 0.05 {
			return outcome{different: true, trials: 4 * len(d)}
		}
	}
	return outcome{trials: 4 * len(d)}
}

// baseline is the design that bakeoff's design had to beat.
func baseline(f noise.Family, r *rand.Rand, effect float64) outcome {
	n := f.Start(r)
	looks, alphas := []int{8, 12, 18, 26}, []float64{.010, .010, .015, .015}
	var d []float64
	for k, look := range looks {
		for len(d) < look {
			d = append(d, mirrored(n, r, effect))
		}
		e := stats.HodgesLehmann(d, 1-alphas[k])
		m := math.Log(1.02)
		switch {
		case -m <= e.Lo && e.Hi <= m:
			return outcome{equivalent: true, trials: 4 * look}
		case e.Lo > 0 || e.Hi < 0:
			return outcome{different: true, trials: 4 * look}
		}
	}
	return outcome{trials: 4 * len(d)}
}

// design holds looks with their alphas.
type design struct {
	looks  []int
	alphas []float64
}

var (
	standard = design{analysis.DefaultLooks, analysis.DefaultAlphas}
	labs     = design{[]int{8, 12, 18, 26}, []float64{.010, .010, .015, .015}} // manifest.DefaultDesign
)

var time = sample.Metric{Name: "time", Unit: "s", Better: sample.Lower, Primary: true, Scale: sample.Ratio}

// analysed runs mirrored blocks through the complete analysis. effects holds the true log
// ratios of the contenders after the baseline on each cell. In the outcome, different is a
// false alarm if any effect is not zero.
func analysed(f noise.Family, r *rand.Rand, ds design, effects [][]float64) outcome {
	d := analysis.Data{Baseline: "0", Margin: 0.02, Looks: ds.looks, Alphas: ds.alphas, Scope: analysis.ScopeMachine,
		Trials: 2}
	for c := range len(effects) + 1 {
		d.Contenders = append(d.Contenders, analysis.Contender{Name: fmt.Sprint(c)})
	}
	for k := range effects[0] {
		d.Cells = append(d.Cells, analysis.Cell{Name: fmt.Sprint(k), Metrics: []sample.Metric{time}})
	}
	n := f.Start(r)
	for b := range ds.looks[len(ds.looks)-1] {
		instance := make([]float64, len(d.Contenders))
		for i := range instance {
			instance[i] = n.Instance()
		}
		for k := range d.Cells {
			order := r.Perm(len(d.Contenders))
			back := slices.Clone(order)
			slices.Reverse(back)
			for i, c := range append(order, back...) {
				level := instance[c]
				if c > 0 {
					level += effects[c-1][k]
				}
				d.Observations = append(d.Observations, analysis.Observation{
					Block: b, Position: i, Contender: d.Contenders[c].Name, Cell: d.Cells[k].Name,
					Values: []sample.Value{{Metric: time.Name, Unit: time.Unit, Value: math.Exp(n.Trial(level, i))}}})
			}
		}
	}
	return sumVerdicts(analysis.Analyse(d), effects)
}

// sumVerdicts compares the verdicts with the truth.
func sumVerdicts(res analysis.Results, effects [][]float64) outcome {
	var o outcome
	single := len(res.Comparisons) == 1
	for _, c := range res.Comparisons {
		var i, k int
		fmt.Sscan(c.Contender, &i)
		fmt.Sscan(c.Cell, &k)
		e := effects[i-1][k]
		differs := c.Verdict == analysis.Better || c.Verdict == analysis.Worse
		o.different = o.different || differs && (e == 0 || single)
		o.equivalent = o.equivalent || c.Verdict == analysis.Equivalent
		o.wrong = o.wrong || differs && e == 0 || c.Verdict == analysis.Better && e > 0 || c.Verdict == analysis.Worse &&
			e < 0 ||
			c.Verdict == analysis.Equivalent && math.Abs(e) > math.Log(1.02)+1e-12
		lo, hi := math.Inf(-1), math.Inf(1)
		if c.CI[0] != nil {
			lo = math.Log(*c.CI[0])
		}
		if c.CI[1] != nil {
			hi = math.Log(*c.CI[1])
		}
		o.uncovered = o.uncovered || e < lo || e > hi
		o.trials = max(o.trials, c.Blocks)
	}
	o.trials *= 2 * (len(effects) + 1)
	return o
}

// tryDesign is the design of bakeoff try for two commands and a budget of so many blocks.
func tryDesign(blocks int) design {
	looks, alphas := manifest.Looks(1, 2, clock.Duration(blocks))
	return design{looks, alphas}
}

// designs holds the designs that were compared.
var designs = []design{
	standard,
	labs,
	tryDesign(60), tryDesign(400), // bakeoff try, without and with looks beyond 60
	{[]int{8, 12, 16, 20}, []float64{.010, .010, .015, .015}},
	{[]int{8, 10, 12, 14, 16, 18}, []float64{.008, .008, .008, .008, .008, .008}},
	{[]int{8, 10, 12, 14, 16, 18, 22, 26}, []float64{.016, .007, .006, .005, .005, .005, .002, .002}},
	{[]int{8, 11, 14, 18}, []float64{.016, .010, .011, .011}},
	{[]int{8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18},
		[]float64{.016, .0032, .0032, .0032, .0032, .0032, .0032, .0032, .0032, .0032, .0032}},
	{[]int{7, 8, 9, 10, 11, 12, 14, 16, 18}, []float64{.016, .004, .004, .004, .004, .004, .004, .004, .004}},
	{[]int{14}, []float64{.048}},
}
