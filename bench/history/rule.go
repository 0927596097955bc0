package main

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"bakeoff/base/lists"
	"bakeoff/bench/study"
	"bakeoff/judge/history"
	"bakeoff/judge/history/replay"
	"bakeoff/judge/noise"
	"bakeoff/judge/stats"
)

// rule is a way to find a step; it returns the first run of each, from 0.
type rule struct {
	name string
	find func(history.Series) []int
}

var rules = []rule{
	{"disjoint 95 % intervals of a run and the one before", disjoint},
	{"a run beyond the quartiles of the 10 before by 3 ranges (fences)", fenceRule},
	{"scan of ranks, 5 %, no weights, no dependence", rankRule},
	{"bakeoff history", func(s history.Series) (out []int) {
		for _, step := range s.Steps {
			out = append(out, step.At)
		}
		return out
	}},
}

// disjoint is what the eye does with two runs.
func disjoint(s history.Series) (out []int) {
	for i := 1; i < len(s.Estimates); i++ {
		a, b := s.Estimates[i-1].Within, s.Estimates[i].Within
		if a[0] != nil && b[0] != nil && (*a[1] < *b[0] || *b[1] < *a[0]) {
			out = append(out, i)
		}
	}
	return out
}

// fenceRule is the rule of dashboards that compare a run with those before it.
func fenceRule(s history.Series) (out []int) {
	for i := 10; i < len(s.Estimates); i++ {
		before := lists.Map(s.Estimates[i-10:i], func(e history.Estimate) float64 { return *e.Value })
		slices.Sort(before)
		lo, hi := before[2], before[7]
		if v := *s.Estimates[i].Value; v > hi+3*(hi-lo) || v < lo-3*(hi-lo) {
			out = append(out, i)
		}
	}
	return out
}

// rankRule is the scan of Pettitt alone.
func rankRule(s history.Series) []int {
	var xs, ones []float64
	for _, e := range s.Estimates {
		xs, ones = append(xs, *e.Value), append(ones, 1)
	}
	if !stats.ScanWithin(xs, 1000, rand.NewPCG(1, 2), 0.05) {
		return nil
	}
	return []int{stats.StepTest(xs, ones, stats.StepOption{Least: 1, Level: 1}).At}
}

// rulesTable compares rules in the same histories.
func rulesTable(s study.Study) {
	w := s.Table("A step of 3 % at run 40 of 60, reference noise, percent", "between runs\trule\tfalse alarm"+
		"\tat the right run\tonly there")
	for _, b := range []struct {
		name         string
		between, rho float64
		bad          float64
	}{{"nothing", 0, 0, 0}, {"0.5 %", 0.005, 0, 0}, {"1 %, correlation 0.5", 0.01, 0.5, 0},
		{"0.5 %, one bad run in 20", 0.005, 0, 0.05}} {
		for _, x := range rules {
			world := usualWorld(noise.Reference)
			world.Between, world.Rho, world.Bad, world.BadSize = b.between, b.rho, b.bad, 0.05
			with := replayed(s, countRule(x, world))
			world.Step = 0
			without := replayed(s, countRule(x, world))
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", b.name, x.name, percent(without.alarm, without.n),
				percent(with.exact, with.n), percent(with.within, with.n))
		}
		w.Flush()
	}
}

// countRule counts what a rule says of the runs of a world: within counts histories in which it
// found the right run and no other.
func countRule(x rule, w replay.World) func(*rand.Rand) total {
	return func(r *rand.Rand) total {
		res, err := history.Of(w.Make(r), history.Option{})
		if err != nil {
			panic(err)
		}
		found := x.find(res.Labs[0].Series[0])
		right := slices.Contains(found, w.At)
		return total{n: 1, alarm: oneIf(len(found) > 0), exact: oneIf(right), within: oneIf(right && len(found) == 1)}
	}
}
