// Command fleet prints how often `bakeoff fleet` calls equal things different over several
// machines, how often it finds a true difference, and how often an interval of the blocks
// of all machines errs. Every number comes from seeded replays and is the same on every
// machine.
//
//	go run ./bench/fleet -replays 20000
package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"bakeoff/bench/study"
	"bakeoff/judge/analysis"
	"bakeoff/judge/compare"
	"bakeoff/judge/fleet"
	"bakeoff/judge/history"
	"bakeoff/judge/history/replay"
	"bakeoff/judge/noise"
	"bakeoff/judge/stats"
)

func main() {
	study.Main("fleet", 20000, study.Table{Name: "alarms", Print: alarmsTable},
		study.Table{Name: "power", Print: powerTable})
}

// total counts replays and those that were called different, by two rules.
type total struct{ n, machines, blocks int }

func (t *total) add(o total) {
	t.n, t.machines, t.blocks = t.n+o.n, t.machines+o.machines, t.blocks+o.blocks
}

// world is a lab on machines that differ with a standard deviation, and whose mean
// difference is an effect.
func world(machines int, between, effect float64) replay.World {
	return replay.World{Noise: noise.Reference, Runs: machines, Between: between, Step: effect}
}

// called judges the machines of a world, one run each, by both rules.
func called(w replay.World) func(*rand.Rand) total {
	return func(r *rand.Rand) total {
		runs := w.Make(r)
		out := total{n: 1}
		var blocks []float64
		for i := range runs {
			runs[i].Labels[history.MachineLabel] = fmt.Sprintf("machine-%02d", i)
			blocks = append(blocks, compare.Values(runs[i].Results, compare.Relative, replay.Contender, "cell-1",
				replay.Metric, "")...)
		}
		res, err := fleet.Of(runs, fleet.Option{})
		if err != nil {
			panic(err)
		}
		c := res.Labs[0].Comparisons[0]
		if c.Verdict == analysis.Better || c.Verdict == analysis.Worse {
			out.machines = 1
		}
		if e := stats.HodgesLehmann(blocks, fleet.Level); e.Lo > 0 || e.Hi < 0 {
			out.blocks = 1
		}
		return out
	}
}

// betweens are standard deviations between machines.
var betweens = []float64{0, 0.02, 0.05}

func alarmsTable(s study.Study) {
	w := s.Table("Called different without a mean difference, percent", "machines", "they differ by", "bakeoff fleet",
		"an interval of all blocks")
	for _, machines := range []int{5, 10, 20} {
		for _, between := range betweens {
			t := study.Sum(s, called(world(machines, between, 0)), (*total).add)
			fmt.Fprintf(w, "%d\t%.0f %%\t%s\t%s\n", machines, 100*between, study.Percent(t.machines, t.n),
				study.Percent(t.blocks, t.n))
		}
	}
	w.Flush()
}

func powerTable(s study.Study) {
	w := s.Table("Mean differences found, percent", "machines", "they differ by", "of 1 %", "of 3 %", "of 5 %")
	for _, machines := range []int{3, 5, 10, 20} {
		for _, between := range betweens {
			fmt.Fprintf(w, "%d\t%.0f %%", machines, 100*between)
			for _, effect := range []float64{0.01, 0.03, 0.05} {
				t := study.Sum(s, called(world(machines, between, math.Log1p(effect))), (*total).add)
				fmt.Fprintf(w, "\t%s", study.Percent(t.machines, t.n))
			}
			fmt.Fprintln(w)
		}
	}
	w.Flush()
}
