// Package asv reads the result files of asv (airspeed velocity):
// results/MACHINE/COMMIT-ENVIRONMENT.json, versions 1 and 2.
package asv

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/lazy"
	"bakeoff/base/sample"
	"bakeoff/judge/format"
)

type asv struct{}

// New returns the format.
func New() format.Format { return asv{} }

func (asv) Doc() format.Doc {
	return format.Doc{
		Name:    "asv",
		Program: "asv run --record-samples; results/MACHINE/COMMIT-ENVIRONMENT.json",
		Labels:  []format.LabelDoc{{Name: "benchmark", Doc: "name of the benchmark, with its module and class"}},
		Parts:   "param1, param2 … for the parameters, because the file does not contain their names",
		Order: "asv runs a benchmark with all of its parameters in one or more rounds of processes before it starts the " +
			"next one. A file is one commit in one environment. Without --record-samples, the file has only statistics and no " +
			"single values.",
		Summaries: []format.Summary{
			{What: "the text of asv", Head: lazy.Compile(
				`(?m)^\| Change +\| Before |^·+ (?:Discovering benchmarks|Running \d+ total)`)},
		},
		Source: []string{"https://asv.readthedocs.io/en/stable/dev.html (results files)"},
	}
}

func (asv) Recognizes(head []byte) bool {
	paths := format.Paths(format.TrimMark(head))
	has := func(path string) bool { return slices.Contains(paths, path) }
	return has("commit_hash") && (has("result_columns") || has("env_name") || has("requirements"))
}

// versions of the format that are read.
const newest = 2

// report is what is read of a file.
type report struct {
	Commit  string            `json:"commit_hash"`
	Env     string            `json:"env_name"`
	Python  string            `json:"python"`
	Params  map[string]any    `json:"params"`
	Vars    map[string]string `json:"env_vars"`
	Columns []string          `json:"result_columns"`
	Version *float64          `json:"version"`
	// Versions are those of the benchmarks in version 1 of the format.
	Versions map[string]*text `json:"benchmark_version"`
}

// entry is a benchmark that was not taken apart yet.
type entry struct {
	name  string
	line  int
	value json.RawMessage
}

func (asv) Read(name string, data []byte) (format.File, error) {
	out := format.File{Program: "asv"}
	p := format.NewProblems(name)
	d := p.OpenDocument(data)
	var r report
	var entries []entry
	err := d.Object("the file", func(key string) error {
		switch key {
		case "results":
			return d.Object(key, func(name string) error {
				e := entry{name: name, line: d.Line()}
				err := d.Value(&e.value)
				entries = append(entries, e)
				return err
			})
		case "commit_hash", "env_name", "python", "params", "env_vars", "result_columns", "version", "benchmark_version":
			line := d.Line()
			var raw json.RawMessage
			if err := d.Value(&raw); err != nil {
				return err
			}
			if err := json.Unmarshal(fmt.Appendf(nil, "{%q:%s}", key, raw), &r); err != nil {
				return format.AtLine(line, "%s", format.JSONError(err))
			}
			return nil
		}
		return d.Skip()
	})
	switch {
	case err != nil:
		p.AddError(err)
		return out, p.Err()
	case r.Version == nil || *r.Version != 1 && *r.Version != newest:
		found := "no version"
		if r.Version != nil {
			found = fmt.Sprintf("version %g", *r.Version)
		}
		p.Add(1, "the file has %s of asv's results; bakeoff reads versions 1 and %d", found, newest)
		return out, p.Err()
	case len(entries) == 0:
		p.Add(1, "the file has no results; write it with asv run --record-samples")
	}
	skipped := skippedResults(format.TrimMark(data), r.Columns)
	for _, e := range entries {
		b, err := r.benchmark(e.value)
		if err != nil {
			p.LeaveOut(e.line, "%q: %s", e.name, format.JSONError(err))
			continue
		}
		b.skipped = skipped[e.name]
		r.addBenchmark(&out, p, e, b)
	}
	p.Distinguish(&out, "benchmark")
	return p.Finish(out)
}

// benchmark is a benchmark with the columns that are read, one value per combination
// of parameters. Values that do not exist are null.
type benchmark struct {
	Result  []*float64       `json:"result"`
	Params  [][]text         `json:"params"`
	Version *text            `json:"version"`    // of its code
	Started *float64         `json:"started_at"` // ms
	Samples [][]*float64     `json:"samples"`
	Repeat  []*float64       `json:"stats_repeat"`
	Stats   []*statsVersion1 `json:"stats"`
	failed  bool             // with all parameters, so that Result is null
	skipped []bool           // which elements of Result stand for a benchmark that was skipped
}

// text is a string, or another JSON value.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(value []byte) error {
	*t = text(format.Text(value))
	return nil
}

// statsVersion1 are statistics in version 1 of the format.
type statsVersion1 struct {
	Repeat *float64 `json:"repeat"`
}

// benchmark takes a result apart. Version 2 has a row of columns, which ends after the
// last one with a value; version 1 has an object, or a number alone.
func (r report) benchmark(value json.RawMessage) (b benchmark, err error) {
	var one *float64
	if *r.Version == 1 && json.Unmarshal(value, &one) == nil {
		return benchmark{Result: []*float64{one}}, nil
	}
	object := map[string]json.RawMessage{}
	if *r.Version == 1 {
		if err := json.Unmarshal(value, &object); err != nil {
			return b, err
		}
	} else {
		var row []json.RawMessage
		if err := json.Unmarshal(value, &row); err != nil {
			return b, err
		}
		if len(row) > len(r.Columns) {
			return b, fmt.Errorf("the row has %d columns, but result_columns names %d", len(row), len(r.Columns))
		}
		for i, x := range row {
			object[r.Columns[i]] = x
		}
	}
	b.failed = string(object["result"]) == "null"
	all, err := json.Marshal(object)
	if err != nil {
		return b, err
	}
	return b, json.Unmarshal(all, &b)
}

// maxCombinations bounds the combinations of parameters of a benchmark.
const maxCombinations = 100_000

// addBenchmark keeps a benchmark: one record for each combination of parameters.
func (r report) addBenchmark(out *format.File, p *format.Problems, e entry, b benchmark) {
	n := 1
	for _, values := range b.Params {
		if n *= len(values); n > maxCombinations {
			break
		}
	}
	switch {
	case b.failed && n > 0 && n <= maxCombinations:
		b.Result = make([]*float64, n)
	case b.Result == nil:
		p.LeaveOut(e.line, "%q has no result", e.name)
		return
	case n != len(b.Result):
		p.LeaveOut(e.line, "%q has %d results for %d combinations of parameters", e.name, len(b.Result), n)
		return
	}
	m := metricNamed(e.name)
	facts := r.machineFacts()
	skipped := 0
	for i, result := range b.Result {
		if i < len(b.skipped) && b.skipped[i] {
			skipped++
			continue
		}
		rec := format.Record{Line: e.line, Turn: len(out.Records), Facts: facts,
			Labels: append([]format.Label{r.label(e.name, b)}, combination(b.Params, i)...)}
		if b.Started != nil {
			rec.When = time.UnixMilli(int64(*b.Started))
		}
		s := format.Series{Metric: m}
		if i < len(b.Samples) {
			bad := 0
			for _, v := range b.Samples[i] {
				if v == nil {
					bad++
					continue
				}
				s.Values = append(s.Values, *v)
			}
			if bad > 0 {
				p.LeaveOut(e.line, "%d samples of %q are not numbers", bad, e.name)
			}
		}
		switch {
		case result == nil && len(s.Values) == 0:
			rec.Failed, rec.Reason = 1, "the benchmark failed"
		case len(s.Values) > 0:
			rec.Series = []format.Series{s}
			p.CompareStats(out, e.line, strconv.Quote(e.name), format.Stats{Median: result}, s.Values)
		case m.Name != "time" && elementOrNil(b.Repeat, i) == nil && elementOrNil(b.Stats, i) == nil:
			s.Values = []float64{*result} // one value, such as that of track_
			rec.Series = []format.Series{s}
		default:
			s.Stats = &format.Stats{Median: result, N: b.repeats(i)}
			rec.Series = []format.Series{s}
		}
		out.Records = append(out.Records, rec)
	}
	switch {
	case skipped > 0 && n == 1:
		p.LeaveOut(e.line, "%q was skipped", e.name)
	case skipped > 0:
		p.LeaveOut(e.line, "%q was skipped with %d of its %d combinations of parameters", e.name, skipped, n)
	}
}

// codeHash is the version of a benchmark that asv computes from its code.
var codeHash = lazy.Compile(`^([0-9a-f]{12})[0-9a-f]{52}$`)

// label names a benchmark. Results of different versions of its code are results of different benchmarks, as in asv.
func (r report) label(name string, b benchmark) format.Label {
	known := cmp.Or(b.Version, r.Versions[name])
	if known == nil {
		return format.Label{Name: "benchmark", Value: name}
	}
	version := string(*known)
	if m := codeHash.FindStringSubmatch(version); m != nil {
		version = m[1]
	}
	return format.Label{Name: "benchmark", Value: fmt.Sprintf("%s (version %s)", name, version), Short: name}
}

// elementOrNil returns element i, or nil.
func elementOrNil[T any](all []*T, i int) *T {
	if i < len(all) {
		return all[i]
	}
	return nil
}

// repeats is the number of samples of which a result is the median.
func (b benchmark) repeats(i int) *int {
	v := elementOrNil(b.Repeat, i)
	if s := elementOrNil(b.Stats, i); v == nil && s != nil {
		v = s.Repeat
	}
	if v == nil || *v < 1 || *v > 1e9 {
		return nil
	}
	n := int(*v)
	return &n
}

// combination are the labels of combination i of the product of all parameters; the
// last one changes first.
func combination(params [][]text, i int) []format.Label {
	out := make([]format.Label, len(params))
	for k := len(params) - 1; k >= 0; k-- {
		values := params[k]
		out[k] = format.Label{Name: "param" + strconv.Itoa(k+1), Value: string(values[i%len(values)])}
		i /= len(values)
	}
	return out
}

// metricNamed is what a benchmark measures, by the beginning of its name.
func metricNamed(name string) sample.Metric {
	last := name[strings.LastIndexByte(name, '.')+1:]
	kind, _, _ := strings.Cut(strings.ToLower(last), "_")
	switch {
	case strings.HasPrefix(kind, "timeraw"), strings.HasPrefix(kind, "time"):
		return sample.LowerRatio("time", "s", "time of a call")
	case strings.HasPrefix(kind, "peakmem"):
		return sample.LowerRatio("peak-memory", "B", "highest resident memory of the process")
	case strings.HasPrefix(kind, "mem"):
		return sample.LowerRatio("memory", "B", "size of the object that the benchmark returns")
	}
	return sample.Metric{Name: "result", Scale: sample.Ratio} // its unit is in benchmarks.json
}

// machineFacts are what the file says about the machine and the commit.
func (r report) machineFacts() map[string]string {
	facts := map[string]string{}
	for k, v := range r.Params {
		facts[k] = fmt.Sprint(v)
	}
	for k, v := range r.Vars {
		facts["env "+k] = v
	}
	for k, v := range map[string]string{"commit": r.Commit, "environment": r.Env, "python": r.Python} {
		if v != "" {
			facts[k] = v
		}
	}
	return facts
}
