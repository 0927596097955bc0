// Command history prints how often `bakeoff history` finds a step that is there, and how
// often one that is not, in many kinds of noise, side by side with other rules. Every
// number comes from seeded replays and is the same on every machine.
//
//	go run ./bench/history -replays 1000
package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"

	"bakeoff/bench/study"
	"bakeoff/judge/history"
	"bakeoff/judge/history/replay"
	"bakeoff/judge/noise"
)

// The history of the tables: a step of 3 % at the run with the number 40 of 60.
const (
	runs = 60
	at   = 39 // from 0
	size = 0.03
)

var percent = study.Percent

func main() {
	study.Main("history", 1000, study.Table{Name: "rules", Print: rulesTable},
		study.Table{Name: "noise", Print: noiseTable}, study.Table{Name: "between", Print: betweenTable},
		study.Table{Name: "lengths", Print: lengthsTable},
		study.Table{Name: "nightly", Print: nightlyTable}, study.Table{Name: "detectors", Print: detectorsTable})
}

// total counts outcomes.
type total struct{ n, alarm, near, exact, within, covered, width int }

func (t *total) addTotal(o total) {
	t.n, t.alarm, t.near, t.exact = t.n+o.n, t.alarm+o.alarm, t.near+o.near, t.exact+o.exact
	t.within, t.covered, t.width = t.within+o.within, t.covered+o.covered, t.width+o.width
}

// replayed counts the outcomes of many replays.
func replayed(s study.Study, one func(*rand.Rand) total) total {
	return study.Sum(s, one, (*total).addTotal)
}

// countJudged counts what history says of the runs of a world.
func countJudged(w replay.World) func(*rand.Rand) total {
	return func(r *rand.Rand) total {
		res, err := history.Of(w.Make(r), history.Option{})
		if err != nil {
			panic(err)
		}
		out := total{n: 1}
		for _, s := range res.Labs[0].Series {
			out.alarm = max(out.alarm, min(len(s.Steps), 1))
			for _, step := range s.Steps {
				if w.Step == 0 || s.Cell != "cell-1" {
					continue
				}
				if step.At >= w.At-2 && step.At <= w.At+2 {
					out.near = 1
					out.width += step.Range[1] - step.Range[0] + 1
					out.within += oneIf(step.Range[0] <= w.At && w.At <= step.Range[1])
					truth := math.Exp(w.Step)
					out.covered += oneIf(step.CI[0] != nil && *step.CI[0] <= truth && truth <= *step.CI[1])
				}
				out.exact = max(out.exact, oneIf(step.At == w.At))
			}
		}
		return out
	}
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// printBoth prints the outcomes without and with a step.
func printBoth(s study.Study, w io.Writer, name string, world replay.World) {
	none := world
	none.Step = 0
	without := replayed(s, countJudged(none))
	with := replayed(s, countJudged(world))
	width := math.NaN()
	if with.near > 0 {
		width = float64(with.width) / float64(with.near)
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%.1f\t%s\n", name, percent(without.alarm, without.n),
		percent(with.near, with.n), percent(with.exact, with.n), percent(with.within, with.near), width,
		percent(with.covered, with.near))
}

const columns = "\tfalse alarm\tfound ±2 runs\tat the right run\tright run in the range\truns in the range" +
	"\tsize in its interval"

// usualWorld is the usual history: reference noise in 8 blocks, and 0.5 % between runs.
func usualWorld(f noise.Family) replay.World {
	return replay.World{Noise: f, Runs: runs, Between: 0.005, Step: math.Log1p(size), At: at}
}

// noiseTable prints the kinds of noise inside runs.
func noiseTable(s study.Study) {
	w := s.Table("A step of 3 % at run 40 of 60, by the noise inside runs; 0.5 % between runs; percent", "noise"+columns)
	for _, f := range noise.Families {
		printBoth(s, w, f.Name, usualWorld(f))
		w.Flush()
	}
}

// betweenTable prints the kinds of differences between runs.
func betweenTable(s study.Study) {
	w := s.Table("The same, by what differs between runs", "between runs"+columns)
	for _, x := range []struct {
		name   string
		change func(*replay.World)
	}{
		{"nothing", func(w *replay.World) { w.Between = 0 }},
		{"0.5 %", func(*replay.World) {}},
		{"1 %", func(w *replay.World) { w.Between = 0.01 }},
		{"1 %, correlation 0.3", func(w *replay.World) { w.Between, w.Rho = 0.01, 0.3 }},
		{"1 %, correlation 0.5", func(w *replay.World) { w.Between, w.Rho = 0.01, 0.5 }},
		{"1 %, correlation 0.7", func(w *replay.World) { w.Between, w.Rho = 0.01, 0.7 }},
		{"0.5 %, one bad run in 20, 5 % off", func(w *replay.World) { w.Bad, w.BadSize = 0.05, 0.05 }},
		{"0.5 %, 6 blocks, from run 31 on 26", func(w *replay.World) { w.Blocks = blocksOf(6, 26) }},
		{"0.5 %, 26 blocks, from run 51 on 6", func(w *replay.World) {
			w.Blocks = func(i int) int { return blocksOf(26, 6)(i - 20) }
		}},
		{"0.5 %, 20 primary cells", func(w *replay.World) { w.Cells = 20 }},
	} {
		world := usualWorld(noise.Reference)
		x.change(&world)
		printBoth(s, w, x.name, world)
		w.Flush()
	}
}

func blocksOf(first, then int) func(int) int {
	return func(run int) int {
		if run < runs/2 {
			return first
		}
		return then
	}
}

// lengthsTable prints short and long histories, with a step after two thirds of them.
func lengthsTable(s study.Study) {
	w := s.Table("The same after two thirds of the runs, by their number", "runs"+columns)
	for _, n := range []int{6, 8, 12, 20, 40, 60, 120, 240} {
		world := usualWorld(noise.Reference)
		world.Runs, world.At = n, n*2/3
		printBoth(s, w, fmt.Sprint(n), world)
		w.Flush()
	}
}

// nightlyTable prints what happens if the history is read after each run.
func nightlyTable(s study.Study) {
	w := s.Table("Read after each of 60 runs: any alarm, and the runs after a step until it is found; percent",
		"alpha\tany false alarm\tfound after 3 runs\t5 runs\t10 runs\t20 runs")
	for _, alpha := range []float64{0.05, 0.01, 0.001} {
		none := usualWorld(noise.Reference)
		none.Step = 0
		any := replayed(s, func(r *rand.Rand) total { return total{n: 1, alarm: oneIf(firstAlarm(none, r, alpha, 0) > 0)} })
		fmt.Fprintf(w, "%g\t%s", alpha, percent(any.alarm, any.n))
		for _, within := range []int{3, 5, 10, 20} {
			found := replayed(s, func(r *rand.Rand) total {
				world := usualWorld(noise.Reference)
				world.Runs = at + within
				return total{n: 1, alarm: oneIf(firstAlarm(world, r, alpha, world.Runs) > 0)}
			})
			fmt.Fprintf(w, "\t%s", percent(found.alarm, found.n))
		}
		fmt.Fprintln(w)
		w.Flush()
	}
}

// firstAlarm returns the number of runs after which history first finds a step; from is
// the smallest number of runs that it reads, 0 for the smallest possible. It is 0 if none
// is found.
func firstAlarm(w replay.World, r *rand.Rand, alpha float64, from int) int {
	all := w.Make(r)
	for n := max(from, 6); n <= len(all); n++ {
		res, err := history.Of(all[:n], history.Option{Alpha: alpha})
		if err != nil {
			panic(err)
		}
		if len(res.Labs[0].Series[0].Steps) > 0 {
			return n
		}
	}
	return 0
}
