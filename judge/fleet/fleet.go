// Package fleet judges one lab over several machines. It is pure.
//
// # Machines are replicates
//
// A verdict of a run holds for its machine. The blocks of all machines together do not
// say more: they agree within a machine, and their number grows without another machine.
// Where machines differ by 2 %, an interval of all blocks excludes a difference that does
// not exist in 29 of 100 cases (bench/fleet). So each machine gives one number for a
// comparison, the level of its runs (package history), and the machines are the sample.
// The estimate is their mean, and the interval is Student's, with one degree of freedom
// less than there are machines.
// Machines count equally, whatever the number of their blocks. The m primary comparisons
// share alpha evenly (Bonferroni).
//
// The interval describes the mean of machines like these. Another interval, that of
// prediction, says where one more such machine would lie.
//
// # Verdicts
//
// A verdict needs LeastMachines machines. It is withheld if the contender failed on a
// machine, because a failure has no number, and if more than one machine in MostLeftOut
// gives no number for another reason: those that remain may be a selection. The machines
// of runs that exist already were chosen by somebody who could know the results, which the
// result says. The machines of one bakeoff run on Slurm were not: their number is a label of
// each run (history.FleetLabel), and a machine without a run gives no number.
package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/judge/compare"
	"bakeoff/judge/history"
	"bakeoff/judge/stats"
)

// Schema is the schema of Result.
const Schema = "bakeoff/fleet/v1"

// Scope is the scope of the verdicts: machines like those of the result.
const Scope analysis.Scope = "fleet"

// LeastMachines is the number of machines that a verdict needs.
const LeastMachines = 5

// MostLeftOut is the number of machines of which one may give no number.
const MostLeftOut = 5

// mostRegistered bounds the number of machines that a label may claim.
const mostRegistered = 1 << 20

// Level is the level of intervals that have no verdict.
const Level = 0.95

// Result is the judgment of labs over machines. An unknown value is null, never 0.
type Result struct {
	Schema  string           `json:"schema"`
	Scope   analysis.Scope   `json:"scope"`
	Alpha   float64          `json:"alpha"`
	Labs    []Lab            `json:"labs"`
	Unread  []history.Unread `json:"unread"`
	Version string           `json:"version,omitempty"`
}

// Lab is one lab over machines.
type Lab struct {
	Lab      string    `json:"lab"`
	Baseline string    `json:"baseline"`
	Margin   float64   `json:"margin"`
	Judged   int       `json:"judged"` // comparisons that share Alpha
	Level    float64   `json:"level"`  // of the intervals of judged comparisons
	Machines []Machine `json:"machines"`
	// Registered is the number of machines that were registered before the first run; null:
	// the machines were chosen later.
	Registered *int `json:"registered_machines"`
	// Differ are facts in which the machines differ, besides their names.
	Differ      []string     `json:"differ"`
	Comparisons []Comparison `json:"comparisons"`
	Notes       []string     `json:"notes"`
}

// Machine is a machine with its runs.
type Machine struct {
	Name   string            `json:"name"` // unique in the lab
	Facts  map[string]string `json:"facts"`
	Runs   int               `json:"runs"`
	Newest history.Point     `json:"newest"`
}

// Comparison is one contender against the baseline over the machines.
type Comparison struct {
	Contender string        `json:"contender"`
	Cell      string        `json:"cell"`
	Workload  string        `json:"workload"`
	Metric    string        `json:"metric"`
	Unit      string        `json:"unit"`
	Better    sample.Better `json:"better"`
	Scale     sample.Scale  `json:"scale"`
	Primary   bool          `json:"primary"`
	Machines  []Value       `json:"machines"` // in the order of Lab.Machines
	Counted   int           `json:"counted"`  // machines with a number
	// Ratio is the mean contender / baseline over the machines, or the difference.
	Ratio *float64          `json:"ratio"`
	CI    analysis.Interval `json:"ci"`
	// Next is where one more such machine would lie, with a probability of 95 %.
	Next analysis.Interval `json:"next"`
	// Spread is the standard deviation between machines, of the logarithm on the scale
	// ratio. It includes the noise of each machine's own runs.
	Spread *float64 `json:"spread"`
	// Agree is the number of machines on the side of Ratio.
	Agree        int              `json:"agree"`
	Verdict      analysis.Verdict `json:"verdict,omitempty"` // of primary comparisons
	Reason       string           `json:"reason,omitempty"`  // why there is no verdict
	BeyondMargin *bool            `json:"beyond_margin,omitempty"`
	// More is how many more such machines would decide it in 80 % of cases, if Ratio is
	// the true value; null if no number would or if it is decided.
	More *int `json:"more_machines"`
	// Region is the margin on the scale of Ratio.
	Region *[2]float64 `json:"region"`
}

// Value is what one machine says.
type Value struct {
	Machine int               `json:"machine"` // index in Lab.Machines
	Ratio   *float64          `json:"ratio"`
	CI      analysis.Interval `json:"ci"` // 95 %, of this machine alone
	Runs    int               `json:"runs"`
	Failed  bool              `json:"failed,omitempty"` // the contender failed here
	Reason  string            `json:"reason,omitempty"` // why Ratio is null
}

// Option configures Of.
type Option struct {
	Alpha  float64 // error rate of the verdicts of a lab; 0: analysis.MaxAlpha
	Margin float64 // largest share that counts as equivalent; 0: the smallest of the runs
	Unread []history.Unread
}

// Of judges runs in any order: one Lab for each name of a lab, sorted. Errors are of kind
// fault.Invalid.
func Of(runs []history.Run, opt Option) (Result, error) {
	opt.Alpha = cmp.Or(opt.Alpha, analysis.MaxAlpha)
	past, err := history.Of(runs, history.Option{Alpha: opt.Alpha, Margin: opt.Margin, By: compare.Relative})
	if err != nil {
		return Result{}, err
	}
	return OfHistory(past, runs, opt)
}

// OfHistory is Of for runs whose history, relative to the baseline, is there already.
func OfHistory(past history.Result, runs []history.Run, opt Option) (Result, error) {
	opt.Alpha = cmp.Or(opt.Alpha, analysis.MaxAlpha)
	out := Result{Schema: Schema, Scope: Scope, Alpha: opt.Alpha, Labs: []Lab{},
		Unread: append([]history.Unread{}, opt.Unread...)}
	names := lists.Map(past.Labs, func(l history.Lab) string { return l.Lab })
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		machines := lists.Filter(past.Labs, func(l history.Lab) bool { return l.Lab == name })
		slices.SortStableFunc(machines, func(a, b history.Lab) int {
			return cmp.Compare(nameOf(a.Machine), nameOf(b.Machine))
		})
		l, err := judgeLab(machines, runs, opt)
		if err != nil {
			return Result{}, err
		}
		out.Labs = append(out.Labs, l)
	}
	return out, nil
}

// nameOf names a machine by its label or its host.
func nameOf(facts map[string]string) string {
	return cmp.Or(facts[history.MachineLabel], facts["host"], facts["cpu.model"], "unknown machine")
}

// judgeLab judges one lab, given its history on each machine.
func judgeLab(of []history.Lab, runs []history.Run, opt Option) (Lab, error) {
	out := Lab{Lab: of[0].Lab, Baseline: of[0].Baseline, Margin: of[0].Margin, Machines: []Machine{}, Differ: []string{},
		Comparisons: []Comparison{}, Notes: []string{}}
	newest := make([]history.Run, len(of))
	for i, l := range of {
		last := l.Runs[len(l.Runs)-1]
		newest[i], _ = lists.Find(runs, func(r history.Run) bool {
			return r.Folder == last.Folder && r.Results.Run == last.Run && r.At.Equal(last.At)
		})
		name := nameOf(l.Machine)
		if n := len(lists.Filter(out.Machines, func(m Machine) bool { return nameOf(m.Facts) == name })); n > 0 {
			name = fmt.Sprintf("%s (%d)", name, n+1)
		}
		out.Machines = append(out.Machines, Machine{Name: name, Facts: l.Machine, Runs: len(l.Runs), Newest: last})
		if l.Baseline != out.Baseline {
			return out, fault.WithFix(fault.New(fault.Invalid, "lab %s has the baseline %s on the machine %s, but "+
				"the baseline %s on the machine %s", out.Lab,
				out.Baseline, out.Machines[0].Name, l.Baseline, name), "name runs of one lab file")
		}
		if l.Margin != out.Margin {
			out.Margin = min(out.Margin, l.Margin)
			out.addNote("The runs have different margins; the smallest one applies.")
		}
		for _, note := range last.Cautions {
			out.addNote(name + ": " + note)
		}
	}
	out.register(newest)
	out.Differ = differences(out.Machines)
	for i, l := range of {
		for _, s := range l.Series {
			if !slices.ContainsFunc(out.Comparisons, func(c Comparison) bool { return c.comparesAs(s) }) {
				out.Comparisons = append(out.Comparisons, compareOver(of, newest, i, s))
			}
		}
	}
	for _, c := range out.Comparisons {
		if c.Primary {
			out.Judged++
		}
	}
	out.Level = 1 - opt.Alpha/float64(max(1, out.Judged))
	for i := range out.Comparisons {
		out.Comparisons[i].decide(out, newest)
	}
	return out, nil
}

// register finds out whether the runs were registered together. A machine of them that has no
// run counts, because the others may be a selection.
func (l *Lab) register(newest []history.Run) {
	value := newest[0].Labels[history.FleetLabel]
	text, _, _ := strings.Cut(value, "/")
	n, err := strconv.Atoi(text)
	if err != nil || n < len(newest) || n > mostRegistered ||
		slices.ContainsFunc(newest, func(r history.Run) bool { return r.Labels[history.FleetLabel] != value }) {
		l.addNote("The machines were chosen after their runs had ended. The error rate holds if nobody chose them by " +
			"their results.")
		return
	}
	l.Registered = &n
	l.addNote(fmt.Sprintf("%s and the comparisons were registered before the first run; %d of them have a run.",
		unit.Count(n, "machine"), len(newest)))
}

// addNote adds a note once.
func (l *Lab) addNote(text string) {
	l.Notes = lists.AddNew(l.Notes, text)
}

// differences names the facts in which machines differ, with their values.
func differences(machines []Machine) []string {
	out := []string{}
	for _, fact := range []string{"arch", "cpu.model"} {
		values := lists.Map(machines, func(m Machine) string { return cmp.Or(m.Facts[fact], "unavailable") })
		slices.Sort(values)
		if values = slices.Compact(values); len(values) > 1 {
			out = append(out, fact+": "+strings.Join(values, ", "))
		}
	}
	return out
}

func (c Comparison) comparesAs(s history.Series) bool {
	return c.Contender == s.Contender && c.Cell == s.Cell && c.Metric == s.Metric
}

// compareOver collects a comparison that machine first has.
func compareOver(of []history.Lab, newest []history.Run, first int, s history.Series) Comparison {
	c := Comparison{Contender: s.Contender, Cell: s.Cell, Workload: s.Workload, Metric: s.Metric, Unit: s.Unit,
		Better: s.Better, Scale: s.Scale, Primary: s.Primary}
	for i, l := range of {
		c.Machines = append(c.Machines, valueOn(i, l, c, newest[first], newest[i]))
		// What one machine registered as primary is judged: another may have lost the mark.
		c.Primary = c.Primary || slices.ContainsFunc(l.Series, func(s history.Series) bool {
			return s.Primary && c.comparesAs(s)
		})
	}
	return c
}

// valueOn is what machine i says of a comparison; reference is a run whose work counts.
func valueOn(i int, l history.Lab, c Comparison, reference, newest history.Run) Value {
	out := Value{Machine: i}
	s, ok := lists.Find(l.Series, c.comparesAs)
	switch {
	case !ok:
		out.Reason = "the runs do not have this comparison"
		return out
	case len(compare.OtherWork(newest.Results, reference.Results, compare.Relative, c.Contender, c.Cell, c.Metric)) > 0:
		out.Reason = "other work: " + compare.OtherWork(newest.Results, reference.Results, compare.Relative, c.Contender,
			c.Cell, c.Metric)[0]
		return out
	}
	if n := len(s.LeftOut); n > 0 && s.LeftOut[n-1].Run == len(l.Runs)-1 {
		out.Reason = s.LeftOut[n-1].Reason
		out.Failed = compare.Failures(newest.Results, c.Contender, c.Cell, c.Metric) > 0
		return out
	}
	if len(s.Segments) == 0 || len(s.Estimates) == 0 {
		out.Reason = "no complete block"
		return out
	}
	level := s.Segments[len(s.Segments)-1]
	out.Ratio, out.CI, out.Runs = level.Value, level.CI, level.To-level.From
	if out.Runs == 1 { // the spread between runs is unknown
		out.CI = s.Estimates[len(s.Estimates)-1].Within
	}
	return out
}

// decide estimates the mean over the machines, and gives a verdict.
func (c *Comparison) decide(l Lab, newest []history.Run) {
	var xs []float64
	failed, left := 0, 0
	for _, v := range c.Machines {
		switch {
		case v.Ratio != nil:
			xs = append(xs, c.onScale(*v.Ratio))
		case v.Failed:
			failed++
		default:
			left++
		}
	}
	c.Counted = len(xs)
	machines := len(c.Machines)
	if l.Registered != nil {
		machines = *l.Registered
		left += machines - len(c.Machines)
	}
	level := Level
	if c.Primary {
		level, c.Verdict = l.Level, analysis.Inconclusive
	}
	size := 0.0
	for _, r := range newest {
		size = max(size, compare.Size(r.Results, compare.Relative, c.Contender, c.Cell, c.Metric))
	}
	region := analysis.NewRegion(l.Margin, c.Scale, size)
	c.Region = &[2]float64{*c.shown(-float64(region)), *c.shown(float64(region))}
	p := Pool(xs, level)
	if p.N == 0 {
		c.Reason = "no machine has a number"
		return
	}
	c.Ratio = c.shown(p.Mean)
	for _, x := range xs {
		if x*p.Mean > 0 {
			c.Agree++
		}
	}
	if p.N > 1 {
		c.Spread = &p.Deviation
		c.CI = analysis.Interval{c.shown(p.Mean - p.Half), c.shown(p.Mean + p.Half)}
		next := p.halfInterval(Level)
		c.Next = analysis.Interval{c.shown(p.Mean - next), c.shown(p.Mean + next)}
	}
	if !c.Primary {
		return
	}
	verdict := region.Verdict(p.Mean-p.Half, p.Mean+p.Half, c.Better)
	switch {
	case p.N < LeastMachines:
		c.Reason = unit.Count(p.N, "machine") + " counted; a verdict needs " + unit.Count(LeastMachines, "machine")
	case failed > 0:
		c.Reason = "the contender failed on " + unit.Count(failed, "machine") + ", and a failure has no number"
	case left*MostLeftOut > machines:
		c.Reason = unit.Count(left, "machine") + " of " + unit.Count(machines, "machine") +
			" have no number; those that remain may be a selection"
	default:
		c.Verdict = verdict
		c.BeyondMargin = region.Beyond(verdict, p.Mean-p.Half, p.Mean+p.Half)
	}
	if c.Verdict == analysis.Inconclusive && p.N > 1 {
		growth := stats.Growth(p.Mean, p.Deviation/math.Sqrt(float64(p.N)), float64(region), 1-level)
		if more := math.Ceil(growth*float64(p.N)) - float64(p.N); more >= 0 && more < 1e6 {
			c.More = new(max(int(more), LeastMachines-p.N, 1))
		}
	}
}

func (c *Comparison) onScale(v float64) float64 {
	if c.Scale == sample.Difference {
		return v
	}
	return math.Log(v)
}

func (c *Comparison) shown(v float64) *float64 { return analysis.Shown(v, c.Scale) }

// Pooled is the mean of machines.
type Pooled struct {
	N         int
	Mean      float64
	Deviation float64 // between machines
	Half      float64 // of the interval of Mean; +Inf for one machine
}

// Pool estimates the mean of which machines are a sample, one value each, with an interval
// of a level. The interval is Student's.
func Pool(xs []float64, level float64) Pooled {
	p := Pooled{N: len(xs), Half: math.Inf(1)}
	for _, x := range xs {
		p.Mean += x / float64(p.N)
	}
	if p.N < 2 {
		return p
	}
	p.Deviation = stats.Deviation(xs)
	p.Half = stats.StudentQuantile(level, float64(p.N-1)) * p.Deviation / math.Sqrt(float64(p.N))
	return p
}

// halfInterval is half of the interval in which one more machine lies.
func (p Pooled) halfInterval(level float64) float64 {
	n := float64(p.N)
	return stats.StudentQuantile(level, n-1) * p.Deviation * math.Sqrt(1+1/n)
}
