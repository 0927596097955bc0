// Package pytest reads what pytest-benchmark writes with --benchmark-json.
package pytest

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/lazy"
	"bakeoff/base/sample"
	"bakeoff/judge/format"
)

type pytest struct{}

// New returns the format.
func New() format.Format { return pytest{} }

func (pytest) Doc() format.Doc {
	return format.Doc{
		Name:    "pytest",
		Program: "pytest --benchmark-json=FILE (pytest-benchmark)",
		By:      "test",
		Labels: []format.LabelDoc{
			{Name: "group", Doc: "group of the test, from pytest.mark.benchmark"},
			{Name: "test", Doc: "name of the test, with its parameters"},
		},
		Parts: "function, parameters of pytest.mark.parametrize, and values of extra_info",
		Order: "pytest-benchmark runs all rounds of a test before it starts the next test, and all tests in one process. " +
			"The time of a round is the mean of its iterations.",
		InOrder: true,
		Summaries: []format.Summary{
			{What: "the text of pytest", Head: lazy.Compile(`(?m)^Name \(time in .*\) +Min `)},
			{What: "the CSV of pytest-benchmark", Head: lazy.Compile(`^name,(?:[\w:]+,)*min,max,mean,`)},
		},
		Source: []string{"https://pytest-benchmark.readthedocs.io/en/latest/usage.html"},
	}
}

func (pytest) Recognizes(head []byte) bool {
	paths := format.Paths(format.TrimMark(head))
	return slices.Contains(paths, "benchmarks.options.disable_gc") || slices.Contains(paths, "machine_info") &&
		(slices.Contains(paths, "machine_info.python_version") || slices.Contains(paths, "benchmarks"))
}

// benchmark is the part of a benchmark that is read.
type benchmark struct {
	Group    *string                    `json:"group"`
	Name     string                     `json:"name"`
	FullName string                     `json:"fullname"`
	Params   map[string]json.RawMessage `json:"params"`
	Extra    map[string]json.RawMessage `json:"extra_info"`
	Options  map[string]json.RawMessage `json:"options"`
	Stats    *struct {
		Data   []*float64 `json:"data"`
		Rounds *float64   `json:"rounds"`
		Mean   *float64   `json:"mean"`
		Median *float64   `json:"median"`
		Stddev *float64   `json:"stddev"`
		Min    *float64   `json:"min"`
		Max    *float64   `json:"max"`
	} `json:"stats"`
}

// machine and commit are the facts that are read of both.
type machine struct {
	Node    string `json:"node"`
	Python  string `json:"python_version"`
	Kind    string `json:"python_implementation"`
	Release string `json:"release"`
	System  string `json:"system"`
	CPU     struct {
		Brand string `json:"brand_raw"`
	} `json:"cpu"`
}

type commit struct {
	ID    string `json:"id"`
	Dirty bool   `json:"dirty"`
}

// report is what is read of a file, besides its records.
type report struct {
	machine machine
	commit  commit
	version string
	when    time.Time
}

var seconds = sample.LowerRatio("time", "s", "wall time of an iteration")

func (pytest) Read(name string, data []byte) (format.File, error) {
	var out format.File
	p := format.NewProblems(name)
	d := p.OpenDocument(data)
	var r report
	found := false
	err := d.Object("the file", func(key string) error {
		if key != "benchmarks" {
			return r.readMember(d, key)
		}
		found = true
		return d.Array(key, func() error {
			line := d.Line()
			var b benchmark
			if err := d.Value(&b); err != nil {
				p.LeaveOutError(err)
				return nil
			}
			if b.Stats != nil && len(b.Stats.Data) == 0 {
				p.WarnNulls(d, line, cmp.Or(b.FullName, b.Name), "stats.mean", "stats.median")
			}
			addBenchmark(&out, p, line, b)
			return nil
		})
	})
	switch {
	case err != nil:
		p.AddError(err)
	case !found || len(out.Records) == 0 && !p.AnyLeftOut():
		p.Add(1, "the file has no benchmarks; write it with pytest --benchmark-json")
	}
	r.fillFile(&out)
	p.Distinguish(&out, "test")
	return p.Finish(out)
}

// readMember reads a member other than the benchmarks. It forgets one that has another
// form than expected: no number depends on it.
func (r *report) readMember(d *format.Document, key string) error {
	var raw json.RawMessage
	if err := d.Value(&raw); err != nil {
		return err
	}
	var when string
	into := map[string]any{"machine_info": &r.machine, "commit_info": &r.commit, "version": &r.version,
		"datetime": &when}[key]
	if into == nil || json.Unmarshal(raw, into) != nil {
		return nil
	}
	// Old versions write no zone.
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(layout, when); err == nil {
			r.when = t
		}
	}
	return nil
}

// fillFile gives the records what holds for the whole file.
func (r *report) fillFile(out *format.File) {
	out.Program = strings.TrimSpace("pytest-benchmark " + r.version)
	facts := map[string]string{}
	for k, v := range map[string]string{"program": out.Program, "node": r.machine.Node,
		"python":  strings.TrimSpace(r.machine.Kind + " " + r.machine.Python),
		"system":  strings.TrimSpace(r.machine.System + " " + r.machine.Release),
		"cpu":     r.machine.CPU.Brand,
		"commit":  r.commit.ID,
		"changed": map[bool]string{true: "files differ from the commit"}[r.commit.Dirty],
	} {
		if v != "" {
			facts[k] = v
		}
	}
	for i := range out.Records {
		rec := &out.Records[i]
		rec.When = r.when
		maps.Copy(rec.Facts, facts)
	}
}

// addBenchmark keeps one benchmark.
func addBenchmark(out *format.File, p *format.Problems, line int, b benchmark) {
	name := cmp.Or(b.FullName, b.Name)
	switch {
	case name == "" || b.Stats == nil:
		p.LeaveOut(line, "the benchmark has no name or no stats; it needs both")
		return
	case len(b.Stats.Data) == 0 && b.Stats.Rounds != nil && *b.Stats.Rounds == 0:
		p.LeaveOut(line, "%q ran 0 rounds", name)
		return
	case len(b.Stats.Data) == 0 && b.Stats.Mean == nil && b.Stats.Median == nil:
		p.LeaveOut(line, "%q has no times, no mean and no median; write it with --benchmark-json", name)
		return
	}
	series := format.Series{Metric: seconds}
	bad := 0
	for _, t := range b.Stats.Data {
		if t == nil || *t < 0 {
			bad++
			continue
		}
		series.Values = append(series.Values, *t)
	}
	switch {
	case bad > 0:
		p.LeaveOut(line, "%q: %d of %d times are negative or not numbers", name, bad, len(b.Stats.Data))
		if len(series.Values) == 0 {
			return
		}
	case len(b.Stats.Data) == 0:
		series.Stats = &format.Stats{Mean: b.Stats.Mean, Median: b.Stats.Median, Stddev: b.Stats.Stddev, Min: b.Stats.Min,
			Max: b.Stats.Max}
		if n := b.Stats.Rounds; n != nil && *n >= 1 && *n < 1e15 {
			rounds := int(*n)
			series.Stats.N = &rounds
		}
	}
	if n := b.Stats.Rounds; n != nil && len(b.Stats.Data) > 0 {
		p.Compare(line, "rounds of "+strconv.Quote(name), *n, float64(len(b.Stats.Data)), 0.5, "the number of its times",
			"the times")
	}
	if s := b.Stats; bad == 0 {
		p.CompareStats(out, line, strconv.Quote(name), format.Stats{Mean: s.Mean, Median: s.Median, Min: s.Min, Max: s.Max},
			series.Values)
	}
	group := format.Label{Name: "group", Setting: true}
	if b.Group != nil {
		group.Value, group.Shown = *b.Group, "group="+*b.Group
	}
	rec := format.Record{Line: line, Turn: len(out.Records), Series: []format.Series{series},
		Labels: []format.Label{group, testLabel(name, b)}}
	rec.Facts = map[string]string{}
	for k, v := range b.Options {
		rec.Facts[format.OptionFact+k] = format.Text(v)
	}
	for k, v := range b.Extra {
		if strings.IndexByte("{[n", v[0]) < 0 { // what can be compared
			rec.Facts[k] = format.Text(v)
		}
	}
	out.Records = append(out.Records, rec)
}

// testLabel is the label of a test: its full name, because tests of two files may have the
// same name.
func testLabel(full string, b benchmark) format.Label {
	l := format.Label{Name: "test", Value: full, Short: b.Name}
	if len(b.Params) == 0 {
		return l
	}
	function := func(name string) string {
		before, _, _ := strings.Cut(name, "[")
		return before
	}
	l.Parts = []format.Label{{Name: "function", Value: function(full), Short: function(b.Name)}}
	for _, k := range slices.Sorted(maps.Keys(b.Params)) {
		v := format.Text(b.Params[k])
		if string(b.Params[k]) == "null" {
			v = "None"
		}
		l.Parts = append(l.Parts, format.Label{Name: k, Value: v, Shown: k + "=" + v})
	}
	return l
}
