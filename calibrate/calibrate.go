// Package calibrate turns measurements of identical contenders, and of ones
// with work added on purpose, into what a machine can tell: how often it would
// raise a false alarm, how much its trials scatter, and the smallest
// difference that it finds in a given time. It is pure but for Load and Save.
//
// # What is counted
//
// The copies of one contender are paired, each copy in one pair only, and the
// blocks are cut into windows of Window blocks that do not overlap. Each pair
// in each window is one trial of the false alarm: does the exact signed-rank
// test call the two different at five per cent? Pairs in one window share the
// moments in which they ran but not their trials; windows share nothing. No
// trial is used twice, so that the interval (Clopper and Pearson) is that of a
// plain count. With so few blocks the test's own level is Nominal, below five
// per cent: a rate is to be held against that. Counts add up over the
// calibrations of one machine.
//
// # The noise
//
// Noise is the deviation of the logarithm of one trial, on top of what its
// block has in common, as plan.Noise means it: the one for which normal trials
// would give the pairs the signed-rank intervals that they have. So outliers
// count for as much as they hurt the test. It holds for the calibration's work, which
// computes and touches no device; other work may scatter more.
package calibrate

import (
	"math"
	"slices"
	"time"

	"bakeoff/analysis"
	"bakeoff/fault"
	"bakeoff/stats"
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

// Measured is what one run gave.
type Measured struct {
	Run    string    `json:"run"`
	At     time.Time `json:"at"` // host's clock, UTC
	Blocks int       `json:"blocks"`
	Pairs  int       `json:"pairs"`
	Visits int       `json:"visits"` // trials of a contender in a block
	Alarms int       `json:"alarms"`
	Of     int       `json:"of"` // windows of pairs
	Noise  float64   `json:"noise"`
	// Direct is the run's typical value of the base, as a logarithm, and
	// Relative that of a copy over the base: what differs between runs.
	Direct   float64 `json:"direct"`
	Relative float64 `json:"relative"`
	// PerTrial is the time that one trial took with all that belongs to it.
	PerTrial time.Duration `json:"per_trial_ns"`
	Injected []Injected    `json:"injected"`
}

// Injected is a slow-down that was made on purpose.
type Injected struct {
	Contender string            `json:"contender"`
	Extra     float64           `json:"extra"`  // work added: 0.05 is 5 %
	True      float64           `json:"true"`   // contender / base that this must give in throughput
	Ratio     *float64          `json:"ratio"`  // measured
	CI        analysis.Interval `json:"ci"`     // 95 %
	Found     bool              `json:"found"`  // the interval lies below 1
	Covers    bool              `json:"covers"` // it holds True
}

// Design says what in a run is what.
type Design struct {
	Base         string
	Copies       []string           // the same as Base, made apart
	Extra        map[string]float64 // contender → share of work added
	Cell, Metric string             // of a throughput
	Took         time.Duration      // of all blocks
	At           time.Time
}

// Measure reads a run. Too few blocks or contenders for any answer are an
// error of kind fault.Invalid.
func Measure(r analysis.Results, d Design) (Measured, error) {
	m := Measured{Run: r.Run, At: d.At, Injected: []Injected{}}
	sides := map[string]map[int]float64{}
	trials := 0
	for _, s := range r.Summaries {
		if s.Cell == d.Cell && s.Metric == d.Metric {
			var full int
			sides[s.Contender], full = byBlock(s)
			m.Visits = max(m.Visits, full)
			trials += len(s.Samples)
		}
	}
	base := sides[d.Base]
	m.Blocks = len(base)
	if m.Blocks < Window || len(d.Copies) == 0 || trials == 0 {
		return m, fault.New(fault.Invalid, "a calibration needs a copy of %s and %d blocks, there are %d copies and %d blocks", d.Base, Window, len(d.Copies), m.Blocks)
	}
	m.PerTrial = d.Took / time.Duration(trials)
	var noise float64
	for _, pair := range pairs(append([]string{d.Base}, d.Copies...)) {
		x := minus(sides[pair[0]], sides[pair[1]])
		if len(x) < Window {
			continue
		}
		m.Pairs++
		for at := 0; at+Window <= len(x); at += Window {
			m.Of++
			if stats.SignedRankTest(x[at:at+Window]).P <= alarm {
				m.Alarms++
			}
		}
		noise += scatter(x)
	}
	if m.Pairs == 0 {
		return m, fault.New(fault.Invalid, "no two copies share %d blocks in which both have values", Window)
	}
	// A difference of two means of v trials has √(2/v) of one's deviation.
	m.Noise = noise / float64(m.Pairs) * math.Sqrt(float64(m.Visits)/2)
	m.Direct = stats.HodgesLehmann(values(base), 0.95).Value
	m.Relative = stats.HodgesLehmann(minus(sides[d.Copies[0]], base), 0.95).Value
	for name, extra := range d.Extra {
		m.Injected = append(m.Injected, injected(name, extra, minus(sides[name], base)))
	}
	slices.SortFunc(m.Injected, func(a, b Injected) int {
		if a.Extra < b.Extra {
			return -1
		}
		return 1
	})
	return m, nil
}

// injected holds a slow-down against the base.
func injected(name string, extra float64, x []float64) Injected {
	in := Injected{Contender: name, Extra: extra, True: 1 / (1 + extra)}
	if len(x) == 0 {
		return in
	}
	e := stats.HodgesLehmann(x, 0.95)
	ratio := math.Exp(e.Value)
	in.Ratio = &ratio
	lo, hi := math.Exp(e.Lo), math.Exp(e.Hi)
	if e.Lo > math.Inf(-1) {
		in.CI[0] = &lo
	}
	if e.Hi < math.Inf(1) {
		in.CI[1] = &hi
	}
	in.Found = hi < 1
	in.Covers = lo <= in.True && in.True <= hi
	return in
}

// scatter is the standard deviation of normal values whose signed-rank
// interval is as wide as that of xs, at least Window of them: with n values it
// is √(π/3) times that of the t test (Hodges and Lehmann 1956).
func scatter(xs []float64) float64 {
	e := stats.HodgesLehmann(xs, 0.95)
	n := float64(len(xs))
	return (e.Hi - e.Lo) / 2 / stats.StudentQuantile(e.Actual, n-1) * math.Sqrt(n*3/math.Pi)
}

// pairs puts every name in one pair at most.
func pairs(names []string) (out [][2]string) {
	for i := 0; i+1 < len(names); i += 2 {
		out = append(out, [2]string{names[i], names[i+1]})
	}
	return out
}

// byBlock returns the mean logarithm of each block that has all its trials,
// and how many those are.
func byBlock(s analysis.Summary) (map[int]float64, int) {
	sum, n, full := map[int]float64{}, map[int]int{}, 0
	for _, p := range s.Samples {
		if p.Value > 0 && !math.IsInf(p.Value, 0) {
			sum[p.Block] += math.Log(p.Value)
			n[p.Block]++
			full = max(full, n[p.Block])
		}
	}
	for b := range sum {
		if n[b] < full {
			delete(sum, b)
			continue
		}
		sum[b] /= float64(full)
	}
	return sum, full
}

// minus returns the differences of the blocks that both have, in order.
func minus(a, b map[int]float64) []float64 {
	both := map[int]float64{}
	for k, v := range a {
		if w, ok := b[k]; ok {
			both[k] = v - w
		}
	}
	return values(both)
}

func values(m map[int]float64) []float64 {
	blocks := make([]int, 0, len(m))
	for k := range m {
		blocks = append(blocks, k)
	}
	slices.Sort(blocks)
	out := make([]float64, len(blocks))
	for i, k := range blocks {
		out[i] = m[k]
	}
	return out
}
