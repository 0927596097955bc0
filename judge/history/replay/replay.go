// Package replay makes histories of simulated runs, seeded: the operating
// characteristics of package history are taken on them.
package replay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/judge/compare"
	"bakeoff/judge/history"
	"bakeoff/judge/noise"
)

// World says what the simulated runs are.
type World struct {
	Noise  noise.Family // inside runs
	Runs   int
	Blocks func(run int) int // nil: 8 in each
	// Between is the standard deviation between runs of the logarithm of contender /
	// baseline, and Rho its correlation from one run to the next.
	Between, Rho float64
	// Bad is the share of bad runs; each is off by BadSize, up or down.
	Bad, BadSize float64
	// Step is added to the logarithm from run At on; runs count from 0.
	Step float64
	At   int
	// Cells is the number of primary cells, each with noise of its own; the step is
	// in the first. 0: 1.
	Cells int
}

// The names in a simulated run.
const (
	Baseline  = "host"
	Contender = "crun"
	Metric    = "time-per-op"
)

// blocks is the number of blocks of a run that sets no other number.
const blocks = 8

// start is when the first run begins; the others follow each night.
var start = time.Date(2026, 1, 1, 2, 0, 0, 0, time.UTC)

// Make draws the runs. The label commit names each.
func (w World) Make(r *rand.Rand) []history.Run {
	cells := max(w.Cells, 1)
	drift := make([]float64, cells)
	for c := range drift {
		drift[c] = r.NormFloat64()
	}
	var out []history.Run
	for i := range w.Runs {
		at := start.AddDate(0, 0, i)
		res := analysis.Results{Schema: analysis.ResultsSchema, Baseline: Baseline, Margin: analysis.DefaultMargin,
			Run: at.Format("20060102T150405Z") + "-nightly", Ended: analysis.EndedBlocks,
			Contenders: []analysis.Contender{{Name: Baseline, Driver: "host"}, {Name: Contender, Driver: "oci"}}}
		kernel := "Linux 6.1.0"
		if i >= w.At && w.Step != 0 {
			kernel = "Linux 6.2.0"
		}
		for c := range cells {
			if i > 0 {
				drift[c] = w.Rho*drift[c] + math.Sqrt(1-w.Rho*w.Rho)*r.NormFloat64()
			}
			effect := w.Between * drift[c]
			if w.Bad > 0 && r.Float64() < w.Bad {
				effect += w.BadSize * float64(2*r.IntN(2)-1)
			}
			if c == 0 && i >= w.At {
				effect += w.Step
			}
			w.addCell(&res, fmt.Sprintf("cell-%d", c+1), w.blocksOf(i), effect, r)
		}
		facts := map[string]string{"kernel": kernel, "cpu.model": "simulated", "arch": "amd64"}
		out = append(out, history.Run{
			Run: compare.Run{Results: res, Facts: map[string]map[string]string{
				"": {"bakeoff": "1"}, Baseline: facts, Contender: facts}, At: at,
				Labels: map[string]string{"commit": fmt.Sprintf("%07x", 0xc0ffee0+i)}},
			Lab: "nightly", Folder: "runs/" + res.Run,
		})
	}
	return out
}

func (w World) blocksOf(run int) int {
	if w.Blocks == nil {
		return blocks
	}
	return w.Blocks(run)
}

// addCell adds a cell with mirrored blocks in random order.
func (w World) addCell(res *analysis.Results, name string, n int, effect float64, r *rand.Rand) {
	res.Cells = append(res.Cells, analysis.Cell{Name: name, Workload: "crypto", Params: param.Values{},
		Metrics: []sample.Metric{{Name: Metric, Unit: "s/op", Better: sample.Lower, Scale: sample.Ratio, Primary: true}}})
	sides := [2]analysis.Summary{{Contender: Baseline, Cell: name, Metric: Metric, Unit: "s/op"},
		{Contender: Contender, Cell: name, Metric: Metric, Unit: "s/op"}}
	run := w.Noise.Start(r)
	for b := range n {
		levels := [2]float64{run.Instance(), run.Instance() + effect}
		first := r.IntN(2)
		for i, side := range [4]int{first, 1 - first, 1 - first, first} {
			sides[side].Samples = append(sides[side].Samples, analysis.Point{Block: b, Position: i,
				Value: 1e-3 * math.Exp(run.Trial(levels[side], i))})
		}
	}
	median := 1e-3
	for i := range sides {
		sides[i].N, sides[i].Median = 2*n, &median
	}
	res.Summaries = append(res.Summaries, sides[0], sides[1])
	res.Comparisons = append(res.Comparisons, analysis.Comparison{Contender: Contender, Baseline: Baseline, Cell: name,
		Workload: "crypto", Metric: Metric, Unit: "s/op", Better: sample.Lower, Scale: sample.Ratio, Primary: true,
		Gates: []analysis.Gate{}})
}
