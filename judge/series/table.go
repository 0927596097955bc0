package series

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/judge/format"
	"bakeoff/judge/stats"
)

// maxKinds bounds contenders and metrics.
const maxKinds = 1000

// unavailable stands for what is not known.
const unavailable = "unavailable"

// tabulate sorts all records by cell, metric and contender.
func tabulate(doc format.Doc, sources []Source, opt Option) (*table, error) {
	t := &table{doc: doc, by: opt.By, cells: map[string]*cell{}, metrics: map[cellMetric]sample.Metric{},
		sides: map[cellMetric]map[string]*side{}, facts: map[string]map[string]map[string]bool{}}
	if t.by == "" {
		t.by = cmp.Or(doc.By, ByFile)
		if slices.ContainsFunc(sources, func(s Source) bool { return s.Name != sources[0].Name }) {
			t.by = ByFile
		}
	}
	shown := t.shown(sources)
	var first error
	for i, s := range sources {
		for _, rec := range s.Records {
			who, ok := contender(rec, s, t.by)
			if !ok {
				t.without++
				if first == nil {
					first = t.noLabel(s, rec)
				}
				continue
			}
			if err := t.add(who, cellName(rec, s, t.by, shown), placed{rec, i}, s.Path); err != nil {
				return nil, err
			}
		}
	}
	if len(t.contenders) == 0 {
		return nil, first
	}
	return t, nil
}

func contender(rec format.Record, s Source, by string) (string, bool) {
	if by == ByFile {
		return s.Name, true
	}
	v, ok := rec.Label(by)
	return v, ok && v != ""
}

// noLabel says which labels the records have.
func (t *table) noLabel(s Source, rec format.Record) error {
	names := []string{ByFile}
	for _, l := range rec.Labels {
		if l.Value != "" {
			names = append(names, l.Name)
		}
	}
	names = append(names, slices.Sorted(maps.Keys(rec.Facts))...)
	return fault.New(fault.Invalid, "%s:%d: this result has no %q by which contenders could differ; use --contender "+
		"with one of %s", s.Path, rec.Line, t.by, strings.Join(names, ", "))
}

// shown returns the labels that are part of the names of cells: all but settings
// with the same value everywhere.
func (t *table) shown(sources []Source) map[string]bool {
	values := map[string]map[string]bool{ByFile: {}}
	always := map[string]bool{}
	for _, s := range sources {
		values[ByFile][s.Name] = true
		for _, rec := range s.Records {
			for _, l := range rec.Labels {
				if values[l.Name] == nil {
					values[l.Name] = map[string]bool{}
				}
				values[l.Name][l.Value] = true
				always[l.Name] = always[l.Name] || !l.Setting
			}
		}
	}
	out := map[string]bool{}
	for name, vs := range values {
		out[name] = always[name] || len(vs) > 1
	}
	return out
}

// cellName joins the labels of a record other than that of the contender:
// "Sum/size=64".
func cellName(rec format.Record, s Source, by string, shown map[string]bool) string {
	var parts []string
	for _, l := range rec.Labels {
		if l.Name != by && l.Value != "" && shown[l.Name] {
			parts = append(parts, cmp.Or(l.Shown, l.Value))
		}
	}
	if by != ByFile && shown[ByFile] {
		parts = append(parts, ByFile+"="+s.Name)
	}
	return strings.Join(parts, "/")
}

// add keeps the values of one record.
func (t *table) add(who, name string, rec placed, path string) error {
	if !slices.Contains(t.contenders, who) {
		t.contenders = append(t.contenders, who)
	}
	c := t.cells[name]
	if c == nil {
		c = &cell{name: name, sides: map[string]*outcome{}}
		t.cells[name] = c
		t.order = append(t.order, c)
	}
	o := c.sides[who]
	if o == nil {
		o = &outcome{}
		c.sides[who] = o
	}
	o.failed += rec.Failed
	o.reason = cmp.Or(rec.Reason, o.reason)
	for _, x := range rec.Series {
		key := cellMetric{name, x.Metric.Name}
		m, known := t.metrics[key]
		if !known {
			m = x.Metric
			t.keys = append(t.keys, key)
			t.metrics[key], t.sides[key] = m, map[string]*side{}
		}
		if m.Unit != x.Metric.Unit || m.Better != x.Metric.Better {
			return fault.New(fault.Invalid, "%s:%d: %s is in %q, and in %q in an earlier result; compare results with "+
				"the same units", path, rec.Line, m.Name, x.Metric.Unit, m.Unit)
		}
		s := t.sides[key][who]
		if s == nil {
			s = &side{}
			t.sides[key][who] = s
		}
		s.values = append(s.values, x.Values...)
		s.records = append(s.records, rec)
		o.values += len(x.Values)
	}
	t.note(who, rec.Facts)
	if len(t.contenders) > maxKinds || len(t.keys) > maxKinds || len(t.cells) > maxKinds {
		return fault.New(fault.Invalid, "%s:%d: more than %d contenders or metrics; compare fewer results at once, or "+
			"choose another label with --contender", path, rec.Line, maxKinds)
	}
	return nil
}

// note keeps facts that may differ between contenders.
func (t *table) note(who string, facts map[string]string) {
	for k, v := range facts {
		if k == t.by {
			continue
		}
		if t.facts[k] == nil {
			t.facts[k] = map[string]map[string]bool{}
		}
		if t.facts[k][who] == nil {
			t.facts[k][who] = map[string]bool{}
		}
		t.facts[k][who][v] = true
	}
}

// failures counts the failed repetitions of a contender in a cell.
func (t *table) failures(name, who string) int {
	if o := t.cells[name].sides[who]; o != nil {
		return o.failed
	}
	return 0
}

// compare adds the summaries and comparisons of one metric.
func (t *table) compare(r *Result, key cellMetric, baseline string) {
	m := t.metrics[key]
	var there []string
	for _, who := range t.contenders {
		s := t.sides[key][who]
		if s == nil {
			continue
		}
		if len(s.values) > 0 {
			there = append(there, who)
		}
		sum := Summary{Contender: who, Cell: key.cell, Metric: m.Name, Unit: m.Unit, Better: m.Better, N: len(s.values),
			Failures: t.failures(key.cell, who)}
		e := stats.MedianInterval(s.values, Level)
		sum.Median, sum.CI = finite(e.Value), Interval{finite(e.Lo), finite(e.Hi)}
		r.Summaries = append(r.Summaries, sum)
	}
	if baseline == "" && len(there) > 0 {
		baseline = there[0]
	}
	if !slices.Contains(there, baseline) {
		return
	}
	for _, who := range there {
		if who != baseline {
			r.Comparisons = append(r.Comparisons, t.pair(key, who, baseline))
		}
	}
}

func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// pair compares two contenders.
func (t *table) pair(key cellMetric, who, baseline string) Comparison {
	m := t.metrics[key]
	a, b := t.sides[key][baseline], t.sides[key][who]
	c := Comparison{Contender: who, Baseline: baseline, Cell: key.cell, Metric: m.Name, Unit: m.Unit, Better: m.Better,
		Scale: m.Scale, N: [2]int{len(b.values), len(a.values)},
		Failures: [2]int{t.failures(key.cell, who), t.failures(key.cell, baseline)},
		Order:    t.sequence(a.records, b.records), Verdict: NotInterleaved}
	if hasZero(a.values) || hasZero(b.values) {
		c.Scale = sample.Difference
	}
	base := stats.SerialCenter(scaled(a.values, c.Scale), Level)
	own := stats.SerialCenter(scaled(b.values, c.Scale), Level)
	shift, below, above := base.To(own)
	c.Effective = [2]float64{own.Effective, base.Effective}
	c.Ratio = analysis.Shown(shift, c.Scale)
	c.CI = Interval{analysis.Shown(shift-below, c.Scale), analysis.Shown(shift+above, c.Scale)}
	if few := min(len(a.values), len(b.values)); len(base.Warnings)+len(own.Warnings) > 0 {
		c.Warnings = append(c.Warnings, fmt.Sprintf("No interval: each side needs at least %d values, and one has %s.",
			stats.SignedRankNeeds(1-Level), strconv.Itoa(few)))
	}
	if f := c.Failures; f[0]+f[1] > 0 {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%d repetitions of %s and %d of %s failed; the interval describes the "+
			"others.", f[0], who, f[1], baseline))
	}
	return c
}

func hasZero(vs []float64) bool {
	return slices.ContainsFunc(vs, func(v float64) bool { return v <= 0 })
}

// scaled returns values on the scale on which differences are taken.
func scaled(vs []float64, scale sample.Scale) []float64 {
	out := slices.Clone(vs)
	if scale != sample.Difference {
		for i := range out {
			out[i] = math.Log(out[i])
		}
	}
	return out
}

// missing lists the cells in which a contender has no value.
func (t *table) missing(r *Result) {
	expected := t.by == ByFile || t.by == t.doc.By && t.doc.Complete
	for _, c := range t.order {
		for _, who := range t.contenders {
			o, reason := c.sides[who], ""
			switch {
			case o != nil && o.values > 0:
				continue
			case o != nil && o.failed > 0:
				reason = o.reason
			case expected && o == nil:
				reason = "no file has a value"
			default:
				continue
			}
			r.Missing = append(r.Missing, analysis.Missing{Contender: who, Cell: c.name, Reason: reason})
		}
	}
}

// differences lists the facts that contenders do not share.
func (t *table) differences(r *Result) {
	if len(t.contenders) < 2 {
		return
	}
	for _, fact := range slices.Sorted(maps.Keys(t.facts)) {
		d := Difference{Fact: fact}
		differs := false
		for _, who := range t.contenders {
			v := cmp.Or(strings.Join(slices.Sorted(maps.Keys(t.facts[fact][who])), ", "), unavailable)
			d.Values = append(d.Values, Value{who, v})
			differs = differs || v != d.Values[0].Value
		}
		if differs {
			r.Differences = append(r.Differences, d)
		}
	}
}

func quoted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strconv.Quote(n)
	}
	return strings.Join(out, ", ")
}
