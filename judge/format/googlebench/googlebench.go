// Package googlebench reads what programs with Google Benchmark write as JSON.
package googlebench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"bakeoff/base/lazy"
	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/judge/format"
	"bakeoff/judge/stats"
)

type googlebench struct{}

// New returns the format.
func New() format.Format { return googlebench{} }

func (googlebench) Doc() format.Doc {
	return format.Doc{
		Name:    "google",
		Program: "Google Benchmark, --benchmark_format=json or --benchmark_out=FILE",
		Labels:  []format.LabelDoc{{Name: "benchmark", Doc: "name of the benchmark, without its arguments"}},
		Parts:   "sub1, sub2 … for arguments, or the name of a named argument",
		Order: "Google Benchmark runs all repetitions of a benchmark before it starts the next one, in one process. With " +
			"--benchmark_enable_random_interleaving it mixes the repetitions of all benchmarks. The file does not say whether " +
			"this option was used, so the order is unknown. A value is the mean of the iterations of a repetition.",
		Summaries: []format.Summary{
			{What: "the text of Google Benchmark", Head: lazy.Compile(`(?m)^Benchmark +Time +CPU +Iterations`)},
			{What: "the CSV of Google Benchmark", Head: lazy.Compile(`(?m)^name,iterations,real_time,cpu_time,`)},
		},
		Source: []string{"https://github.com/google/benchmark/blob/main/docs/user_guide.md"},
	}
}

func (googlebench) Recognizes(head []byte) bool {
	paths := format.Paths(format.TrimMark(head))
	return slices.Contains(paths, "context.num_cpus") && slices.Contains(paths, "context.mhz_per_cpu")
}

// context is what is read of the machine and the build.
type context struct {
	Date       string   `json:"date"`
	Host       string   `json:"host_name"`
	Executable string   `json:"executable"`
	CPUs       *float64 `json:"num_cpus"`
	Scaling    *bool    `json:"cpu_scaling_enabled"`
	Build      string   `json:"library_build_type"`
	Version    string   `json:"library_version"`
	Schema     *float64 `json:"json_schema_version"`

	more map[string]string // what newer versions write, and --benchmark_context
}

// contextNames are the members of a context that are read, or that differ between any runs.
var contextNames = []string{"date", "host_name", "executable", "num_cpus", "mhz_per_cpu", "cpu_scaling_enabled",
	"caches", "load_avg", "library_build_type", "library_version", "json_schema_version"}

func (c *context) readMore(raw json.RawMessage) {
	var all map[string]json.RawMessage
	c.more = map[string]string{}
	if json.Unmarshal(raw, &all) != nil {
		return // the caller has warned
	}
	for k, v := range all {
		if !slices.Contains(contextNames, k) && strings.IndexByte("{[n", v[0]) < 0 {
			c.more[k] = format.Text(v)
		}
	}
}

// run is the part of a result that is read.
type run struct {
	Name         string   `json:"name"`
	RunName      string   `json:"run_name"`
	Type         string   `json:"run_type"` // "" before version 1.5
	Aggregate    string   `json:"aggregate_name"`
	Family       *float64 `json:"family_index"`
	Instance     *float64 `json:"per_family_instance_index"`
	Repetitions  *int     `json:"repetitions"`
	Repetition   *float64 `json:"repetition_index"`
	Iterations   *float64 `json:"iterations"`
	Label        string   `json:"label"`
	Unit         string   `json:"time_unit"`
	BigO         *string  `json:"big_o"`
	RMS          *float64 `json:"rms"`
	Error        bool     `json:"error_occurred"`
	ErrorMessage string   `json:"error_message"`
	Skipped      bool     `json:"skipped"`
	SkipMessage  string   `json:"skip_message"`

	line     int
	numbers  map[string]*float64 // all other members that are numbers or null
	unusable []string            // other members
}

// known are the members that are not counters.
var known = map[string]bool{"name": true, "run_name": true, "run_type": true, "aggregate_name": true,
	"aggregate_unit": true, "family_index": true, "per_family_instance_index": true, "repetitions": true,
	"repetition_index": true, "threads": true, "iterations": true, "label": true, "time_unit": true, "big_o": true,
	"rms": true, "error_occurred": true, "error_message": true, "skipped": true, "skip_message": true,
	"cpu_coefficient": true, "real_coefficient": true}

// The metrics that Google Benchmark has.
var metrics = map[string]sample.Metric{
	"real_time":        sample.LowerRatio("time", "s", "wall time of an iteration"),
	"cpu_time":         {Name: "cpu-time", Unit: "s", Better: sample.Lower, Scale: sample.Ratio, CPUTime: true},
	"bytes_per_second": sample.HigherRatio("bytes-per-second", "B/s", "bytes per second of one of these times"),
	"items_per_second": sample.HigherRatio("items-per-second", "item/s", "items per second of one of these times"),
}

var timeUnits = map[string]float64{"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}

func (googlebench) Read(name string, data []byte) (format.File, error) {
	out := format.File{Program: "Google Benchmark"}
	p := format.NewProblems(name)
	d := p.OpenDocument(data)
	var c context
	var runs []run
	err := d.Object("the file", func(key string) error {
		switch key {
		case "context":
			var raw json.RawMessage
			if err := d.Value(&raw); err != nil {
				return err
			}
			if json.Unmarshal(raw, &c) != nil {
				out.Warnings = append(out.Warnings, "The context has members of an unknown kind; facts may be missing.")
			}
			c.readMore(raw)
			return nil
		case "benchmarks":
			return d.Array(key, func() error {
				r := run{line: d.Line()}
				if err := r.readCounters(d); err != nil {
					p.LeaveOutError(err)
				} else {
					runs = append(runs, r)
				}
				return nil
			})
		}
		return d.Skip()
	})
	switch {
	case err != nil:
		p.AddError(err)
		return out, p.Err()
	case c.Schema != nil && *c.Schema != 1:
		p.Add(1, "json_schema_version %g is not supported; bakeoff reads version 1", *c.Schema)
		return out, p.Err()
	case len(runs) == 0 && !p.AnyLeftOut():
		p.Add(1, "the file has no benchmarks; write it with --benchmark_out=FILE --benchmark_out_format=json")
	}
	out.Warnings = append(out.Warnings, c.warnings()...)
	t := table{p: p, out: &out}
	t.addRuns(runs)
	c.fillFile(&out)
	return p.Finish(out)
}

// warnings repeats what Google Benchmark prints about such a machine or build.
func (c context) warnings() (warnings []string) {
	if c.Scaling != nil && *c.Scaling {
		warnings = append(warnings, "The frequency of the CPUs could change during the measurement "+
			"(cpu_scaling_enabled). Set the governor performance: cpupower frequency-set --governor performance")
	}
	if c.Build == "debug" {
		warnings = append(warnings, "The library of Google Benchmark was built for debugging (library_build_type), which "+
			"can make times longer. Build it with CMAKE_BUILD_TYPE=Release.")
	}
	return warnings
}

// readCounters reads a result with its counters, which are members with names of their own.
func (r *run) readCounters(d *format.Document) error {
	var raw map[string]json.RawMessage
	if err := d.Value(&raw); err != nil {
		return err
	}
	text, err := json.Marshal(raw)
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return format.AtLine(r.line, "%q: %s", format.Text(raw["name"]), format.JSONError(err))
	}
	r.numbers = map[string]*float64{}
	for key, value := range raw {
		var n *float64
		switch {
		case known[key]:
		case json.Unmarshal(value, &n) != nil:
			r.unusable = append(r.unusable, key)
		default:
			r.numbers[key] = n
		}
	}
	r.RunName = cmp.Or(r.RunName, r.Name)
	return nil
}

// nameAggregates finds the aggregates of versions before 1.5, in which only the name tells. A benchmark may have such
// a name, too: an aggregate has repetitions beside it, or other aggregates that agree with it.
func nameAggregates(runs []run) {
	count := map[string]int{}
	byBase := map[string]map[string]*run{} // aggregate → result
	for i := range runs {
		r := &runs[i]
		if r.Type != "" {
			continue
		}
		count[r.Name]++
		for _, a := range oldAggregates {
			if base, ok := strings.CutSuffix(r.Name, "_"+a); ok {
				lists.Inner(byBase, base)[a] = r
			}
		}
	}
	for i := range runs {
		r := &runs[i]
		for _, a := range oldAggregates {
			base, ok := strings.CutSuffix(r.Name, "_"+a)
			if ok && r.Type == "" && (count[base] > 1 || agree(byBase[base])) {
				r.Type, r.Aggregate, r.RunName = "aggregate", a, base
			}
		}
	}
}

// oldAggregates are the statistics that versions before 1.5 compute.
var oldAggregates = []string{"mean", "median", "stddev"}

// agree reports whether results can be the aggregates of one benchmark: those before version 1.5 have a mean and a
// standard deviation, and the number of iterations of the benchmark. No mean lies further from the median than the
// standard deviation.
func agree(of map[string]*run) bool {
	mean, stddev := of["mean"], of["stddev"]
	if mean == nil || stddev == nil {
		return false
	}
	for _, r := range of {
		if r.Unit != mean.Unit || (r.Iterations == nil) != (mean.Iterations == nil) ||
			r.Iterations != nil && *r.Iterations != *mean.Iterations {
			return false
		}
	}
	median := of["median"]
	if median == nil { // version 1.0 has none
		return true
	}
	for _, key := range []string{"real_time", "cpu_time"} {
		a, b, most := mean.numbers[key], median.numbers[key], stddev.numbers[key]
		const slack = 1.5 // three numbers, each rounded to a whole number
		if a != nil && b != nil && most != nil && math.Abs(*a-*b) > *most+slack {
			return false
		}
	}
	return true
}

// identity tells benchmarks with equal names apart.
type identity struct {
	name             string
	family, instance float64
}

func (r run) identity() identity {
	id := identity{name: r.RunName}
	if r.Family != nil {
		id.family = *r.Family
	}
	if r.Instance != nil {
		id.instance = *r.Instance
	}
	return id
}

// table makes records of results.
type table struct {
	p   *format.Problems
	out *format.File
}

// group is a benchmark with its repetitions.
type group struct {
	runs, aggregates []run
	suffix           string // tells benchmarks of one name apart
}

func (t *table) addRuns(runs []run) {
	nameAggregates(runs)
	groups := map[identity]*group{}
	var order []identity
	names := map[string]int{}
	for _, r := range runs {
		id := r.identity()
		g := groups[id]
		if g == nil && r.BigO == nil && r.RMS == nil {
			g = &group{}
			groups[id] = g
			order = append(order, id)
			if names[r.RunName]++; names[r.RunName] > 1 {
				g.suffix = fmt.Sprintf(" #%d", names[r.RunName])
				t.p.Warn(r.line, "Another benchmark has the name %q too. They are numbered and not pooled.", r.RunName)
			}
		}
		switch {
		case r.BigO != nil || r.RMS != nil: // the fit of a complexity, not a measurement
		case r.Type == "aggregate":
			g.aggregates = append(g.aggregates, r)
		default:
			g.runs = append(g.runs, r)
		}
	}
	for _, id := range order {
		if g := groups[id]; len(g.runs) > 0 {
			t.repetitions(g)
		} else {
			t.statistics(g)
		}
	}
	t.p.Distinguish(t.out, "benchmark")
}

// repetitions keeps the values of a benchmark. They are repetitions if they have
// different indices, or if the program itself made statistics of them.
func (t *table) repetitions(g *group) {
	t.compare(g)
	seen := map[float64]bool{}
	first := true
	for _, r := range g.runs {
		proven := len(g.aggregates) > 0 && r.Repetition == nil
		if r.Repetition != nil {
			proven = !seen[*r.Repetition]
			seen[*r.Repetition] = true
		}
		rec := t.emptyRecord(r, g.suffix)
		rec.Repeats = proven && !first
		switch {
		case r.Error:
			rec.Failed, rec.Reason = 1, cmp.Or(r.ErrorMessage, "the benchmark reported an error")
		case r.Skipped:
			t.p.LeaveOut(r.line, "%q was skipped: %s", r.RunName, cmp.Or(r.SkipMessage, "no reason is given"))
			continue
		case r.Iterations != nil && *r.Iterations == 0:
			t.p.LeaveOut(r.line, "%q ran 0 times", r.RunName)
			continue
		default:
			rec.Series = t.seriesOf(r, func(m sample.Metric, v float64) format.Series { return format.Single(m, v) })
			if len(rec.Series) == 0 {
				continue
			}
		}
		first = false
		t.out.Records = append(t.out.Records, rec)
	}
}

// maxRounding is how far a mean or median may lie from that of the repetitions, as a share of the largest: the text
// has three digits.
const maxRounding = 0.02

// compare warns of a mean or median that contradicts the repetitions beside it.
func (t *table) compare(g *group) {
	for _, r := range g.aggregates {
		for _, key := range []string{"real_time", "cpu_time"} {
			stated, values := r.numbers[key], []float64(nil)
			for _, one := range g.runs {
				if v := one.numbers[key]; v != nil && one.Unit == r.Unit && !one.Error && !one.Skipped {
					values = append(values, *v)
				}
			}
			if stated == nil || r.Error || len(values) != len(g.runs) || r.Repetitions != nil && *r.Repetitions != len(values) {
				continue
			}
			computed := stats.Median(slices.Sorted(slices.Values(values)))
			switch r.Aggregate {
			case "mean":
				computed = 0
				for _, v := range values {
					computed += v / float64(len(values))
				}
			case "median":
			default:
				continue
			}
			t.p.Compare(r.line, fmt.Sprintf("%s of the %s of %q", key, r.Aggregate, r.RunName), *stated, computed,
				maxRounding*slices.Max(values), "its repetitions", "")
		}
	}
}

// seriesOf makes series of the numbers of a result; times become seconds.
func (t *table) seriesOf(r run, series func(sample.Metric, float64) format.Series) (out []format.Series) {
	factor, ok := timeUnits[r.Unit]
	timed := r.numbers["real_time"] != nil || r.numbers["cpu_time"] != nil
	switch {
	case timed && r.Unit == "":
		t.p.LeaveOut(r.line, "%q has no time_unit, so its times are unknown", r.RunName)
	case !ok && r.Unit != "":
		t.p.LeaveOut(r.line, "%q has times in %q; bakeoff reads ns, us, ms and s", r.RunName, r.Unit)
	}
	if !timed {
		t.p.LeaveOut(r.line, "%q has neither a real_time nor a cpu_time that is a number", r.RunName)
	}
	for _, key := range r.unusable {
		t.p.LeaveOut(r.line, "%s of %q is not a number", key, r.RunName)
	}
	for _, key := range slices.Sorted(maps.Keys(r.numbers)) {
		v := r.numbers[key]
		m, isKnown := metrics[key]
		time := key == "real_time" || key == "cpu_time"
		switch {
		case time && (!ok || !timed):
			continue
		case v == nil:
			t.p.LeaveOut(r.line, "%s of %q is not a number", key, r.RunName)
			continue
		case time && *v < 0:
			t.p.LeaveOut(r.line, "%s of %q is negative", key, r.RunName)
			continue
		case time:
			out = append(out, series(m, *v*factor))
			continue
		case !isKnown:
			m = sample.Metric{Name: key, Scale: sample.Ratio} // its unit and direction are unknown
		}
		if slices.ContainsFunc(out, func(s format.Series) bool { return s.Metric.Name == m.Name }) {
			m.Name += " (counter)"
		}
		out = append(out, series(m, *v))
	}
	return out
}

// statistics keeps a benchmark of which the file has only statistics.
func (t *table) statistics(g *group) {
	byMetric := map[string]*format.Stats{}
	rec := t.emptyRecord(g.aggregates[0], g.suffix)
	for _, r := range g.aggregates {
		if !slices.Contains([]string{"mean", "median", "stddev", "min", "max"}, r.Aggregate) {
			continue // such as cv, and statistics of the program's own
		}
		if r.Error {
			rec.Failed, rec.Reason = 1, cmp.Or(r.ErrorMessage, "the benchmark reported an error")
			break
		}
		for _, s := range t.seriesOf(r, func(m sample.Metric, v float64) format.Series { return format.Single(m, v) }) {
			st := byMetric[s.Metric.Name]
			if st == nil {
				st = &format.Stats{N: r.Repetitions}
				byMetric[s.Metric.Name] = st
				rec.Series = append(rec.Series, format.Series{Metric: s.Metric, Stats: st})
			}
			v := s.Values[0]
			*map[string]**float64{"mean": &st.Mean, "median": &st.Median, "stddev": &st.Stddev, "min": &st.Min,
				"max": &st.Max}[r.Aggregate] = &v
		}
	}
	rec.Series = slices.DeleteFunc(rec.Series, func(s format.Series) bool {
		return s.Stats.Mean == nil && s.Stats.Median == nil
	})
	if len(rec.Series) == 0 && rec.Failed == 0 {
		t.p.LeaveOut(rec.Line, "%q has neither repetitions nor a mean or median", g.aggregates[0].RunName)
		return
	}
	t.out.Records = append(t.out.Records, rec)
}

// emptyRecord returns the record of a result, without its values.
func (t *table) emptyRecord(r run, suffix string) format.Record {
	rec := format.Record{Line: r.line, Turn: len(t.out.Records), Facts: map[string]string{}}
	base, rest, _ := strings.Cut(r.RunName, "/")
	rec.Labels = []format.Label{{Name: "benchmark", Value: base + suffix}}
	if rest != "" {
		for i, part := range strings.Split(rest, "/") {
			k, v, ok := strings.Cut(part, ":")
			if !ok || k == "" || v == "" {
				k, v = fmt.Sprintf("sub%d", i+1), part
			}
			rec.Labels = append(rec.Labels, format.Label{Name: k, Value: v, Shown: cmp.Or(part, `""`)})
		}
	}
	if r.Label != "" {
		rec.Facts["label"] = r.Label
	}
	return rec
}

// fillFile gives the records what holds for the whole file.
func (c context) fillFile(out *format.File) {
	out.Program = strings.TrimSpace(out.Program + " " + c.Version)
	when, _ := time.Parse(time.RFC3339, c.Date) // old versions write no zone
	facts := map[string]string{"program": out.Program, "host": c.Host, "executable": c.Executable, "library": c.Build}
	if c.CPUs != nil {
		facts["cpus"] = fmt.Sprint(*c.CPUs)
	}
	for i := range out.Records {
		rec := &out.Records[i]
		rec.When = when
		maps.Copy(rec.Facts, c.more)
		for k, v := range facts {
			if v != "" {
				rec.Facts[k] = v
			}
		}
	}
}
