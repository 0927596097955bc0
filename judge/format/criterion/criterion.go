// Package criterion reads what Criterion.rs writes: sample.json and estimates.json of
// target/criterion, the messages of cargo criterion, and the text of cargo bench.
package criterion

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"bakeoff/base/labeled"
	"bakeoff/base/lazy"
	"bakeoff/base/sample"
	"bakeoff/judge/format"
)

type criterion struct{}

// New returns the format.
func New() format.Format { return criterion{} }

func (criterion) Doc() format.Doc {
	return format.Doc{
		Name: "criterion",
		Program: "Criterion.rs: target/criterion/**/sample.json or estimates.json, cargo criterion --message-format=json, " +
			"or the text of cargo bench",
		Labels: []format.LabelDoc{
			{Name: "benchmark", Doc: "group, function and parameter"},
			{Name: "saved", Doc: "name of --save-baseline, or new or base: the folder of a sample.json or estimates.json"},
		},
		Order: "Criterion.rs takes all samples of a benchmark before it starts the next one, in one process. A value is " +
			"the mean of the iterations of a sample. Text and estimates.json have estimates and no single values.",
		InOrder: true,
		Summaries: []format.Summary{{What: "the text of Rust's own benchmarks", Fix: "use Criterion.rs, or make a table of " +
			"the numbers as bakeoff analyse --help shows", Head: lazy.Compile(`(?m)^test .+ \.\.\. bench: +[\d,.]+ ns/iter`)}},
		Source: []string{"https://bheisler.github.io/criterion.rs/book/",
			"https://bheisler.github.io/criterion.rs/book/cargo_criterion/external_tools.html"},
	}
}

// kinds are the forms of output.
var (
	messageLine = lazy.Compile(`(?m)^\{ ?"reason": ?"(?:benchmark|group)-complete",`)
	timeLine    = lazy.Compile(`^(\S.*?)?\s+time:\s+\[(\S+) (\S+) (\S+) (\S+) (\S+) (\S+)\]\s*$`)
)

func isSample(paths []string) bool {
	return slices.Contains(paths, "iters") && slices.Contains(paths, "sampling_mode")
}

func isEstimates(paths []string) bool {
	return slices.Contains(paths, "mean.point_estimate") && slices.Contains(paths, "mean.confidence_interval")
}

func (criterion) Recognizes(head []byte) bool {
	head = format.TrimMark(head)
	paths := format.Paths(head)
	if isSample(paths) || isEstimates(paths) || messageLine.Match(head) {
		return true
	}
	for line := range bytes.Lines(head) {
		if m := timeLine.FindSubmatch(overwritten(line)); m != nil && isTime(string(m[3])) {
			return true
		}
	}
	return false
}

// seconds are the units of Criterion's times.
var seconds = map[string]float64{"ps": 1e-12, "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1}

func isTime(unit string) bool { return seconds[unit] > 0 }

var time = sample.LowerRatio("time", "s", "time of an iteration")

func (criterion) Read(name string, data []byte) (format.File, error) {
	r := reader{p: format.NewProblems(name), name: name}
	r.out.Program = "Criterion.rs"
	data = format.TrimMark(data)
	paths := format.Paths(data)
	switch {
	case messageLine.Match(data):
		r.out.Program = "cargo criterion"
		r.messages(data)
	case isSample(paths), isEstimates(paths):
		r.readJSONFile(data, isSample(paths))
	default:
		r.readPrinted(data)
	}
	r.p.Distinguish(&r.out, "benchmark")
	return r.p.Finish(r.out)
}

// reader reads one file.
type reader struct {
	out  format.File
	p    *format.Problems
	name string
}

// addBenchmark keeps a benchmark.
func (r *reader) addBenchmark(line int, id, saved string, s format.Series) {
	labels := []format.Label{{Name: "benchmark", Value: id}}
	if saved != "" {
		labels = append(labels, format.Label{Name: "saved", Value: saved, Shown: "saved=" + saved, Setting: true})
	}
	r.out.Records = append(r.out.Records,
		format.Record{Line: line, Turn: len(r.out.Records), Labels: labels, Series: []format.Series{s}})
}

// readJSONFile reads a sample.json or an estimates.json. Both have no name: it is that of their
// folder, target/criterion/GROUP/FUNCTION/PARAMETER/SAVED.
func (r *reader) readJSONFile(data []byte, isSample bool) {
	d := r.p.OpenDocument(data)
	line := d.Line()
	var x struct {
		Iterations []*float64 `json:"iters"`
		Times      []*float64 `json:"times"`
		Mean       *estimate  `json:"mean"`
		Median     *estimate  `json:"median"`
		Stddev     *estimate  `json:"std_dev"`
		Deviation  *estimate  `json:"median_abs_dev"`
	}
	if err := d.Value(&x); err != nil {
		r.p.AddError(err)
		return
	}
	id, saved := benchmarkOfPath(r.name)
	if isSample {
		r.addSamples(line, id, saved, x.Iterations, x.Times, "ns")
		return
	}
	if x.Stddev == nil && x.Deviation == nil {
		r.p.LeaveOut(line, "the estimates of %q are changes relative to an earlier run (folder change) and no times; use "+
			"the folders new and base", id)
		return
	}
	r.p.WarnNulls(d, line, id, "mean.point_estimate", "median.point_estimate")
	s := &format.Stats{Mean: x.Mean.seconds(), Median: x.Median.seconds(), Stddev: x.Stddev.seconds()}
	if s.Mean == nil && s.Median == nil {
		r.p.Add(line, "neither mean nor median has a point_estimate")
		return
	}
	r.addBenchmark(line, id, saved, format.Series{Metric: time, Stats: s})
}

// benchmarkOfPath is the name of a benchmark and of its baseline by the path of a file.
func benchmarkOfPath(path string) (id, saved string) {
	parts := strings.Split(filepath.ToSlash(filepath.Dir(path)), "/")
	saved = parts[len(parts)-1]
	parts = parts[:len(parts)-1]
	target := slices.Contains(parts, "target")
	for i := len(parts) - 1; i >= 0; i-- {
		// A folder above target, or a group of benchmarks, may have the name, too.
		if parts[i] == "criterion" && (!target || i > 0 && parts[i-1] == "target") {
			parts = parts[i+1:]
			break
		}
	}
	if len(parts) == 0 || saved == "." || saved == ".." {
		return "benchmark", "" // the file was copied out of its folder
	}
	return strings.Join(parts, "/"), saved
}

// estimate is an estimate in ns.
type estimate struct {
	Point *float64 `json:"point_estimate"`
}

func (e *estimate) seconds() *float64 {
	if e == nil || e.Point == nil {
		return nil
	}
	v := *e.Point * 1e-9
	return &v
}

// addSamples keeps the samples of a benchmark.
func (r *reader) addSamples(line int, id, saved string, iterations, times []*float64, unit string) {
	if !isTime(unit) {
		r.p.LeaveOut(line, "%q was measured in %q; bakeoff reads times", id, unit)
		return
	}
	if len(times) == 0 || len(iterations) != len(times) {
		r.p.LeaveOut(line, "%q has %d numbers of iterations and %d measured values; each sample needs one number and one "+
			"value", id,
			len(iterations), len(times))
		return
	}
	s := format.Series{Metric: time}
	for i, t := range times {
		if n := iterations[i]; t != nil && n != nil && *n > 0 && *t >= 0 {
			if v := *t / *n * seconds[unit]; v-v == 0 {
				s.Values = append(s.Values, v)
			}
		}
	}
	if bad := len(times) - len(s.Values); bad > 0 {
		r.p.LeaveOut(line, "%q: %d of %d samples have no time or no iterations", id, bad, len(times))
	}
	if len(s.Values) > 0 {
		r.addBenchmark(line, id, saved, s)
	}
}

// messages reads the lines of cargo criterion. Other lines are those of cargo and of
// the programs.
func (r *reader) messages(data []byte) {
	line := 0
	for text := range bytes.Lines(data) {
		line++
		if found := messageLine.Find(text); !bytes.Contains(found, []byte("benchmark")) {
			continue
		}
		var m struct {
			ID         string     `json:"id"`
			Iterations []*float64 `json:"iteration_count"`
			Values     []*float64 `json:"measured_values"`
			Unit       string     `json:"unit"`
		}
		if err := json.Unmarshal(text, &m); err != nil {
			r.p.LeaveOut(line, "the message cannot be read: %s", format.JSONError(err))
			continue
		}
		if m.ID == "" {
			r.p.LeaveOut(line, "the message has no id")
			continue
		}
		r.addSamples(line, m.ID, "", m.Iterations, m.Values, m.Unit)
	}
	if len(r.out.Records) == 0 && !r.p.AnyLeftOut() {
		r.p.Add(1, "the file has no message benchmark-complete")
	}
}

// readPrinted reads what cargo bench prints: "NAME  time:   [LOW ESTIMATE HIGH]". A long name
// is on the line before.
func (r *reader) readPrinted(data []byte) {
	line := 0
	before := ""
	for all := range bytes.Lines(data) {
		line++
		text := string(overwritten(all))
		m := timeLine.FindStringSubmatch(text)
		if m == nil || strings.HasSuffix(m[2], "%") {
			before = text
			continue
		}
		id := m[1]
		if id == "" {
			id = strings.TrimSpace(before)
		}
		low, err1 := duration(m[2], m[3])
		v, err2 := duration(m[4], m[5])
		high, err3 := duration(m[6], m[7])
		switch {
		case id == "" || strings.HasSuffix(id, ":"):
			r.p.LeaveOut(line, "the time has no name")
		case err1 != nil || err2 != nil || err3 != nil || !(low <= v && v <= high):
			r.p.LeaveOut(line, "the times of %q cannot be read", id)
		default:
			r.addBenchmark(line, id, "", format.Series{Metric: time, Stats: &format.Stats{Mean: &v}})
		}
	}
	switch {
	case len(r.out.Records) > 0:
		r.out.Warnings = append(r.out.Warnings, "The text has an estimate of each benchmark (of the slope, or the mean) and "+
			"no single values. target/criterion has the values: use sample.json.")
	case !r.p.AnyLeftOut():
		r.p.Add(1, "the file has no times of Criterion.rs; use target/criterion/**/sample.json")
	}
}

// overwritten returns the text of a line that a terminal shows last: Criterion.rs overwrites its progress.
func overwritten(line []byte) []byte {
	line = bytes.TrimRight(line, "\r\n")
	return line[bytes.LastIndexByte(line, '\r')+1:]
}

func duration(number, unit string) (float64, error) {
	v, err := labeled.Decimal(number)
	if err != nil || !isTime(unit) || v < 0 {
		return 0, fmt.Errorf("%s %s is not a time", number, unit)
	}
	return v * seconds[unit], nil
}
