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
	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/judge/format"
	"bakeoff/judge/stats"
)

// Bounds on contenders, and on metrics of cells, which take a row for each contender: 12,000 metrics of two
// contenders take 4 s.
const (
	maxContenders = 1000
	maxMetrics    = 20_000
)

// unavailable stands for what is not known.
const unavailable = "unavailable"

// entry is a record with its place in the table.
type entry struct {
	who, cell string
	labels    []format.Label // that may be in the name of the cell
	placed
}

// tabulate sorts all records by cell, metric and contender.
func tabulate(doc format.Doc, sources []Source, opt Option) (*table, error) {
	t := &table{doc: doc, by: opt.By, group: opt.Group, cells: map[string]*cell{}, metrics: map[cellMetric]sample.Metric{},
		sides: map[cellMetric]map[string]*side{}, facts: map[string]map[string]map[string]bool{},
		groups: map[string]string{}}
	if t.by == "" {
		t.by = cmp.Or(doc.By, ByFile)
		if slices.ContainsFunc(sources, func(s Source) bool { return s.Name != sources[0].Name }) {
			t.by = ByFile
		}
	}
	entries, err := t.entries(sources)
	if err != nil {
		return nil, err
	}
	better, units := metricsByCell(entries)
	t.units = units
	for _, e := range entries {
		for i := range e.Series {
			m := &e.Series[i].Metric
			key := cellMetric{cell: e.cell, metric: m.Name, unit: m.Unit}
			if m.Better == "" && len(better[key]) == 1 {
				m.Better = better[key][0]
			}
		}
		if err := t.addEntry(e, sources[e.source].Path); err != nil {
			return nil, err
		}
	}
	t.poolValues()
	return t, nil
}

// entries names the contender and the cell of every record.
func (t *table) entries(sources []Source) (out []entry, err error) {
	n := &naming{by: t.by, group: t.group, clash: clashes(sources), shown: map[string]bool{}}
	var first error
	for i, s := range sources {
		for _, rec := range s.Records {
			who, ok := contender(rec, s, t.by)
			if !ok {
				t.without++
				if first == nil {
					first = t.noLabel(s, rec, t.by, "--contender")
				}
				continue
			}
			rec.Series = slices.Clone(rec.Series)
			out = append(out, entry{who: n.labelValue(who), labels: n.nameLabels(rec, s), placed: placed{rec, i}})
		}
	}
	if len(out) == 0 {
		return nil, first
	}
	t.showLabels(n, out)
	t.shown = n.shown
	n.nameCells(out)
	grouped := false
	for _, e := range out {
		if t.group == "" {
			break
		}
		if l, ok := labelOf(e.Record, sources[e.source], t.group); ok && !l.Absent() {
			t.groups[e.cell] = n.labelValue(l)
			grouped = true
		}
	}
	if t.group != "" && !grouped {
		return nil, t.noLabel(sources[out[0].source], out[0].Record, t.group, "--group")
	}
	return out, nil
}

// metricsByCell returns the known directions of each metric of a cell with its unit,
// and the units and directions of each metric of a cell.
func metricsByCell(entries []entry) (better map[cellMetric][]sample.Better, units map[cellMetric][]string) {
	better, units = map[cellMetric][]sample.Better{}, map[cellMetric][]string{}
	for _, e := range entries {
		for _, x := range e.Series {
			key := cellMetric{cell: e.cell, metric: x.Metric.Name}
			units[key] = lists.AddNew(units[key], x.Metric.Unit)
			key.unit = x.Metric.Unit
			if b := x.Metric.Better; b != "" {
				better[key] = lists.AddNew(better[key], b)
			}
		}
	}
	return better, units
}

func contender(rec format.Record, s Source, by string) (format.Label, bool) {
	l, ok := labelOf(rec, s, by)
	return l, ok && !l.Absent()
}

// labelOf is a label of a record; the file is one, too.
func labelOf(rec format.Record, s Source, name string) (format.Label, bool) {
	if name == ByFile {
		return format.Label{Name: ByFile, Value: s.Name, Shown: ByFile + "=" + s.Name, Setting: true, Place: true}, true
	}
	return rec.Label(name)
}

// noLabel says which labels the records have.
func (t *table) noLabel(s Source, rec format.Record, name, flag string) error {
	names := []string{ByFile}
	var add func(labels []format.Label)
	add = func(labels []format.Label) {
		for _, l := range labels {
			if !l.Absent() {
				names = append(names, l.Name)
			}
			add(l.Parts)
		}
	}
	add(rec.Labels)
	names = append(names, slices.Sorted(maps.Keys(rec.Facts))...)
	what := "contenders"
	if flag == "--group" {
		what = "groups"
	}
	return fault.New(fault.Invalid, "%s:%d: this result has no label %q to distinguish %s; use %s with one of %s",
		s.Path, rec.Line, name, what, flag, strings.Join(names, ", "))
}

// addEntry keeps the values of one record. The unit is a part of the name of a cell that
// has one metric in several units.
func (t *table) addEntry(e entry, path string) error {
	t.contenders = lists.AddNew(t.contenders, e.who)
	if len(e.Series) == 0 {
		t.outcome(e.cell, e)
	}
	for _, x := range e.Series {
		m := x.Metric
		name := e.cell
		if len(t.units[cellMetric{cell: name, metric: m.Name}]) > 1 {
			name = strings.TrimSpace(name + " [" + m.Unit + "]")
		}
		if group, ok := t.groups[e.cell]; ok {
			t.groups[name] = group
		}
		t.outcome(name, e).values += len(x.Values)
		if x.Stats != nil {
			t.outcome(name, e).values++
		}
		key := cellMetric{name, m.Name, m.Unit, m.Better}
		if _, known := t.metrics[key]; !known {
			t.keys = append(t.keys, key)
			t.metrics[key], t.sides[key] = m, map[string]*side{}
		}
		s := t.sides[key][e.who]
		if s == nil {
			s = &side{}
			t.sides[key][e.who] = s
		}
		s.series = append(s.series, x)
		s.records = append(s.records, e.placed)
	}
	t.noteFacts(e.who, e.Facts)
	switch {
	case len(t.contenders) > maxContenders:
		return fault.New(fault.Invalid, "%s:%d: more than %d contenders; choose another label with --contender", path, e.Line,
			maxContenders)
	case len(t.keys) > maxMetrics || len(t.cells) > maxMetrics:
		return fault.New(fault.Invalid, "%s:%d: more than %d metrics of cells; write the results into several files, and "+
			"compare one after the other", path, e.Line, maxMetrics)
	}
	return nil
}

// outcome returns the outcome of a record's contender in a cell, to which it adds the
// record's failures once.
func (t *table) outcome(name string, e entry) *outcome {
	c := t.cells[name]
	if c == nil {
		c = &cell{name: name, sides: map[string]*outcome{}}
		t.cells[name] = c
		t.order = append(t.order, c)
	}
	o := c.sides[e.who]
	if o == nil {
		o = &outcome{sources: map[int]bool{}}
		c.sides[e.who] = o
	}
	o.sources[e.source] = true
	if at := (position{e.source, e.Line, e.Turn}); e.Failed > 0 && !slices.Contains(o.counted, at) {
		o.counted = append(o.counted, at)
		o.failed += e.Failed
		o.reason = cmp.Or(e.Reason, o.reason)
	}
	return o
}

// poolValues puts the values of each side together. If a record of a metric has statistics
// instead of values, every record of the metric counts as one value.
func (t *table) poolValues() {
	for _, key := range t.keys {
		stats := false
		median := true
		for _, s := range t.sides[key] {
			for _, x := range s.series {
				if x.Stats != nil {
					stats = true
					median = median && x.Stats.Median != nil
				}
			}
		}
		for _, s := range t.sides[key] {
			s.ofStats, s.mean = stats, stats && !median
			for _, x := range s.series {
				switch {
				case !stats:
					s.values = append(s.values, x.Values...)
				case len(x.Values) > 0 || x.Stats != nil:
					if v := centerOf(x, median); v != nil {
						s.values = append(s.values, *v)
					}
				}
			}
			if slices.ContainsFunc(s.series, func(x format.Series) bool { return x.TooFast }) {
				s.values = nil
			}
		}
	}
}

// centerOf is the median or the mean of a series; nil if it is unknown.
func centerOf(x format.Series, median bool) *float64 {
	switch {
	case x.Stats != nil && median:
		return x.Stats.Median
	case x.Stats != nil:
		return x.Stats.Mean // a median is not compared with means
	case median:
		return sample.Finite(stats.Median(slices.Sorted(slices.Values(x.Values))))
	}
	sum := lists.Sum(x.Values, func(v float64) float64 { return v })
	return sample.Finite(sum / float64(len(x.Values)))
}

// noteFacts keeps facts that may differ between contenders.
func (t *table) noteFacts(who string, facts map[string]string) {
	for k, v := range facts {
		if k == t.by {
			continue
		}
		lists.Inner(lists.Inner(t.facts, k), who)[v] = true
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
	measured := func(x format.Series) bool { return !x.TooFast }
	if !slices.ContainsFunc(t.contenders, func(who string) bool {
		return t.sides[key][who] != nil && slices.ContainsFunc(t.sides[key][who].series, measured)
	}) {
		return
	}
	for _, who := range t.contenders {
		s := t.sides[key][who]
		if s == nil {
			continue
		}
		if len(s.values) > 0 {
			there = append(there, who)
		}
		sum := Summary{Contender: who, Cell: key.cell, Group: t.groups[key.cell], Metric: m.Name, Unit: m.Unit,
			Better: m.Better, N: len(s.values), Failures: t.failures(key.cell, who)}
		if s.ofStats && len(s.series) == 1 {
			if sum.Stats = s.series[0].Stats; sum.Stats == nil && len(s.values) == 1 {
				n := len(s.series[0].Values)
				sum.Stats = &format.Stats{N: &n}
				if s.mean {
					sum.Stats.Mean = &s.values[0]
				} else {
					sum.Stats.Median = &s.values[0]
				}
			}
		}
		if !s.mean || len(s.values) > 1 {
			e := stats.MedianInterval(s.values, Level)
			sum.Median, sum.CI = sample.Finite(e.Value), Interval{sample.Finite(e.Lo), sample.Finite(e.Hi)}
		}
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
			r.Comparisons = append(r.Comparisons, t.comparePair(key, who, baseline))
		}
	}
}

// comparePair compares two contenders.
func (t *table) comparePair(key cellMetric, who, baseline string) Comparison {
	m := t.metrics[key]
	a, b := t.sides[key][baseline], t.sides[key][who]
	c := Comparison{Contender: who, Baseline: baseline, Cell: key.cell, Group: t.groups[key.cell], Metric: m.Name,
		Unit: m.Unit, Better: m.Better, Scale: m.Scale, N: [2]int{len(b.values), len(a.values)},
		Failures: [2]int{t.failures(key.cell, who), t.failures(key.cell, baseline)},
		Order:    t.sequence(a.records, b.records), Verdict: NotInterleaved}
	if hasZero(a.values) || hasZero(b.values) {
		c.Scale = sample.Difference
	}
	base := stats.SerialCenter(scaledValues(a.values, c.Scale), Level)
	own := stats.SerialCenter(scaledValues(b.values, c.Scale), Level)
	shift, below, above := base.To(own)
	c.Effective = [2]float64{own.Effective, base.Effective}
	c.Ratio = analysis.Shown(shift, c.Scale)
	c.CI = Interval{analysis.Shown(shift-below, c.Scale), analysis.Shown(shift+above, c.Scale)}
	few := min(len(a.values), len(b.values))
	switch noInterval := len(base.Warnings)+len(own.Warnings) > 0; {
	case noInterval && a.ofStats:
		c.Warnings = append(c.Warnings, fmt.Sprintf("No interval: a file gives statistics instead of single values, so the "+
			"difference is that of the %s.", map[bool]string{true: "means", false: "medians"}[a.mean]))
	case noInterval:
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

// scaledValues returns values on the scale on which differences are taken.
func scaledValues(vs []float64, scale sample.Scale) []float64 {
	out := slices.Clone(vs)
	if scale != sample.Difference {
		for i := range out {
			out[i] = math.Log(out[i])
		}
	}
	return out
}

// lacking lists the metrics that other contenders have values of, but not who. keys are those
// of one cell. opposed is whether who has values of one of them, with another direction.
func (t *table) lacking(keys []cellMetric, who string) (out []string, opposed bool) {
	has := func(key cellMetric, who string) bool {
		s := t.sides[key][who]
		return s != nil && len(s.values) > 0
	}
	for _, key := range keys {
		if has(key, who) || !slices.ContainsFunc(t.contenders, func(c string) bool { return has(key, c) }) {
			continue
		}
		name := key.metric
		if slices.ContainsFunc(keys, func(k cellMetric) bool { return k.metric == key.metric && has(k, who) }) {
			opposed = true
			direction := " without a direction"
			if key.better != "" {
				direction = fmt.Sprintf(" with %s as better", key.better)
			}
			name += direction
		}
		out = lists.AddNew(out, name)
	}
	return out, opposed
}

// missing lists the cells in which a contender has no value, or no value of a metric.
func (t *table) missing(r *Result) {
	expected := t.by != t.doc.By || t.doc.Complete
	keys := map[string][]cellMetric{}
	for _, key := range t.keys {
		keys[key.cell] = append(keys[key.cell], key)
	}
	for _, c := range t.order {
		for _, who := range t.contenders {
			o, reason := c.sides[who], ""
			switch {
			case o != nil && o.values > 0:
				lacks, opposed := t.lacking(keys[c.name], who)
				if len(lacks) == 0 || !expected && !opposed {
					continue
				}
				reason = "no file has a value of " + strings.Join(lacks, ", ")
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

// lackingFiles warns about files without a result that other files of their contender have, unless they have no result
// in common: then they are the parts of one run.
func (t *table) lackingFiles(sources []Source) (out []string) {
	for _, who := range t.contenders {
		files := map[string]map[int]bool{} // that have a result in a cell
		var cells []string
		shares := map[int]bool{}
		for _, c := range t.order {
			o := c.sides[who]
			if o == nil {
				continue
			}
			files[c.name], cells = o.sources, append(cells, c.name)
			for i := range o.sources {
				shares[i] = shares[i] || len(o.sources) > 1
			}
		}
		for i, s := range sources {
			lacks := lists.Filter(cells, func(cell string) bool { return !files[cell][i] })
			if !shares[i] || len(lacks) == 0 {
				continue
			}
			text := cmp.Or(lacks[0], "what was measured")
			if more := len(lacks) - 1; more > 0 {
				text += " and " + unit.Count(more, "other cell")
			}
			out = append(out, fmt.Sprintf("%s has no result of %s, which another file of %s has. The run may be incomplete.",
				s.Path, text, who))
		}
	}
	const most = 5
	if more := len(out) - most; more > 0 {
		out = append(out[:most], fmt.Sprintf("%s have fewer results than others of their contender, too.",
			unit.Count(more, "more file")))
	}
	return out
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

func quoteAll(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strconv.Quote(n)
	}
	return strings.Join(out, ", ")
}
