package history

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"slices"

	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/judge/compare"
	"bakeoff/judge/stats"
)

// runLevel is the level of the intervals of single runs.
const runLevel = 0.95

// maker makes one series.
type maker struct {
	group
	key
	by     compare.By
	lab    Lab
	metric sample.Metric
	out    Series
	raw    []stats.Serial // of the runs that count
}

// makeSeries makes a series of the runs of a group.
func (g group) makeSeries(k key, by compare.By, lab Lab) Series {
	m := maker{group: g, key: k, by: by, lab: lab, metric: k.cell.Metrics[k.metric]}
	m.out = Series{Contender: k.contender, Cell: k.cell.Name, Workload: k.cell.Workload, Metric: m.metric.Name,
		Unit: m.metric.Unit, Better: m.metric.Better, Scale: cmp.Or(m.metric.Scale, sample.Ratio), Primary: k.primary,
		Estimates: []Estimate{}, LeftOut: []LeftOut{}, Segments: []Segment{}, Steps: []Step{},
		Outlook: []Outlook{}}
	m.collect()
	if len(m.raw) > 0 {
		m.findSteps()
	}
	return m.out
}

// collect takes the estimate of each run that did the same work.
func (m *maker) collect() {
	estimates := lists.Map(m.runs, func(r Run) stats.Serial {
		return r.estimate(m.by, m.contender, m.cell.Name, m.metric)
	})
	intervals := slices.ContainsFunc(estimates, hasInterval)
	for i, r := range m.runs {
		e := estimates[i]
		reason := m.unusable(r, e.N)
		if reason == "" && !hasInterval(e) {
			reason = cutShort(r, e.N, intervals)
		}
		if reason == absent {
			continue
		}
		if reason != "" {
			m.out.LeftOut = append(m.out.LeftOut, LeftOut{Run: i, Reason: reason})
			continue
		}
		m.raw = append(m.raw, e)
		m.out.Estimates = append(m.out.Estimates, Estimate{Run: i, Blocks: e.N, Value: m.showValue(e.Center),
			Within: m.intervalAround(e.Center, e.Below, e.Above)})
	}
}

// fewValues is half of Student's interval, for runs with too few blocks for ranks.
func fewValues(values []float64) float64 {
	if len(values) < 2 {
		return math.Inf(1)
	}
	n := float64(len(values))
	return stats.StudentQuantile(runLevel, n-1) * stats.Deviation(values) / math.Sqrt(n)
}

// hasInterval reports whether the values of a run give an interval.
func hasInterval(e stats.Serial) bool {
	return e.N > 0 && !math.IsInf(e.Below, 0) && !math.IsInf(e.Above, 0)
}

// cutShort says that a run without an interval ended before its planned blocks, so that it says
// too little; "" if it did not. A lab can plan runs of one block, and a budget can always end after
// one: intervals says that other runs of the series have an interval.
func cutShort(r Run, values int, intervals bool) string {
	few := unit.Count(values, "block") + " cannot give an interval"
	switch r.Results.Ended {
	case analysis.EndedBlocks:
		return ""
	case "":
		if r.Known != nil && intervals {
			return "an earlier program wrote the index, which does not say why the run ended, and " + few +
				"; run bakeoff store rebuild"
		} else if r.Known != nil {
			return ""
		}
		return "the run has not ended, and " + few
	case analysis.EndedInterrupted, analysis.EndedVoid:
		return "the run is unfinished, and " + few
	}
	if intervals {
		return "the run ended before its planned blocks, and " + few
	}
	return ""
}

// absent is the reason of a run that does not have the series at all.
const absent = "absent"

// unusable says why a run does not count; "" if it does.
func (m *maker) unusable(r Run, values int) string {
	if !hasCell(r.Results, m.contender, m.cell.Name) {
		return absent
	}
	reference := m.runs[m.reference].Results
	if other := compare.OtherWork(r.Results, reference, m.by, m.contender, m.cell.Name, m.metric.Name); len(other) > 0 {
		return "other work: " + other[0]
	}
	if len(r.Unplanned) > 0 {
		return "the run is not as planned: " + r.Unplanned[0]
	}
	if r.Results.Twin != nil && r.Results.Twin.Different {
		return "the twin differs from the baseline: the run was disturbed"
	}
	if n := compare.Failures(r.Results, m.contender, m.cell.Name, m.metric.Name); n > 0 {
		return unit.Count(n, "trial") + " failed"
	}
	if gates := compare.Gates(r.Results, m.contender, m.cell.Name, m.metric.Name); len(gates) > 0 {
		return "check " + gates[0].Name + " failed: " + gates[0].Reason
	}
	if values == 0 {
		return "no complete block"
	}
	// The blocks with a value may be a selection, as the trials that did not fail.
	switch n, known := r.part(m.contender, m.cell.Name, m.metric.Name); {
	case values >= n:
	case !known:
		return fmt.Sprintf("an earlier program wrote the index, which does not say in how many of %d blocks the contender "+
			"took part; run bakeoff store rebuild", n)
	default:
		return fmt.Sprintf("%d of %d blocks lack a value", n-values, n)
	}
	return ""
}

func hasCell(r analysis.Results, contender, cell string) bool {
	_, one := lists.Find(r.Contenders, func(c analysis.Contender) bool { return c.Name == contender })
	_, both := lists.Find(r.Cells, func(c analysis.Cell) bool { return c.Name == cell })
	return one && both
}

// findSteps finds the steps and the levels between them.
func (m *maker) findSteps() {
	s := series{seed: m.orderSeed()}
	for _, r := range m.raw {
		s.xs = append(s.xs, r.Center)
	}
	s.within = variances(m.raw)
	level := 1 - m.lab.Level
	cuts := s.findCuts(level * shareOfReading(len(s.xs)))
	if len(cuts) == 0 && len(s.xs) < leastRuns {
		m.out.Needs = leastRuns
	}
	fit := s.fitLevels(cuts)
	if fit.df > 0 {
		m.out.Spread = pointer(math.Sqrt(fit.between))
	}
	m.estimates(fit)
	for _, l := range fit.segments {
		half := fit.interval(l.variance, m.lab.Level)
		m.out.Segments = append(m.out.Segments, Segment{From: l.from, To: l.to, Value: m.showValue(l.mean),
			CI: m.intervalAround(l.mean, half, half)})
	}
	region := m.marginRegion()
	if m.by == compare.Relative {
		m.out.Region = &[2]float64{*m.showValue(-float64(region)), *m.showValue(float64(region))}
	}
	for i, c := range cuts {
		m.out.Steps = append(m.out.Steps, m.describeStep(c, fit.segments[i], fit.segments[i+1], fit, region))
	}
	m.outlook(s, fit.segments[len(cuts)].from, level)
}

// estimates widens the interval of each run by the spread between runs.
func (m *maker) estimates(fit levels) {
	between := 0.0
	if fit.df > 0 {
		between = stats.StudentQuantile(runLevel, float64(fit.df)) * math.Sqrt(fit.between)
	}
	for i, r := range m.raw {
		e := &m.out.Estimates[i]
		e.CI = m.intervalAround(r.Center, math.Hypot(r.Below, between), math.Hypot(r.Above, between))
	}
}

// describeStep describes a cut.
func (m *maker) describeStep(c cut, before, after level, fit levels, region analysis.Region) Step {
	shift, half := after.mean-before.mean, fit.interval(before.variance+after.variance, m.lab.Level)
	out := Step{At: c.at, Range: [2]int{c.lo, c.hi}, Run: m.out.Estimates[c.at].Run, P: c.p, Ratio: m.showValue(shift),
		CI: m.intervalAround(shift, half, half), Verdict: analysis.Inconclusive}
	lo, hi := shift-half, shift+half
	if lo > 0 || hi < 0 {
		out.Verdict = analysis.Region(0).Verdict(lo, hi, m.metric.Better)
		out.BeyondMargin = region.Beyond(out.Verdict, lo, hi)
	}
	out.Coincides = m.coincidences(c)
	return out
}

// marginRegion is the margin on the scale of the estimates.
func (m *maker) marginRegion() analysis.Region {
	size := compare.Size(m.runs[m.reference].Results, m.by, m.contender, m.cell.Name, m.metric.Name)
	return analysis.NewRegion(m.lab.Margin, m.metric.Scale, size)
}

// orderSeed makes the random orders of a series the same in each reading.
func (m *maker) orderSeed() uint64 {
	h := fnv.New64a()
	for _, s := range []string{m.contender, m.cell.Name, m.metric.Name, string(m.by)} {
		h.Write([]byte(s + "\x00"))
	}
	return h.Sum64()
}

func (m *maker) showValue(v float64) *float64 { return analysis.Shown(v, m.metric.Scale) }

// intervalAround is the interval around a center; a bound that is not finite is null.
func (m *maker) intervalAround(center, below, above float64) analysis.Interval {
	var out analysis.Interval
	if lo := center - below; !math.IsInf(lo, 0) {
		out[0] = m.showValue(lo)
	}
	if hi := center + above; !math.IsInf(hi, 0) {
		out[1] = m.showValue(hi)
	}
	return out
}

// variances returns the variance of each run by the noise inside of it: that of a typical
// block over the number of blocks. It does not use the width of the run's own interval,
// because that goes with its value where noise is skewed: a weight that goes with the
// value would raise false alarms.
func variances(raw []stats.Serial) []float64 {
	var perBlock []float64
	quantiles := map[int]float64{} // most runs have the same number of blocks
	for _, r := range raw {
		if d := (r.Below + r.Above) / 2; r.N > 1 && !math.IsInf(d, 0) && !math.IsNaN(d) {
			q, ok := quantiles[r.N]
			if !ok {
				q = stats.StudentQuantile(runLevel, float64(r.N-1))
				quantiles[r.N] = q
			}
			d /= q
			perBlock = append(perBlock, d*d*float64(r.N))
		}
	}
	out := make([]float64, len(raw))
	for i, r := range raw {
		if len(perBlock) > 0 {
			out[i] = stats.Median(perBlock) / float64(r.N)
		}
	}
	return out
}

// leastRuns is the number of runs with which the clearest step can be found: three on both
// sides of it, or two and five.
const leastRuns = 6

func pointer(v float64) *float64 { return &v }
