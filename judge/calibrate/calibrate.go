// Package calibrate finds out how well a machine measures: its rate of false
// alarms, the noise of its trials, and the smallest difference that it finds in
// a given time. It uses measurements of identical contenders, and of contenders
// with added work. It is pure except for Load and Save.
//
// # What is counted
//
// The copies of one contender are paired, each copy in one pair only, and the
// blocks are cut into windows of Window blocks that do not overlap. Each pair
// in each window is one test for a false alarm: does the exact signed-rank
// test call the two different at five per cent? It tests the scores of the
// blocks (stats.Contrast), as for every verdict, computed from the window
// alone. Pairs in one window ran at the same time, but share no trials, and
// their orders were drawn independently. Windows share nothing. No trial is
// used twice, so the interval (Clopper and Pearson) is that of a simple count.
// With so few blocks the level of the test is Nominal, below five per cent:
// compare a rate with Nominal. Counts add up over the calibrations of one
// machine.
//
// Injected slowdowns are read from the comparisons of the run, with the same
// estimate, interval, level and looks as any verdict.
//
// # The noise
//
// Noise is the standard deviation of the logarithm of one trial, in addition to
// what its block has in common, as in plan.Noise. Normal trials with this
// deviation would give the pairs the same intervals as their scores have. So
// outliers count by their effect on the verdict, which is smaller than their
// scatter. The noise holds for the work of the calibration, which computes for
// a moment and uses no device; other work may scatter more.
package calibrate

import (
	"cmp"
	"math"
	"slices"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/judge/stats"
)

// Schema is the schema of a Calibration.
const Schema = "bakeoff/calibration/v1"

// Window is the number of blocks in which one false alarm can be raised: the
// fewest in which the exact test can reject at five per cent.
const Window = 6

// alarm is the level of a false alarm.
const alarm = 0.05

// Nominal is the probability with which the test of Window blocks rejects two
// sides that are the same: only both extremes of its 2^Window outcomes do.
const Nominal = 2.0 / (1 << Window)

// Measured is the result of one calibration run.
type Measured struct {
	Run    string    `json:"run"`
	At     time.Time `json:"at"` // host's clock, UTC
	Blocks int       `json:"blocks"`
	Pairs  int       `json:"pairs"`
	Visits int       `json:"visits"` // trials of a contender in a block
	Alarms int       `json:"alarms"`
	Of     int       `json:"of"` // windows of pairs
	Noise  float64   `json:"noise"`
	// CPUNoise is Noise of the rate by the contender's own CPU time; 0 where
	// it was not measured.
	CPUNoise float64 `json:"cpu_noise,omitempty"`
	// Direct is the run's typical value of the base, as a logarithm, and
	// Relative that of a copy over the base: what differs between runs.
	Direct   float64 `json:"direct"`
	Relative float64 `json:"relative"`
	// Length is the timed part of a trial, PerTrial the time that one took
	// with all that belongs to it, environments included.
	Length   time.Duration `json:"length_ns"`
	PerTrial time.Duration `json:"per_trial_ns"`
	Injected []Injected    `json:"injected"`
}

// Injected is a deliberate slowdown.
type Injected struct {
	Contender string            `json:"contender"`
	CPU       bool              `json:"cpu,omitempty"` // by the contender's own CPU time, not by the clock
	Extra     float64           `json:"extra"`         // work added: 0.05 is 5 %
	True      float64           `json:"true"`          // contender / base that this must give in throughput
	Blocks    int               `json:"blocks"`
	Ratio     *float64          `json:"ratio"`  // measured
	CI        analysis.Interval `json:"ci"`     // at Level
	Level     float64           `json:"level"`  // coverage of CI
	Found     bool              `json:"found"`  // the interval lies below 1
	Covers    bool              `json:"covers"` // it holds True
	// Gates are the checks that the comparison failed, by name: the interval
	// is what it is, but a lab file's verdict would have been inconclusive.
	Gates []string `json:"gates,omitempty"`
}

// Design names the contenders, the cell and the metrics of a calibration run.
type Design struct {
	Base         string
	Copies       []string           // the same as Base, made apart
	Extra        map[string]float64 // contender → share of work added
	Cell, Metric string             // of a throughput by the clock
	CPUMetric    string             // of one by the contender's own CPU time; "": none
	Length       time.Duration      // the timed part of a trial
	Took         time.Duration      // of all blocks
	At           time.Time
}

// Measure computes the calibration from a run. It returns an error of kind
// fault.Invalid if the run has too few blocks or contenders.
func Measure(r analysis.Results, d Design) (Measured, error) {
	m := Measured{Run: r.Run, At: d.At, Length: d.Length, Injected: []Injected{}}
	sides, trials := collect(r, d.Cell, d.Metric)
	base := sides[d.Base]
	m.Visits, m.Blocks = base.visits, len(base.blocks)
	if len(d.Copies) == 0 {
		return m, fault.New(fault.Invalid, "a calibration needs a contender that is a copy of the baseline %s", d.Base)
	}
	if m.Blocks < Window || trials == 0 {
		return m, fault.WithFix(fault.New(fault.Invalid, "a calibration needs at least %d blocks, and the run has %s", Window,
			unit.Count(m.Blocks, "block")), "allow the calibration more time, for example with --budget 10m")
	}
	m.PerTrial = d.Took / time.Duration(trials)
	for _, x := range identicalPairs(sides, d) {
		m.Pairs++
		for at := 0; at+Window <= len(x); at += Window {
			m.Of++
			if contrast(x[at:at+Window]).Test(Window, 0).P <= alarm {
				m.Alarms++
			}
		}
	}
	if m.Pairs == 0 {
		return m, fault.New(fault.Invalid, "a calibration needs two copies that both have values in the same %d "+
			"blocks", Window)
	}
	m.Noise = trialNoise(sides, d)
	m.Direct = base.typical()
	if x := against(sides[d.Copies[0]], base); len(x) > 0 {
		m.Relative = contrast(x).Quick(len(x), 0.95).Value
	}
	m.injectSlowdowns(r, d, d.Metric, sides)
	if d.CPUMetric != "" {
		sides, _ := collect(r, d.Cell, d.CPUMetric)
		m.CPUNoise = trialNoise(sides, d)
		m.injectSlowdowns(r, d, d.CPUMetric, sides)
	}
	slices.SortStableFunc(m.Injected, func(a, b Injected) int { return cmp.Compare(a.Extra, b.Extra) })
	return m, nil
}

// collect returns what each contender gave, and how many trials that were.
func collect(r analysis.Results, cell, metric string) (sides map[string]series, trials int) {
	sides = map[string]series{}
	for _, s := range r.Summaries {
		if s.Cell == cell && s.Metric == metric {
			sides[s.Contender] = newSeries(s)
			trials += len(s.Samples)
		}
	}
	return sides, trials
}

// identicalPairs are the pairs of identical contenders that share a window at least.
func identicalPairs(sides map[string]series, d Design) (out [][]block) {
	for _, pair := range pairNames(append([]string{d.Base}, d.Copies...)) {
		if x := against(sides[pair[0]], sides[pair[1]]); len(x) >= Window {
			out = append(out, x)
		}
	}
	return out
}

// trialNoise is the deviation of one trial; 0 without any pair. A difference of
// two means of v trials has √(2/v) of it.
func trialNoise(sides map[string]series, d Design) float64 {
	all := identicalPairs(sides, d)
	sum := lists.Sum(all, func(x []block) float64 { return scatter(x) })
	if len(all) == 0 {
		return 0
	}
	return sum / float64(len(all)) * math.Sqrt(float64(sides[d.Base].visits)/2)
}

// injectSlowdowns reads every slow-down by one metric.
func (m *Measured) injectSlowdowns(r analysis.Results, d Design, metric string, sides map[string]series) {
	for name, extra := range d.Extra {
		in := Injected{Contender: name, CPU: metric == d.CPUMetric, Extra: extra, True: 1 / (1 + extra)}
		in.readComparison(r, d.Cell, metric, against(sides[name], sides[d.Base]))
		m.Injected = append(m.Injected, in)
	}
}

// readComparison takes the comparison with the base out of the results. Before the
// first look there is none: then it is the interval of the blocks x, at 95 %.
func (in *Injected) readComparison(r analysis.Results, cell, metric string, x []block) {
	lo, hi := math.Inf(-1), math.Inf(1)
	for _, c := range r.Comparisons {
		if c.Contender != in.Contender || c.Cell != cell || c.Metric != metric {
			continue
		}
		for _, g := range c.Gates {
			in.Gates = append(in.Gates, g.Name)
		}
		if c.Look == 0 || c.Alpha == nil {
			continue
		}
		in.Blocks, in.Ratio, in.CI, in.Level = c.Blocks, c.Ratio, c.CI, 1-*c.Alpha
		if c.CI[0] != nil {
			lo = *c.CI[0]
		}
		if c.CI[1] != nil {
			hi = *c.CI[1]
		}
	}
	if in.Blocks == 0 && len(x) > 0 {
		e := contrast(x).Estimate(len(x), 0.95, 0)
		lo, hi = math.Exp(e.Lo), math.Exp(e.Hi)
		ratio := math.Exp(e.Value)
		in.Blocks, in.Ratio, in.Level = len(x), &ratio, 0.95
		if e.Lo > math.Inf(-1) {
			in.CI[0] = &lo
		}
		if e.Hi < math.Inf(1) {
			in.CI[1] = &hi
		}
	}
	in.Found = hi < 1
	in.Covers = in.Blocks > 0 && lo <= in.True && in.True <= hi
}

// scatter is the standard deviation of normal values of which the signed-rank
// interval is as wide as that of the scores of blocks, at least Window of
// them: with n values it is √(π/3) times that of the t test (Hodges and
// Lehmann 1956).
func scatter(x []block) float64 {
	n := len(x)
	e := contrast(x).Quick(n, 0.95)
	return (e.Hi - e.Lo) / 2 / stats.StudentQuantile(e.Actual, float64(n-1)) * math.Sqrt(float64(n)*3/math.Pi)
}

// pairNames puts every name in one pair at most.
func pairNames(names []string) (out [][2]string) {
	for i := 0; i+1 < len(names); i += 2 {
		out = append(out, [2]string{names[i], names[i+1]})
	}
	return out
}
