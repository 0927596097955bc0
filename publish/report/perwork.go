package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"bakeoff/base/facts"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/lab/store"
)

// workCounter is a counter of the host that can be charged to the work of a trial.
type workCounter struct {
	name, key string // key is the name in the journal
	unit      string // "s", "B", or "" for events
	of        func(facts.Counters) *float64
}

// workCounters are the times of the CPUs by state, then the rates that count events or
// bytes.
var workCounters = func() (out []workCounter) {
	for _, s := range []struct {
		name string
		of   func(*facts.CPU) float64
	}{
		{"user time", func(c *facts.CPU) float64 { return c.User }},
		{"system time", func(c *facts.CPU) float64 { return c.System }},
		{"interrupt time", func(c *facts.CPU) float64 { return c.Interrupt }},
	} {
		out = append(out, workCounter{s.name, "cpu", "s", func(c facts.Counters) *float64 { return stateTime(c, s.of) }})
	}
	for _, r := range rates {
		if u, ok := map[string]string{"1/s": "", "B/s": "B"}[r.unit]; ok && r.key != "thermal_throttles" {
			out = append(out, workCounter{r.name, r.key, u, r.of})
		}
	}
	return out
}()

// stateTime is the time that the CPUs spent in one state. The states are counted in ticks,
// and the busy time may be more precise: a state is its share of that. c is a difference
// that Since returned.
func stateTime(c facts.Counters, of func(*facts.CPU) float64) *float64 {
	busy, _, ok := c.Busy()
	if !ok || c.CPU == nil || !(c.CPU.Busy() > 0) {
		return nil
	}
	return new(busy * of(c.CPU) / c.CPU.Busy())
}

// workAbout says what the table is.
const workAbout = "What the host counted during each trial, divided by the work of the trial. CPU times are those of " +
	"the environment’s CPUs. The other counters cover the whole host, with the load generator if it runs there. " +
	"Differences are estimated within blocks, with 95 % intervals, and get no verdict."

// notCounted are counters that a reader may look for, and that no run has.
const notCounted = "bakeoff does not count instructions, cycles or system calls."

// Bounds on the comparisons that a page computes itself, and on the trials of each cell.
const (
	maxWorkComparisons = 3000
	maxWorkTrials      = 20_000
)

// worked is what the hosts counted for each unit of work at one cell.
type worked struct {
	cell    analysis.Cell
	cost    sample.Metric // the CPU time by which the counters are charged
	of      string        // unit of work: "request"
	trials  []analysis.Observation
	lacking map[string]string // counters without a value: name → reason
}

// costMetric is the CPU time of a unit of work at a cell; false if it has none.
func costMetric(k analysis.Cell) (m sample.Metric, of string, ok bool) {
	for _, m := range k.Metrics {
		if of, ok := strings.CutPrefix(m.Unit, "s/"); ok && strings.HasPrefix(m.Name, "cpu-per-") {
			return m, of, true
		}
	}
	return sample.Metric{}, "", false
}

// perWork makes the table of the counters at a cell: for each unit of work the median of
// every contender, and its difference from the baseline within blocks. The second result
// is why there is none; it is "" if the cell has no cost in CPU time.
func (b *builder) perWork(k analysis.Cell) (table, string) {
	cost, of, ok := costMetric(k)
	if !ok {
		return table{}, ""
	}
	w := worked{cell: k, cost: cost, of: of, lacking: map[string]string{}}
	b.chargeWork(&w)
	known := slices.ContainsFunc(w.trials, func(o analysis.Observation) bool { return len(o.Values) > 0 })
	switch {
	case len(w.trials) == 0:
		return table{}, "the journal has no counters of its trials"
	case !known:
		return table{}, b.noCost(k.Name, cost.Name)
	case len(w.trials) > maxWorkTrials || len(b.results.Contenders)*len(workCounters) > maxWorkComparisons:
		return table{}, fmt.Sprintf("%s of %s are too many for a page", unit.Count(len(w.trials), "trial"),
			unit.Count(len(b.results.Contenders), "contender"))
	}
	return b.workTable(&w), ""
}

// noCost is why no trial at a cell has a value of its cost.
func (b *builder) noCost(cell, metric string) string {
	for _, u := range b.results.Unavailable {
		if u.Cell == cell && u.Metric == metric {
			return metric + " has no value: " + u.Reason
		}
	}
	return metric + " has no value with counters"
}

// chargeWork divides the counters of each trial by its work. The work is the busy time of the
// CPUs divided by the trial's cost in CPU time, so that every counter is charged as the
// CPU time is: to the requests with those of the warm-up, or to a timed part by its share.
func (b *builder) chargeWork(w *worked) {
	costs := map[string]map[[2]int]float64{}
	for _, c := range b.results.Contenders {
		if s := b.summaries[[3]string{c.Name, w.cell.Name, w.cost.Name}]; s != nil {
			costs[c.Name] = make(map[[2]int]float64, len(s.Samples))
			for _, p := range s.Samples {
				costs[c.Name][[2]int{p.Block, p.Position}] = p.Value
			}
		}
	}
	void := voidBlocks(b.lines)
	for _, l := range b.lines {
		if l.Trial == nil || l.Cell != w.cell.Name || l.Status != store.OK || void[l.Block] || l.Before == nil ||
			l.After == nil || l.After.AtNS <= l.Before.AtNS {
			continue
		}
		o := analysis.Observation{Block: l.Block, Position: l.Position, Instance: l.Instance, Contender: l.Contender,
			Cell: l.Cell}
		cost := costs[l.Contender][[2]int{l.Block, l.Position}]
		o.Values = w.valuesPerWork(l.After.Since(*l.Before), cost)
		w.trials = append(w.trials, o)
	}
}

// valuesPerWork are the counters of a trial for each unit of work; spent is a difference that
// Since returned. There are none without a cost.
func (w *worked) valuesPerWork(spent facts.Counters, cost float64) (out []sample.Value) {
	busy, _, ok := spent.Busy()
	units := busy / cost
	if !ok || !(units > 0) || math.IsInf(units, 0) {
		return nil
	}
	for _, c := range workCounters {
		v := c.of(spent)
		// A foreign journal may hold any number.
		if v == nil || !(*v >= 0 && *v < 1e18) {
			w.lacking[c.name] = cmp.Or(w.lacking[c.name], spent.Unavailable[c.key])
			continue
		}
		out = append(out, sample.Value{Metric: c.name, Unit: c.unit, Value: *v / units})
	}
	return out
}

// metrics are the counters that some trial has, and the names of those that are zero in all
// of them. Ratios are compared unless a trial has zero.
func (w *worked) metrics() (out []sample.Metric, zero []string) {
	for _, c := range workCounters {
		m := sample.Metric{Name: c.name, Unit: c.unit, Better: sample.Lower, Scale: sample.Ratio}
		some, nothing := false, true
		for _, o := range w.trials {
			for _, v := range o.Values {
				if v.Metric != c.name {
					continue
				}
				if some = true; v.Value == 0 {
					m.Scale = sample.Difference
				} else {
					nothing = false
				}
			}
		}
		switch {
		case !some:
		case nothing:
			zero = append(zero, c.name)
		default:
			out = append(out, m)
		}
	}
	return out, zero
}

// workTable compares what was charged, as the analysis compares metrics without a verdict.
func (b *builder) workTable(w *worked) table {
	metrics, zero := w.metrics()
	r := analysis.Analyse(analysis.Data{Baseline: b.results.Baseline, Contenders: b.results.Contenders,
		Cells: []analysis.Cell{{Name: w.cell.Name, Metrics: metrics}}, Observations: w.trials})
	compared := map[[2]string]analysis.Comparison{}
	for _, c := range r.Comparisons {
		compared[[2]string{c.Contender, c.Metric}] = c
	}
	medians := lists.Index(r.Summaries, func(s analysis.Summary) [2]string { return [2]string{s.Contender, s.Metric} })
	t := table{Caption: "Counters per " + w.of + " at " + w.cell.Name, Whole: true,
		Head: []string{"counter", "contender", "median per " + w.of, "trials", "against " + b.results.Baseline, "interval"}}
	for _, m := range metrics {
		for _, name := range b.rankedNames() {
			s, ok := medians[[2]string{name, m.Name}]
			if !ok {
				continue
			}
			row := []string{m.Name, name, perUnit(s.Median, m.Unit), fmt.Sprint(s.N), "–", "–"}
			if c, ok := compared[[2]string{name, m.Name}]; ok {
				row[4], row[5] = comparedText(c)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	t.Note = w.omissionNote(zero)
	return t
}

// omissionNote says which counters are not in the table, and why.
func (w *worked) omissionNote(zero []string) string {
	var parts []string
	if len(zero) > 0 {
		parts = append(parts, "Zero in all trials: "+strings.Join(zero, ", ")+".")
	}
	var lacking []string
	for _, c := range workCounters {
		counted := slices.ContainsFunc(w.trials, func(o analysis.Observation) bool {
			return slices.ContainsFunc(o.Values, func(v sample.Value) bool { return v.Metric == c.name })
		})
		if counted {
			continue
		}
		name := c.name
		if why := w.lacking[c.name]; why != "" {
			name += " (" + safetext.Clip(why, 200) + ")"
		}
		lacking = append(lacking, name)
	}
	if len(lacking) > 0 {
		parts = append(parts, "Unavailable, because the host does not report them: "+strings.Join(lacking, ", ")+".")
	}
	return strings.Join(append(parts, notCounted), " ")
}

// perUnit formats a counter for each unit of work.
func perUnit(v *float64, u string) string {
	if v != nil && *v == 0 {
		return "0"
	}
	return amountText(v, u)
}
