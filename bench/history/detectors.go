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
	"regexp"
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
	"print only the detectors whose name matches this regular `expression`, in the table detectors")

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
	for _, run := range p.runs {
		p.values = append(p.values, run.Known[0].Center)
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
	levels, limits := geometric(0.1, 1e-4, 0.95), geometric(2, 1e4, 1.03)
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
	only, err := regexp.Compile(*onlyDetector)
	if err != nil {
		fmt.Fprintln(os.Stderr, "history: -detector:", err)
		os.Exit(2)
	}
	return lists.Filter(out, func(d detector) bool { return only.MatchString(d.name) })
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

// ownPrefix begins the names of bakeoff's detectors.
const ownPrefix = "bakeoff"

// bench is a kind of histories with a step after the first at runs.
type bench struct {
	name  string
	at    int
	paths []path
}

// outcome is what a detector with falseAlarms found in histories of each kind.
type outcome struct {
	detector string
	delays   [][]int // by kind
}

// detectorsTable compares detectors that read a history after every run.
func detectorsTable(s study.Study) {
	chosen := detectors()
	for _, x := range []struct {
		name   string
		change func(*replay.World)
	}{
		{"0.5 % between runs", func(*replay.World) {}},
		{"0.5 % between runs, and one bad run in 20, 5 % off", func(w *replay.World) { w.Bad, w.BadSize = 0.05, 0.05 }},
	} {
		none, late, early := usualWorld(noise.Reference), usualWorld(noise.Reference), usualWorld(noise.Reference)
		none.Step = 0
		early.Runs, early.At, early.Step = 10, 6, math.Log(1.3)
		for _, w := range []*replay.World{&none, &late, &early} {
			x.change(w)
		}
		without := drawPaths(s, none)
		steps := []bench{{"3 % at run 40 of 60", late.At, drawPaths(s, late)},
			{"30 % at run 7 of 10", early.At, drawPaths(s, early)}}
		w := s.Table("Read after every run, "+x.name+", with equal false alarms: thresholds at which 5 % of histories of 60 "+
			"runs without a step alarm at any time, and for bakeoff also 1.5 %",
			"detector\tthreshold\tfalse alarm, %\tstep\tfound in the history, %"+
				"\tmedian runs until found\tafter 1 run, %\t2 runs\t3\t5\t10\talarm before the step, %")
		var outcomes []outcome
		for _, d := range chosen {
			rates := []float64{falseAlarms}
			if strings.HasPrefix(d.name, ownPrefix) {
				rates = append(rates, fewFalseAlarms)
			}
			most := d.mostReached(without)
			for _, rate := range rates {
				threshold, share := d.calibrated(most, rate)
				if math.IsNaN(threshold) {
					fmt.Fprintf(w, "%s\tnone has so few false alarms: use more replays\n", d.name)
					continue
				}
				o := outcome{detector: d.name}
				for _, step := range steps {
					delays := d.delays(step.paths, threshold, step.at)
					o.delays = append(o.delays, delays)
					fmt.Fprintf(w, "%s\t%.3g\t%.1f\t%s\t%s\n", d.name, threshold, 100*share, step.name, delayText(delays))
				}
				if rate == falseAlarms {
					outcomes = append(outcomes, o)
				}
				w.Flush()
			}
		}
		printPairs(s, steps, outcomes)
	}
}

// printPairs compares bakeoff with the other detectors in the same histories, all with
// falseAlarms. Both p-values are those of the exact sign test; that of the found steps is
// McNemar's.
func printPairs(s study.Study, steps []bench, outcomes []outcome) {
	w := s.Table("The same histories in pairs: in how many of them only one detector finds the step, and which is "+
		"earlier, at 5 % false alarms", "detector\tcompared with\tstep\tonly it finds\tonly the other\tp"+
		"\tit is earlier\tlater\tp")
	for _, a := range outcomes {
		for _, b := range outcomes {
			if !strings.HasPrefix(a.detector, ownPrefix) || strings.HasPrefix(b.detector, ownPrefix) {
				continue
			}
			for i, step := range steps {
				mine, others, earlier, later := comparePairs(a.delays[i], b.delays[i])
				fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%.2g\t%d\t%d\t%.2g\n", a.detector, b.detector, step.name, mine, others,
					stats.SignTest(mine, others), earlier, later, stats.SignTest(earlier, later))
			}
		}
	}
	w.Flush()
}

// comparePairs counts the histories that only the first detector finds, or only the second, and
// those in which the first is earlier, or later. A detector that finds a step is earlier than
// one that does not.
func comparePairs(first, second []int) (mine, others, earlier, later int) {
	for k, x := range first {
		y := second[k]
		mine, others = mine+oneIf(x < tooEarly && y >= tooEarly), others+oneIf(x >= tooEarly && y < tooEarly)
		earlier, later = earlier+oneIf(x < min(y, tooEarly)), later+oneIf(y < min(x, tooEarly))
	}
	return mine, others, earlier, later
}

func drawPaths(s study.Study, w replay.World) []path {
	out := make([]path, s.Replays)
	study.Each(len(out), func(i int) { out[i] = newPath(w, rand.New(rand.NewPCG(s.Seed, uint64(i+1)))) })
	return out
}

// Delays of histories in which a detector does not find the step.
const (
	tooEarly = math.MaxInt - 1 // it alarms before the step
	notFound = math.MaxInt
)

// delays returns for each history how many runs after the step a detector needs. A history in
// which it alarms before the step counts as not found.
func (d detector) delays(paths []path, threshold float64, at int) []int {
	return lists.Map(d.runDetector(paths, []float64{threshold}, firstReading), func(readings []int) int {
		first := slices.Index(readings, 1) + firstReading // runs at the first alarm
		switch {
		case first < firstReading:
			return notFound
		case first <= at:
			return tooEarly
		}
		return first - at
	})
}

// delayText summarizes delays.
func delayText(delays []int) string {
	within := func(most int) int { return lists.Count(delays, func(d int) bool { return d <= most }) }
	median := "never"
	if m := slices.Sorted(slices.Values(delays))[len(delays)/2]; m < tooEarly {
		median = fmt.Sprint(m)
	}
	text := study.Percent(within(tooEarly-1), len(delays)) + "\t" + median
	for _, most := range []int{1, 2, 3, 5, 10} {
		text += fmt.Sprintf("\t%.1f", 100*float64(within(most))/float64(len(delays)))
	}
	early := within(tooEarly) - within(tooEarly-1)
	return text + fmt.Sprintf("\t%.1f", 100*float64(early)/float64(len(delays)))
}
