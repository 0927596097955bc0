package calibrate

import (
	"cmp"
	"math"
	"slices"

	"bakeoff/judge/analysis"
	"bakeoff/judge/stats"
)

// series is what one contender gave, by block.
type series struct {
	blocks map[int][]point
	visits int // trials of a block that has all
}

// point is the logarithm of one trial.
type point struct {
	position int
	side     int8
	value    float64
}

// newSeries leaves out values that are not a throughput.
func newSeries(s analysis.Summary) series {
	out := series{blocks: map[int][]point{}}
	for _, p := range s.Samples {
		if p.Value > 0 && !math.IsInf(p.Value, 0) {
			out.blocks[p.Block] = append(out.blocks[p.Block], point{position: p.Position, value: math.Log(p.Value)})
			out.visits = max(out.visits, len(out.blocks[p.Block]))
		}
	}
	return out
}

// typical is the median of all trials; 0 without any.
func (s series) typical() float64 {
	var all []float64
	for _, ps := range s.blocks {
		for _, p := range ps {
			all = append(all, p.value)
		}
	}
	if len(all) == 0 {
		return 0
	}
	return stats.Median(all)
}

// block is the trials of two contenders in one block, in their order.
type block []point

// against puts two contenders together, block by block in order, where both
// have all their trials.
func against(a, b series) []block {
	var names []int
	for k, ps := range a.blocks {
		if len(ps) == a.visits && len(b.blocks[k]) == b.visits && a.visits == b.visits {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	out := make([]block, len(names))
	for i, k := range names {
		for _, p := range a.blocks[k] {
			p.side = 1
			out[i] = append(out[i], p)
		}
		for _, p := range b.blocks[k] {
			p.side = -1
			out[i] = append(out[i], p)
		}
		slices.SortStableFunc(out[i], func(x, y point) int { return cmp.Compare(x.position, y.position) })
	}
	return out
}

// contrast is what verdicts are made with.
func contrast(blocks []block) *stats.Contrast {
	var t stats.Trials
	for _, b := range blocks {
		t.Start = append(t.Start, len(t.Value))
		for _, p := range b {
			t.Value = append(t.Value, p.value)
			t.Side = append(t.Side, p.side)
		}
	}
	return stats.NewContrast(t)
}
