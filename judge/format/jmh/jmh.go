// Package jmh reads what JMH (the Java Microbenchmark Harness) writes as JSON.
package jmh

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/base/sample"
	"bakeoff/judge/format"
)

type jmh struct{}

// New returns the format.
func New() format.Format { return jmh{} }

func (jmh) Doc() format.Doc {
	return format.Doc{
		Name:    "jmh",
		Program: "JMH, -rf json -rff FILE",
		Labels: []format.LabelDoc{
			{Name: "benchmark", Doc: "class and method"},
			{Name: "mode", Doc: "thrpt, avgt, sample or ss"},
			{Name: "threads", Doc: "number of threads"},
		},
		Parts: "names of @Param fields",
		Order: "JMH runs all forks of a benchmark with one set of parameters, one after another, and all iterations of a " +
			"fork, before it starts the next benchmark. A value is an iteration; in mode sample it is the mean of the samples " +
			"of an iteration. Iterations of one fork share its compiled code, so few forks say little.",
		InOrder: true,
		Summaries: []format.Summary{
			{What: "the text of JMH", Head: lazy.Compile(`(?m)^# JMH version: |^Benchmark .*\bMode +(?:Cnt|Samples) +Score\b`)},
			{What: "the CSV of JMH", Head: lazy.Compile(`^"?Benchmark"?[,;\t]"?Mode"?[,;\t]"?Threads"?[,;\t]`)},
		},
		Source: []string{"https://github.com/openjdk/jmh", "org.openjdk.jmh.results.format.JSONResultFormat"},
	}
}

func (jmh) Recognizes(head []byte) bool {
	paths := format.Paths(format.TrimMark(head))
	return slices.Contains(paths, "benchmark") && slices.Contains(paths, "mode") &&
		(slices.Contains(paths, "jmhVersion") || slices.Contains(paths, "warmupIterations"))
}

// result is the part of a result that is read.
type result struct {
	Version    string            `json:"jmhVersion"`
	Benchmark  string            `json:"benchmark"`
	Mode       string            `json:"mode"`
	Threads    *int              `json:"threads"`
	Forks      *int              `json:"forks"`
	JVM        string            `json:"jvm"`
	JVMArgs    []string          `json:"jvmArgs"`
	JDK        string            `json:"jdkVersion"`
	VMName     string            `json:"vmName"`
	VMVersion  string            `json:"vmVersion"`
	Warmups    *int              `json:"warmupIterations"`
	WarmupTime string            `json:"warmupTime"`
	Time       string            `json:"measurementTime"`
	Batch      *int              `json:"measurementBatchSize"`
	Params     map[string]string `json:"params"`
	Primary    *metric           `json:"primaryMetric"`
	Secondary  map[string]metric `json:"secondaryMetrics"`
}

// metric is what JMH measured. Numbers that are not finite are strings.
type metric struct {
	Score     number       `json:"score"`
	Unit      string       `json:"scoreUnit"`
	Raw       [][]number   `json:"rawData"`          // by fork and iteration
	Histogram [][][]bucket `json:"rawDataHistogram"` // of an iteration: values and how often each was there
}

// number is nil if it is missing or not finite.
type number struct{ *float64 }

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		var s string
		if err := json.Unmarshal(text, &s); err != nil {
			return err
		}
		if v, err := strconv.ParseFloat(s, 64); err == nil && v-v == 0 {
			n.float64 = &v
		}
		return nil
	}
	return json.Unmarshal(text, &n.float64)
}

type bucket [2]number

func (jmh) Read(name string, data []byte) (format.File, error) {
	out := format.File{Program: "JMH"}
	p := format.NewProblems(name)
	d := p.OpenDocument(data)
	err := d.Array("the file", func() error {
		line := d.Line()
		var r result
		if err := d.Value(&r); err != nil {
			p.LeaveOutError(err)
			return nil
		}
		if r.Version != "" {
			out.Program = "JMH " + r.Version
		}
		addResult(&out, p, line, r)
		return nil
	})
	if err != nil {
		p.AddError(err)
	} else if len(out.Records) == 0 && !p.AnyLeftOut() {
		p.Add(1, "the file has no results; write it with -rf json -rff FILE")
	}
	p.Distinguish(&out, "benchmark")
	return p.Finish(out)
}

// addResult keeps one result.
func addResult(out *format.File, p *format.Problems, line int, r result) {
	if r.Benchmark == "" || r.Mode == "" || r.Primary == nil {
		p.LeaveOut(line, "the result needs a benchmark, a mode and a primaryMetric")
		return
	}
	parts := strings.Split(r.Benchmark, ".")
	rec := format.Record{Line: line, Turn: len(out.Records), Facts: r.resultFacts(out.Program), Labels: []format.Label{
		{Name: "benchmark", Value: r.Benchmark, Short: strings.Join(parts[max(0, len(parts)-2):], ".")},
		{Name: "mode", Value: r.Mode, Setting: true},
	}}
	if r.Threads != nil {
		rec.Labels = append(rec.Labels, format.Label{Name: "threads", Value: strconv.Itoa(*r.Threads),
			Shown: fmt.Sprintf("threads=%d", *r.Threads), Setting: true, Place: true})
	}
	for _, k := range slices.Sorted(maps.Keys(r.Params)) {
		if k != "" {
			rec.Labels = append(rec.Labels, format.Label{Name: k, Value: r.Params[k], Shown: k + "=" + r.Params[k]})
		}
	}
	r.addSeries(&rec, p, "", *r.Primary)
	if len(r.Primary.Raw) > 0 { // scores of other metrics may be sums
		values, _ := r.Primary.iterationValues()
		p.CompareStats(out, line, r.Benchmark, format.Stats{Mean: r.Primary.Score.float64}, values)
	}
	for _, k := range slices.Sorted(maps.Keys(r.Secondary)) {
		r.addSeries(&rec, p, strings.TrimLeft(k, "·+ "), r.Secondary[k])
	}
	if len(rec.Series) > 0 {
		out.Records = append(out.Records, rec)
	}
}

// resultFacts are what else a result says.
func (r result) resultFacts(program string) map[string]string {
	facts := map[string]string{}
	for k, v := range map[string]string{"program": program, "jvm": r.JVM, "jdk": r.JDK,
		"vm": strings.TrimSpace(r.VMName + " " + r.VMVersion), "jvm-args": strings.Join(r.JVMArgs, " "),
		"forks": countText(r.Forks), "warmup": strings.TrimSpace(countText(r.Warmups) + " × " + r.WarmupTime),
		"iteration-time": r.Time, "batch-size": countText(r.Batch)} {
		if v != "" && v != "×" {
			facts[k] = v
		}
	}
	return facts
}

func countText(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

// addSeries adds a metric to rec; name is "" for the primary metric.
func (r result) addSeries(rec *format.Record, p *format.Problems, name string, m metric) {
	about := fmt.Sprintf("%s of %s", name, r.Benchmark)
	if name == "" {
		about = "the primary metric of " + r.Benchmark
	}
	metric, factor := described(name, m.Unit)
	if slices.ContainsFunc(rec.Series, func(s format.Series) bool { return s.Metric.Name == metric.Name }) {
		p.LeaveOut(rec.Line, "%s has the name of another metric", about)
		return
	}
	values, bad := m.iterationValues()
	if bad > 0 {
		p.LeaveOut(rec.Line, "%d of %d values of %s are not numbers", bad, bad+len(values), about)
	}
	s := format.Series{Metric: metric}
	for _, v := range values {
		s.Values = append(s.Values, v*factor)
	}
	switch {
	case len(values) > 0:
	case bad > 0:
		return
	case m.Score.float64 != nil:
		mean := *m.Score.float64 * factor
		s.Stats = &format.Stats{Mean: &mean}
	default:
		p.LeaveOut(rec.Line, "%s has neither rawData nor a score", about)
		return
	}
	rec.Series = append(rec.Series, s)
}

// iterationValues returns the value of each iteration in order, and how many are not numbers.
func (m metric) iterationValues() (out []float64, bad int) {
	for _, fork := range m.Raw {
		for _, v := range fork {
			if v.float64 == nil {
				bad++
				continue
			}
			out = append(out, *v.float64)
		}
	}
	if len(m.Raw) > 0 {
		return out, bad
	}
	for _, fork := range m.Histogram {
		for _, iteration := range fork {
			sum, n := 0.0, 0.0
			for _, b := range iteration {
				if b[0].float64 == nil || b[1].float64 == nil || *b[1].float64 < 0 {
					n = 0
					break
				}
				sum += *b[0].float64 * *b[1].float64
				n += *b[1].float64
			}
			if mean := sum / n; n > 0 && mean-mean == 0 {
				out = append(out, mean)
			} else {
				bad++
			}
		}
	}
	return out, bad
}

// seconds are the time units of JMH.
var seconds = map[string]float64{"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "hr": 3600, "day": 86400}

// described returns the metric with a unit of JMH, and by what its values are
// multiplied. "ops/us" is a rate and "us/op" a time; of other units JMH does not say
// which direction is better.
func described(name, unit string) (sample.Metric, float64) {
	a, b, _ := strings.Cut(unit, "/")
	prefix := ""
	if name != "" {
		prefix = name + " "
	}
	switch {
	case a == "ops" && seconds[b] > 0:
		return sample.HigherRatio(prefix+"throughput", "op/s", "operations per second"), 1 / seconds[b]
	case b == "op" && seconds[a] > 0:
		return sample.LowerRatio(prefix+"time", "s/op", "time of an operation"), seconds[a]
	}
	if name == "" {
		name = "score"
	}
	return sample.Metric{Name: name, Unit: unit, Scale: sample.Ratio}, 1
}
