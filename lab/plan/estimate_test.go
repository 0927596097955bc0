package plan

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/lab/manifest"
)

// After a run that was too short, the analysis asks for as many blocks as a plan
// for the same difference.
func TestTheAnalysisAsksForTheBlocksOfThePlan(t *testing.T) {
	const blocks, difference, noise = 40, 0.005, 0.02
	p := &Plan{Design: manifest.Design{Looks: []int{blocks}, Alphas: []float64{.05}, Mirror: true}}
	want := p.Estimate(Costs{Noise: Noise{SD: noise}}).Needs(difference).Blocks
	var need []int
	for seed := range uint64(101) {
		r := rand.New(rand.NewPCG(seed, 3))
		time := sample.Metric{Name: "time", Unit: "s", Better: sample.Lower, Primary: true, Scale: sample.Ratio}
		d := analysis.Data{
			Baseline: "a", Margin: 0.0001, Looks: []int{blocks}, Alphas: []float64{.05}, Trials: 2,
			Contenders: []analysis.Contender{{Name: "a"}, {Name: "b"}},
			Cells:      []analysis.Cell{{Name: "k", Metrics: []sample.Metric{time}}},
		}
		for b := range blocks {
			for position := range 4 {
				side := position % 2
				v := math.Exp(noise*r.NormFloat64()) * math.Pow(1+difference, float64(side))
				d.Observations = append(d.Observations, analysis.Observation{
					Block: b, Position: position, Contender: d.Contenders[side].Name, Cell: "k",
					Values: []sample.Value{{Metric: "time", Unit: "s", Value: v}},
				})
			}
		}
		c := analysis.Analyse(d).Comparisons[0]
		switch {
		case c.Verdict != analysis.Inconclusive:
			need = append(need, 0) // a lucky run: the difference seemed larger
		case c.MoreBlocks == nil:
			need = append(need, math.MaxInt)
		default:
			need = append(need, blocks+*c.MoreBlocks)
		}
	}
	slices.Sort(need)
	// The estimates scatter about the difference; the one in their middle is it.
	if got := need[len(need)/2]; math.Abs(float64(got)/float64(want)-1) > 0.25 {
		t.Errorf("%d blocks would decide it, the plan says %d", got, want)
	}
	t.Logf("%d blocks, the plan says %d", need[len(need)/2], want)
}

// No time is planned for contenders that cannot run, and none for cells that others cannot; what
// remains shares the error rate.
func TestEstimateOfWhatCanRun(t *testing.T) {
	p := expand(t, "{looks: [8], alphas: [.05]}", 1)
	c := Costs{Trial: map[string]time.Duration{}, Create: map[string]time.Duration{}, Settle: time.Second,
		Noise: Noise{SD: .01}}
	for _, x := range p.Contenders {
		c.Create[x.Driver] = 10 * time.Second
	}
	all := p.Estimate(c)
	cell, leaves := p.Family[0].Cell, p.Family[0].Contender
	c.Unfit = map[Place]bool{At(leaves, cell): true}
	fewer := p.Estimate(c)
	if fewer.Open >= all.Open || fewer.Open != all.Open-1 || fewer.Block != all.Block-2*time.Second ||
		fewer.Trials != all.Trials-16 || !(fewer.Looks[0].Smallest < all.Looks[0].Smallest) {
		t.Errorf("%+v without a cell, %+v with it", fewer, all)
	}
	c.Unfit, c.Gone = nil, map[string]bool{leaves: true}
	if none := p.Estimate(c); none.Block != all.Block-10*time.Second-time.Duration(2*len(p.Cells))*time.Second {
		t.Errorf("a block takes %v without %s, and %v with it", none.Block, leaves, all.Block)
	}
}
