package main

import (
	"math"
	"math/rand/v2"
	"testing"

	"bakeoff/bench/study"
	"bakeoff/judge/analysis"
	"bakeoff/judge/calibrate"
	"bakeoff/judge/noise"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
)

// A plan predicts, from the noise of a calibration, the number of blocks until a difference
// is called and how often it is called. Replays of the same noise agree.
func TestPlanPredictsReplays(t *testing.T) {
	s := study.Study{Replays: 800, Seed: 11}
	calibrations := 40
	if testing.Short() {
		s.Replays, calibrations = 200, 15
	}
	for _, f := range noise.Families {
		switch f.Name {
		case "reference", "normal", "skewed", "heavy", "drifting", "random walk", "regimes", "instance":
		default:
			continue // first and position behave as reference and normal; rounded and bimodal are not scatter
		}
		sd := 0.0
		r := rand.New(rand.NewPCG(5, 6))
		for range calibrations {
			sd += calibrated(t, f, r) / float64(calibrations)
		}
		e := planned(standard).Estimate(plan.Costs{Noise: plan.Noise{SD: sd}})
		for _, difference := range []float64{0.02, 0.03} {
			need := e.Needs(difference)
			got := replayed(s, func(r *rand.Rand) outcome {
				return analysed(f, r, standard, [][]float64{{math.Log1p(difference)}})
			})
			blocks, power := got.meanTrials()/4, float64(got.different)/float64(got.n)
			t.Logf("%s: noise %.2f %%; %v %%: %.1f blocks predicted, %.1f replayed; power %.2f, %.2f", f.Name, 100*sd,
				100*difference, need.Mean, blocks, need.Power, power)
			if math.Abs(need.Mean/blocks-1) > 0.2 || math.Abs(need.Power-power) > 0.15 {
				t.Errorf("%s: a difference of %v takes %.1f blocks and is called in %.2f; predicted %.1f and %.2f", f.Name,
					difference, blocks, power, need.Mean, need.Power)
			}
		}
	}
}

// calibrated returns the noise that a calibration of 120 blocks measures.
func calibrated(t *testing.T, f noise.Family, r *rand.Rand) float64 {
	n := f.Start(r)
	names := []string{"base", "copy"}
	sides := map[string]*analysis.Summary{}
	for _, name := range names {
		sides[name] = &analysis.Summary{Contender: name, Cell: "work", Metric: time.Name}
	}
	for b := range 120 {
		level := [2]float64{n.Instance(), n.Instance()}
		first := r.IntN(2)
		for position, side := range [4]int{first, 1 - first, 1 - first, first} {
			sides[names[side]].Samples = append(sides[names[side]].Samples,
				analysis.Point{Block: b, Position: position, Value: math.Exp(n.Trial(level[side], position))})
		}
	}
	m, err := calibrate.Measure(analysis.Results{Summaries: []analysis.Summary{*sides["base"], *sides["copy"]}},
		calibrate.Design{Base: "base", Copies: []string{"copy"}, Cell: "work", Metric: time.Name})
	if err != nil {
		t.Fatal(err)
	}
	return m.Noise
}

// planned returns a plan of one comparison.
func planned(d design) *plan.Plan {
	p := &plan.Plan{Design: manifest.Design{Looks: d.looks, Alphas: d.alphas, Mirror: true, Instances: "block"},
		Family: make([]plan.Comparison, 1)}
	for i := range d.looks[len(d.looks)-1] {
		p.Blocks = append(p.Blocks, plan.Block{Index: i})
	}
	return p
}
