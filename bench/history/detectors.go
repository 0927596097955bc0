package main

import (
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/bench/study"
	"bakeoff/judge/history"
	"bakeoff/judge/history/replay"
	"bakeoff/judge/noise"
	"bakeoff/judge/stats"
)

var otavaPython = flag.String("otava", "",
	"Python `program` that has apache-otava, for the table detectors; empty: without Apache Otava")

var onlyDetector = flag.String("detector", "",
	"print only the detectors whose name contains this `text`, in the table detectors")

//go:embed otava.py
var otavaScript string

// falseAlarms is the share of histories of 60 runs without a step in which each detector
// may alarm at any time, if it reads the history after every run. fewFalseAlarms is a second
// share for bakeoff: a false alarm before a step counts as a step that was not found.
const (
	falseAlarms    = 0.05
	fewFalseAlarms = 0.015
)

// firstReading is the number of runs of the first reading.
const firstReading = 4

// A detector says how many of its thresholds, from loose to strict, a history reaches by
// each reading: after the first `from` runs, and after each later one.
type detector struct {
	name       string
	thresholds []float64
	reached    func(p path, thresholds []float64, from int) []int
}

// path is a history: its runs, and the logarithms of their estimates.
type path struct {
	runs   []history.Run
	values []float64
}

func newPath(w replay.World, r *rand.Rand) path {
	p := path{runs: lists.Map(w.Make(r), history.Run.Condensed)}
	res, err := history.Of(p.runs, history.Option{})
	if err != nil {
		panic(err)
	}
	for _, e := range res.Labs[0].Series[0].Estimates {
		p.values = append(p.values, math.Log(*e.Value))
	}
	return p
}

// reading makes a detector of a rule that says whether the first n runs alarm.
func reading(alarm func(p path, n int, threshold float64) bool) func(path, []float64, int) []int {
	return func(p path, thresholds []float64, from int) (out []int) {
		reached := 0
		for n := from; n <= len(p.values); n++ {
			for reached < len(thresholds) && alarm(p, n, thresholds[reached]) {
				reached++
			}
			out = append(out, reached)
		}
		return out
	}
}

// geometric returns thresholds from first to last, each by a factor from the one before.
func geometric(first, last, factor float64) (out []float64) {
	for x := first; (x-last)*(factor-1) <= 0; x *= factor {
		out = append(out, x)
	}
	return out
}

func detectors() []detector {
	levels, limits := geometric(0.3, 1e-4, 0.9), geometric(2, 1e4, 1.03)
	out := []detector{
		{"bakeoff history", levels, reading(func(p path, n int, alpha float64) bool {
			res, err := history.Of(p.runs[:n], history.Option{Alpha: alpha})
			if err != nil {
				panic(err)
			}
			return len(res.Labs[0].Series[0].Steps) > 0
		})},
		{"bakeoff history with clear suspects", levels, reading(func(p path, n int, alpha float64) bool {
			res, err := history.Of(p.runs[:n], history.Option{Alpha: alpha})
			if err != nil {
				panic(err)
			}
			s := res.Labs[0].Series[0]
			return len(s.Steps) > 0 || s.Suspect != nil && s.Suspect.Clear
		})},
		{"ranks alone", levels, reading(ranksAlone)},
		{"CUSUM, k 0.5, mean and deviation of the first 6 runs", limits, reading(cusumRule(6))},
		{"CUSUM, k 0.5, mean and deviation of the first 20 runs", limits, reading(cusumRule(20))},
		{"CUSUM, k 0.5, self-starting", limits, reading(selfStarting)},
	}
	if *otavaPython != "" {
		out = append(out, detector{"Apache Otava", geometric(0.3, 1e-7, 0.8), nil})
	}
	return lists.Filter(out, func(d detector) bool { return strings.Contains(d.name, *onlyDetector) })
}

// ranksAlone is the rule of b220924a, without its correction for dependence.
func ranksAlone(p path, n int, alpha float64) bool {
	xs, ones := p.values[:n], slices.Repeat([]float64{1}, n)
	o := stats.StepOption{Least: 3, Level: alpha / 2, Seed: 1}
	return stats.StepTest(xs, ones, o).P <= alpha/2 || stats.BumpTest(xs, ones, o).P <= alpha/2
}

// cusumSlack is k: half of the step, in deviations, for which a CUSUM is fastest.
const cusumSlack = 0.5

// cusumRule is the CUSUM of Page (Biometrika 41 (1954) 100) on both sides.
func cusumRule(baseline int) func(path, int, float64) bool {
	return func(p path, n int, limit float64) bool {
		if n <= baseline {
			return false
		}
		level, deviation := meanOf(p.values[:baseline]), stats.Deviation(p.values[:baseline])
		var c sums
		for _, x := range p.values[baseline:n] {
			c.addScore((x - level) / deviation)
		}
		return c.largest >= limit
	}
}

// selfStarting is the CUSUM whose mean and deviation are those of all runs before (Hawkins,
// The Statistician 36 (1987) 299).
func selfStarting(p path, n int, limit float64) bool {
	var c sums
	for i := 2; i < n; i++ {
		before := p.values[:i]
		t := (p.values[i] - meanOf(before)) / stats.Deviation(before) * math.Sqrt(float64(i)/float64(i+1))
		z := stats.NormalTail(max(stats.StudentP(t, float64(i-1)), 1e-300) / 2)
		c.addScore(math.Copysign(z, t))
	}
	return c.largest >= limit
}

func meanOf(xs []float64) (sum float64) {
	return lists.Sum(xs, func(x float64) float64 { return x / float64(len(xs)) })
}

type sums struct{ up, down, largest float64 }

func (c *sums) addScore(z float64) {
	c.up, c.down = max(0, c.up+z-cusumSlack), max(0, c.down-z-cusumSlack)
	c.largest = max(c.largest, c.up, c.down)
}

// runDetector runs a detector on histories.
func (d detector) runDetector(paths []path, thresholds []float64, from int) [][]int {
	if d.reached == nil {
		return runOtava(paths, thresholds, from)
	}
	out := make([][]int, len(paths))
	study.Each(len(paths), func(i int) { out[i] = d.reached(paths[i], thresholds, from) })
	return out
}

// runOtava runs Apache Otava.
func runOtava(paths []path, thresholds []float64, from int) (out [][]int) {
	var jobs strings.Builder
	enc := json.NewEncoder(&jobs)
	for _, p := range paths {
		var values []float64
		for _, x := range p.values {
			values = append(values, math.Exp(x))
		}
		if err := enc.Encode(map[string]any{"levels": thresholds, "values": values, "from": from}); err != nil {
			panic(err)
		}
	}
	c := exec.Command(*otavaPython, "-c", otavaScript)
	c.Stdin, c.Stderr = strings.NewReader(jobs.String()), os.Stderr
	text, err := c.Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "history: Apache Otava:", err)
		os.Exit(1)
	}
	for dec := json.NewDecoder(strings.NewReader(string(text))); ; {
		var line []int
		if err := dec.Decode(&line); err == io.EOF {
			return out
		} else if err != nil {
			panic(err)
		}
		out = append(out, line)
	}
}

// mostReached returns how many of its thresholds the detector reaches in each history.
func (d detector) mostReached(none []path) []int {
	return lists.Map(d.runDetector(none, d.thresholds, firstReading), func(readings []int) int {
		return readings[len(readings)-1]
	})
}

// calibrated returns the loosest threshold at which at most a share of the histories alarm
// at any reading, and the share that does. most is that of mostReached.
func (d detector) calibrated(most []int, atMost float64) (threshold, share float64) {
	for i, threshold := range d.thresholds {
		alarms := lists.Sum(most, func(m int) int { return oneIf(m > i) })
		if share := float64(alarms) / float64(len(most)); share <= atMost {
			return threshold, share
		}
	}
	return math.NaN(), 1
}

// detectorsTable compares detectors that read a history after every run.
func detectorsTable(s study.Study) {
	w := s.Table("Read after every run, with equal false alarms: thresholds at which 5 % of histories of 60 runs without "+
		"a step alarm at any time, and for bakeoff also 1.5 %",
		"noise\tdetector\tthreshold\tfalse alarm, %\tstep\tfound in the history, %"+
			"\tmedian runs until found\tafter 2 runs, %\t3\t5\t10\talarm before the step, %")
	for _, x := range []struct {
		name   string
		change func(*replay.World)
	}{
		{"0.5 % between runs", func(*replay.World) {}},
		{"and one bad run in 20, 5 % off", func(w *replay.World) { w.Bad, w.BadSize = 0.05, 0.05 }},
	} {
		none, late, early := usualWorld(noise.Reference), usualWorld(noise.Reference), usualWorld(noise.Reference)
		none.Step = 0
		early.Runs, early.At, early.Step = 10, 6, math.Log(1.3)
		for _, w := range []*replay.World{&none, &late, &early} {
			x.change(w)
		}
		without := drawPaths(s, none)
		steps := []struct {
			name  string
			at    int
			paths []path
		}{{"3 % at run 40 of 60", late.At, drawPaths(s, late)}, {"30 % at run 7 of 10", early.At, drawPaths(s, early)}}
		for _, d := range detectors() {
			rates := []float64{falseAlarms}
			if strings.HasPrefix(d.name, "bakeoff") {
				rates = append(rates, fewFalseAlarms)
			}
			most := d.mostReached(without)
			for _, rate := range rates {
				threshold, share := d.calibrated(most, rate)
				for _, step := range steps {
					fmt.Fprintf(w, "%s\t%s\t%.3g\t%.1f\t%s\t%s\n", x.name, d.name, threshold, 100*share, step.name,
						d.delayText(step.paths, threshold, step.at))
				}
				w.Flush()
			}
		}
	}
}

func drawPaths(s study.Study, w replay.World) []path {
	out := make([]path, s.Replays)
	study.Each(len(out), func(i int) { out[i] = newPath(w, rand.New(rand.NewPCG(s.Seed, uint64(i+1)))) })
	return out
}

// delayText says how many runs after a step a detector needs. A history in which it alarms
// before the step counts as not found.
func (d detector) delayText(paths []path, threshold float64, at int) string {
	early := 0
	var delays []int
	for _, readings := range d.runDetector(paths, []float64{threshold}, firstReading) {
		first := slices.Index(readings, 1) + firstReading // runs at the first alarm
		switch {
		case first < firstReading:
		case first <= at:
			early++
		default:
			delays = append(delays, first-at)
		}
	}
	slices.Sort(delays)
	median := "never"
	if len(delays)*2 > len(paths) {
		median = fmt.Sprint(delays[len(paths)/2])
	}
	text := study.Percent(len(delays), len(paths)) + "\t" + median
	for _, most := range []int{2, 3, 5, 10} {
		n, _ := slices.BinarySearch(delays, most+1)
		text += fmt.Sprintf("\t%.1f", 100*float64(n)/float64(len(paths)))
	}
	return text + fmt.Sprintf("\t%.1f", 100*float64(early)/float64(len(paths)))
}
