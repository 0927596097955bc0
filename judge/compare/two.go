package compare

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/judge/stats"
)

// Two compares run b, the new one, with run a. It refuses runs without a common
// contender or cell, and cells of one name that did different work, with an error
// of kind fault.Invalid that says what differs.
func Two(a, b Run, opt Option) (Result, error) {
	opt.Alpha = cmp.Or(opt.Alpha, analysis.MaxAlpha)
	opt.Margin = cmp.Or(opt.Margin, a.Results.Margin)
	opt.By = cmp.Or(opt.By, Relative)
	if !(opt.Alpha > 0 && opt.Alpha < 1) || !(opt.Margin >= 0 && opt.Margin <= analysis.MaxMargin) || opt.By != Relative &&
		opt.By != Direct {
		return Result{}, fault.New(fault.Invalid,
			"alpha must be between 0 and 1 (got %v), the margin must be from 0 to 0.5 (got %v), and --by must be "+
				"relative or direct (got %q)", opt.Alpha, opt.Margin, opt.By)
	}
	for _, other := range append([]Run{b}, opt.Repeats...) {
		if err := checkSameWork(a.Results, other.Results); err != nil {
			return Result{}, err
		}
	}
	for _, r := range opt.Repeats {
		if r.Identity() == b.Identity() {
			// The difference between OLD and NEW would count as one between runs without a change.
			return Result{}, fault.New(fault.Invalid, "NEW (%s) is also one of the repeated runs (%s); remove it from them, "+
				"because they repeat OLD", b.Results.Run, r.Results.Run)
		}
		if differ := machineDiffers(a, r, "the repeated run", inBoth(a, r)...); differ != "" {
			// The difference between machines would count as one between runs of one machine.
			return Result{}, fault.New(fault.Invalid, "the repeated run %s was made on another machine than OLD (%s): %s; "+
				"repeat OLD on its own machine", r.Results.Run, a.Results.Run, differ)
		}
	}
	p := pair{a: a, b: b, opt: opt, repeats: repeats(a, opt.Repeats)}
	onlyOld, onlyNew := missingFrom(a.Results, b.Results), missingFrom(b.Results, a.Results)
	p.out = Result{
		Schema: Schema, Warning: Warning, Old: a.Results.Run, New: b.Results.Run,
		By: opt.By, Alpha: opt.Alpha, Margin: opt.Margin,
		Warnings: []string{}, Yardstick: []Row{}, Rows: []Row{}, Disturbed: []string{},
		Differences: Differences(a, b), OnlyOld: lists.Map(onlyOld, part.String), OnlyNew: lists.Map(onlyNew, part.String),
		lost: onlyOld, cells: primaryCells(a.Results.Cells), ended: endOf(a.Results, b.Results),
		twin: twinOf(a.Results, b.Results),
	}
	p.compareRows()
	p.addWarnings()
	return p.out, nil
}

// unavailable stands for what is not known.
const unavailable = "unavailable"

// pair is a comparison of two runs in progress.
type pair struct {
	a, b    Run
	opt     Option
	repeats []analysis.Results // a among them
	out     Result
}

// repeats returns a and the runs that repeat it, each run once.
func repeats(a Run, more []Run) []analysis.Results {
	all := []Run{a}
	for _, r := range more {
		if !slices.ContainsFunc(all, func(x Run) bool { return x.Identity() == r.Identity() }) {
			all = append(all, r)
		}
	}
	return lists.Map(all, func(r Run) analysis.Results { return r.Results })
}

func (p *pair) compareRows() {
	var all []Row
	for _, c := range p.a.Results.Contenders {
		if !hasContender(p.b.Results, c) {
			continue
		}
		for _, cell := range p.a.Results.Cells {
			other, ok := cellNamed(p.b.Results.Cells, cell.Name)
			if !ok {
				continue
			}
			for _, m := range cell.Metrics {
				o, ok := sample.Named(other.Metrics, m.Name)
				if !ok {
					continue
				}
				r := Row{
					Contender: c.Name, TwinOf: c.TwinOf, Cell: cell.Name, Workload: cell.Workload,
					Metric: m.Name, Unit: m.Unit, Better: m.Better, Scale: m.Scale,
					Primary: m.Primary && o.Primary && c.TwinOf == "", Gates: p.failedGates(c.Name, cell.Name, m.Name),
				}
				all = append(all, r)
				if r.Primary && p.getsVerdict(c.Name) {
					p.out.Judged++
				}
			}
		}
	}
	for _, r := range all {
		r.Level = 1 - p.opt.Alpha/float64(max(1, p.out.Judged))
		if p.estimateRow(&r); r.Contender == p.a.Results.Baseline {
			p.out.Yardstick = append(p.out.Yardstick, r)
		} else {
			p.out.Rows = append(p.out.Rows, r)
		}
	}
}

// getsVerdict reports whether a contender gets verdicts. Relative to the baseline, the
// baseline itself gets none, and nobody does if the runs have different baselines.
func (p *pair) getsVerdict(contender string) bool {
	return p.opt.By == Direct || p.baseline() != "" && contender != p.baseline()
}

// baseline returns the baseline of both runs; "" if they differ.
func (p *pair) baseline() string {
	if p.a.Results.Baseline != p.b.Results.Baseline {
		return ""
	}
	return p.a.Results.Baseline
}

// estimateRow estimates both changes of a row.
func (p *pair) estimateRow(r *Row) {
	key := cellMetric{r.Cell, r.Metric}
	for i, run := range p.runs() {
		r.Failures[i] = failures(run, r.Contender, key)
	}
	size := typicalSize(p.a.Results, r.Contender, key)
	r.Direct = p.estimateChange(*r, Direct, size, func(run analysis.Results) []float64 {
		return directValues(run, r.Contender, key, r.Scale)
	})
	if base := p.baseline(); base != "" && base != r.Contender {
		r.Relative = p.estimateChange(*r, Relative, typicalSize(p.a.Results, base, key),
			func(run analysis.Results) []float64 {
				return relative(run, r.Contender, base, key, r.Scale)
			})
	}
	if f := r.Failures; f[0]+f[1] > 0 {
		r.Warnings = append(r.Warnings,
			fmt.Sprintf("%d trials failed in OLD and %d in NEW: the change describes only the trials that succeeded, and gets "+
				"no verdict",
				f[0], f[1]))
		return
	}
	for _, c := range []*Change{r.Direct, r.Relative} {
		if c != nil && c.Withheld != "" {
			r.Warnings = lists.AddNew(r.Warnings, "there is no verdict: "+c.Withheld)
		}
	}
}

// runs returns the results of OLD and NEW.
func (p *pair) runs() []analysis.Results { return []analysis.Results{p.a.Results, p.b.Results} }

// sides names OLD and NEW, in the order of runs.
var sides = []string{"OLD", "NEW"}

// withheld says why a change gets no verdict, however narrow its interval is: a trial of one
// of its sides failed, or a block lacks a value. The change describes the other trials. They
// may be a selection: the slowest trials are those that reach a time limit. "" if nothing is
// lost.
func (p *pair) withheld(r Row, by By, blocks [2]int) string {
	contenders := []string{r.Contender}
	if by == Relative {
		contenders = append(contenders, p.baseline())
	}
	for i, run := range p.runs() {
		for _, c := range contenders {
			if n := failures(run, c, cellMetric{r.Cell, r.Metric}); n > 0 {
				return fmt.Sprintf("%s of %s failed in %s", unit.Count(n, "trial"), c, sides[i])
			}
		}
	}
	for i, run := range p.runs() {
		if part := Part(run, r.Contender); blocks[i] < part {
			return fmt.Sprintf("%d of %d blocks of %s lack a value of %s that can be compared", part-blocks[i], part,
				sides[i], r.Metric)
		}
	}
	return ""
}

// estimateChange estimates one change; nil if a run has no values.
func (p *pair) estimateChange(r Row, by By, size float64, values func(analysis.Results) []float64) *Change {
	if c := p.exactChange(r, by); c != nil {
		return c
	}
	old, now := values(p.a.Results), values(p.b.Results)
	if len(old) == 0 || len(now) == 0 {
		return nil
	}
	a, b := stats.SerialCenter(old, r.Level), stats.SerialCenter(now, r.Level)
	c := &Change{Blocks: [2]int{len(old), len(now)}, Source: unavailable}
	spread := math.NaN()
	var each []float64
	for _, run := range p.repeats {
		if v := values(run); len(v) > 0 {
			each = append(each, stats.SerialCenter(v, r.Level).Center)
		}
	}
	switch cal := p.opt.Calibrated; {
	case len(each) >= MinRepeats:
		spread, c.Runs, c.Source = stats.Deviation(each), len(each), fmt.Sprintf("%d runs without a change between them",
			len(each))
	case cal != nil && cal.Runs >= MinRepeats && r.Scale != sample.Difference:
		spread, c.Runs, c.Source, c.Calibrated = cal.Relative, cal.Runs, cal.Source, true
		if by == Direct {
			spread = cal.Direct
		}
	}
	shift, lo, hi := a.To(b)
	show := func(v float64) *float64 { return analysis.Shown(v, r.Scale) }
	c.Old, c.New, c.Ratio = show(a.Center), show(b.Center), show(shift)
	c.Within = analysis.Interval{show(shift - lo), show(shift + hi)}
	c.CI = c.Within
	known := spread == spread
	if known {
		c.Spread = new(spread)
		between := stats.StudentQuantile(r.Level, float64(c.Runs-1)) * spread * math.Sqrt2
		lo, hi = math.Hypot(lo, between), math.Hypot(hi, between)
		c.CI = analysis.Interval{show(shift - lo), show(shift + hi)}
	}
	if !r.Primary || by != p.opt.By || !p.getsVerdict(r.Contender) {
		return c
	}
	if c.Withheld = p.withheld(r, by, c.Blocks); by == Direct && c.Withheld == "" {
		c.onMachines(machineDiffers(p.a, p.b, "NEW", r.Contender))
	}
	region := analysis.NewRegion(p.opt.Margin, r.Scale, size)
	if known && len(r.Gates) == 0 && c.Withheld == "" {
		sign, toZero, away := 1.0, lo, hi
		if r.Better != sample.Lower {
			sign, toZero, away = -1, hi, lo
		}
		found, beyond := region.Smallest(toZero, away)
		c.Smallest, c.SmallestBeyond = show(sign*found), show(sign*beyond)
		if math.IsInf(toZero, 0) { // exp(-Inf) is 0, which is not a ratio
			c.Smallest, c.SmallestBeyond = nil, nil
		}
	}
	switch {
	case !known:
		c.Verdict = NotInterleaved
	case len(r.Gates) > 0 || c.Withheld != "":
		c.Verdict = analysis.Inconclusive
	default:
		c.Verdict = region.Verdict(shift-lo, shift+hi, r.Better)
		c.BeyondMargin = region.Beyond(c.Verdict, shift-lo, shift+hi)
	}
	return c
}

// failedGates returns the gates that a comparison failed in either run.
func (p *pair) failedGates(contender, cell, metric string) []analysis.Gate {
	out := []analysis.Gate{}
	for i, run := range p.runs() {
		for _, g := range Gates(run, contender, cell, metric) {
			g.Reason = sides[i] + ": " + g.Reason
			out = append(out, g)
		}
	}
	return out
}

// addWarnings adds the warnings about the whole result.
func (p *pair) addWarnings() {
	add := func(format string, args ...any) {
		p.out.Warnings = append(p.out.Warnings, fmt.Sprintf(format, args...))
	}
	if p.a.Identity() == p.b.Identity() {
		add("OLD and NEW are the same run, so nothing can have changed.")
	}
	for i, run := range []Run{p.a, p.b} {
		if len(run.Unplanned) > 0 {
			add("%s is not as planned: %s.", sides[i], run.Unplanned[0])
			for _, what := range run.Unplanned {
				p.out.unplanned = append(p.out.unplanned, sides[i]+": "+what)
			}
		}
	}
	p.out.Warnings = append(p.out.Warnings, Suspicious(p.a, p.b, p.opt.Repeats...)...)
	unknown, told, short, calibrated := false, false, false, false
	for _, r := range append(slices.Clone(p.out.Yardstick), p.out.Rows...) {
		for _, c := range []*Change{r.Direct, r.Relative} {
			if c == nil {
				continue
			}
			unknown, told = unknown || c.Spread == nil, told || c.Spread != nil
			calibrated = calibrated || c.Calibrated
			short = short || c.Within[0] == nil || c.Within[1] == nil
			if r.TwinOf != "" && c == r.Relative && excludesNone(c.CI, r.Scale) {
				add("The twin, a second copy of the baseline, changed relative to the baseline at %s, %s: the intervals here are "+
					"too narrow, or a run was disturbed.", r.Cell, r.Metric)
			}
		}
	}
	if unknown {
		some := ""
		if told {
			some = " for some metrics"
		}
		add("Change from run to run: unavailable"+some+". Without it, an interval covers only the noise inside the runs. "+
			"To measure it, pass --repeats with %d or more runs in which nothing was changed.", MinRepeats)
	}
	if calibrated {
		add("The change from run to run was measured by calibrations. A calibration only computes; other work may change " +
			"more from run to run. To measure that change, pass --repeats with runs of the same lab file.")
	}
	if short {
		add("A run has too few blocks for an interval at this confidence level.")
	}
	if p.baseline() == "" {
		add("The baselines differ: %s in OLD, %s in NEW. Only direct changes are available.", p.a.Results.Baseline,
			p.b.Results.Baseline)
	}
	for i, run := range p.runs() {
		name := sides[i]
		switch run.Ended {
		case analysis.EndedDecided:
			add("%s ended as soon as every comparison had a verdict: such a run tends to overestimate a difference slightly.",
				name)
		case "":
			add("%s has not ended.", name)
		}
		if run.Twin != nil && run.Twin.Different {
			add("In %s the twin differs from the baseline: that run was disturbed.", name)
			p.out.Disturbed = append(p.out.Disturbed, name)
		}
	}
}

func excludesNone(ci analysis.Interval, s sample.Scale) bool {
	none := 1.0
	if s == sample.Difference {
		none = 0
	}
	return ci[0] != nil && *ci[0] > none || ci[1] != nil && *ci[1] < none
}

// part is a contender, a cell, or a primary metric of a cell.
type part struct{ contender, cell, metric string }

func (x part) String() string {
	switch {
	case x.metric != "":
		return "primary metric " + x.metric + " of cell " + x.cell
	case x.cell != "":
		return "cell " + x.cell
	}
	return "contender " + x.contender
}

// missingFrom lists the contenders, cells and primary metrics of a that b lacks. A metric that
// is not primary in b is not judged, so a change of it would pass unseen.
func missingFrom(a, b analysis.Results) []part {
	out := []part{}
	for _, c := range a.Contenders {
		if !hasContender(b, c) {
			out = append(out, part{contender: c.Name})
		}
	}
	for _, c := range a.Cells {
		other, ok := cellNamed(b.Cells, c.Name)
		if !ok {
			out = append(out, part{cell: c.Name})
			continue
		}
		for _, m := range c.Metrics {
			if o, ok := sample.Named(other.Metrics, m.Name); m.Primary && !(ok && o.Primary) {
				out = append(out, part{cell: c.Name, metric: m.Name})
			}
		}
	}
	return out
}

// primaryCells returns cells with their primary metrics only: Result.Results has no comparison
// of another metric.
func primaryCells(cells []analysis.Cell) []analysis.Cell {
	out := slices.Clone(cells)
	for i, c := range out {
		out[i].Metrics = lists.Filter(c.Metrics, func(m sample.Metric) bool { return m.Primary })
	}
	return out
}

// Lost names the contenders, cells and primary metrics of a that b lacks.
func Lost(a, b analysis.Results) []string { return lists.Map(missingFrom(a, b), part.String) }

// hasContender reports whether a contender of the same name is in r.
func hasContender(r analysis.Results, c analysis.Contender) bool {
	return slices.ContainsFunc(r.Contenders, func(o analysis.Contender) bool { return o.Name == c.Name })
}

func cellNamed(cells []analysis.Cell, name string) (analysis.Cell, bool) {
	return lists.Find(cells, func(c analysis.Cell) bool { return c.Name == name })
}

// checkSameWork returns an error if the runs did different work under the same names.
func checkSameWork(a, b analysis.Results) error {
	var wrong []string
	var shared []string
	for _, c := range a.Cells {
		o, ok := cellNamed(b.Cells, c.Name)
		if !ok {
			continue
		}
		shared = append(shared, c.Name)
		wrong = append(wrong, workDiffers(c, o)...)
	}
	sides := 0
	for _, c := range a.Contenders {
		o, ok := lists.Find(b.Contenders, func(o analysis.Contender) bool { return o.Name == c.Name })
		if ok {
			sides++
			wrong = append(wrong, variantDiffers(c, o, shared)...)
		}
	}
	switch {
	case len(wrong) > 0:
		return fault.New(fault.Invalid, "the runs %s and %s did different work: %s", a.Run, b.Run, strings.Join(wrong, "; "))
	case len(shared) == 0:
		return fault.New(fault.Invalid, "the runs %s and %s have no cell in common", a.Run, b.Run)
	case sides == 0:
		return fault.New(fault.Invalid, "the runs %s and %s have no contender in common", a.Run, b.Run)
	}
	return nil
}

// variantDiffers says in which parameters and variables of its own a contender
// differs between two runs, at the cells that both have.
func variantDiffers(a, b analysis.Contender, cells []string) (out []string) {
	say := func(what, x, y string) {
		if x != y {
			out = append(out, fmt.Sprintf("contender %s: %s is %q in one and %q in the other", a.Name, what, x, y))
		}
	}
	for _, cell := range cells {
		for _, name := range analysis.Names(a.Params[cell], b.Params[cell]) {
			say(name+" at "+cell, a.Params[cell][name], b.Params[cell][name])
		}
	}
	for _, name := range analysis.Names(a.Env, b.Env) {
		say("the variable "+name, a.Env[name], b.Env[name])
	}
	return out
}

func workDiffers(a, b analysis.Cell) (out []string) {
	say := func(what, x, y string) {
		if x != y {
			out = append(out, fmt.Sprintf("cell %s: %s is %q in one and %q in the other", a.Name, what, x, y))
		}
	}
	say("workload", a.Workload, b.Workload)
	for _, k := range analysis.Names(a.Params, b.Params) {
		say(k, a.Params[k], b.Params[k])
	}
	for _, m := range a.Metrics {
		if o, ok := sample.Named(b.Metrics, m.Name); ok {
			say("unit of "+m.Name, m.Unit, o.Unit)
			say("better "+m.Name, string(m.Better), string(o.Better))
			say("scale of "+m.Name, string(m.Scale), string(o.Scale))
		}
	}
	return out
}

// Differences lists the facts that differ between two runs, by contender and fact.
func Differences(a, b Run) []Difference {
	out := []Difference{}
	for _, who := range slices.Sorted(maps.Keys(a.Facts)) {
		other, ok := b.Facts[who]
		if !ok {
			continue
		}
		for _, k := range analysis.Names(a.Facts[who], other) {
			x, y := cmp.Or(a.Facts[who][k], unavailable), cmp.Or(other[k], unavailable)
			if x != y {
				out = append(out, Difference{who, k, x, y})
			}
		}
	}
	return out
}
