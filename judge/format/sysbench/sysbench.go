// Package sysbench reads the reports of sysbench 1.0 and 1.1.
package sysbench

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"bakeoff/base/labeled"
	"bakeoff/base/lazy"
	"bakeoff/base/sample"
	"bakeoff/judge/format"
)

type sysbench struct{}

// New returns the format.
func New() format.Format { return sysbench{} }

func (sysbench) Doc() format.Doc {
	return format.Doc{
		Name:    "sysbench",
		Program: "sysbench TEST run > FILE",
		Labels: []format.LabelDoc{
			{Name: "test", Doc: "cpu, memory, fileio, sql or other: what the report shows of the test"},
			{Name: "options", Doc: "options of the test that the report repeats"},
			{Name: "threads", Doc: "number of threads"},
		},
		Order:   "A report is one run with one value of each metric. Reports in one file are in the order of the file.",
		InOrder: true,
		Source:  []string{"https://github.com/akopytov/sysbench"},
	}
}

var begin = lazy.Compile(`^sysbench (\d+\.\d+)\S*`)

func (sysbench) Recognizes(head []byte) bool {
	return len(format.Parts(head, begin.Match)) > 0 &&
		(bytes.Contains(head, []byte("Running the test with following options")) ||
			bytes.Contains(head, []byte("Number of threads:")))
}

// ran is a line of the command run.
var ran = lazy.Compile(`(?m)^(?:Running the test with following options|Number of threads:)`)

func (sysbench) Read(name string, data []byte) (format.File, error) {
	out := format.File{Program: "sysbench"}
	p := format.NewProblems(name)
	parts := format.Parts(data, begin.Match)
	if len(parts) == 0 {
		p.Add(1, "no line begins with \"sysbench VERSION\"; write the file with sysbench TEST run > FILE")
	}
	seen := map[string]bool{}
	for _, part := range parts {
		first, rest, _ := bytes.Cut(part.Text, []byte("\n"))
		if len(bytes.TrimSpace(rest)) > 0 && !ran.Match(rest) && !broken.Match(rest) {
			continue // it is the output of prepare or cleanup
		}
		version := strings.Trim(strings.TrimPrefix(string(begin.Find(first)), "sysbench "), ":")
		out.Program = "sysbench " + version
		rec := report{Part: part, version: version, p: p}.readRecord(&out)
		if rec == nil {
			continue
		}
		rec.Turn = len(out.Records)
		if key := rec.Labels[0].Value + rec.Labels[1].Value + rec.Labels[2].Value; complete[rec.Labels[0].Value] {
			rec.Repeats = seen[key]
			seen[key] = true
		}
		out.Records = append(out.Records, *rec)
	}
	if len(parts) > 0 && len(out.Records) == 0 && !p.AnyLeftOut() {
		p.Add(parts[0].Line, "the file has no report of sysbench TEST run")
	}
	p.Distinguish(&out, "test")
	return p.Finish(out)
}

// complete are the tests whose reports repeat all options that say which work was done.
// That of memory lacks the access mode, those of fileio, sql and scripts much more.
var complete = map[string]bool{"cpu": true}

// report is one report.
type report struct {
	format.Part
	version string
	p       *format.Problems
}

var (
	rate      = sample.Throughput("op/s", "events per second")
	mean      = sample.LowerRatio("latency-mean", "s", "mean time of an event")
	highest   = sample.LowerRatio("latency-max", "s", "longest event")
	bandwidth = sample.HigherRatio("bandwidth", "B/s", "bytes of memory blocks transferred per second")
)

func (r report) readRecord(out *format.File) *format.Record {
	if strings.HasPrefix(r.version, "0.") {
		r.p.LeaveOut(r.Line, "reports of sysbench %s are not supported; use sysbench 1.0 or 1.1", r.version)
		return nil
	}
	threads, err := r.Text.Line("Number of threads:")
	if err != nil {
		r.p.LeaveOut(r.Line, "the report of sysbench %s has %v", r.version, err)
		return nil
	}
	test, options := r.testKind()
	rec := &format.Record{Line: r.Line, Facts: map[string]string{"version": r.version}, Labels: []format.Label{
		{Name: "test", Value: test},
		{Name: "options", Value: options, Setting: true},
		{Name: "threads", Value: threads, Shown: "threads=" + threads, Setting: true, Place: true},
	}}
	if warmup, err := r.Text.Line("Warmup time:"); err == nil {
		rec.Facts["warmup"] = warmup
	}
	if bytes.Contains(r.Text, []byte("Checkpoint report:")) {
		r.p.LeaveOut(r.Line, "the report has several parts; run sysbench %s without --report-checkpoints", r.version)
		return nil
	}
	events, took, idle, err := r.counts()
	fatal := bytes.TrimSpace(broken.Find(r.Text))
	switch {
	case err != nil && len(fatal) > 0:
		rec.Failed, rec.Reason = 1, fmt.Sprintf("sysbench ended without a report: %s", fatal)
		return rec
	case err != nil:
		r.p.LeaveOut(r.Line, "the report of sysbench %s %v", r.version, err)
		return nil
	case len(fatal) > 0:
		r.p.Fail(out, r.Line, "sysbench reports a failure, so the results may be those of a part of the run: %s", fatal)
	}
	if idle {
		rec.Failed, rec.Reason = 1, "no event finished"
		return rec
	}
	if took > 0 {
		rec.AddSingle(rate, events/took, true)
		r.compareCounts(events, took)
	}
	r.latencies(rec)
	r.special(rec)
	r.compareLatencies(rec)
	return rec
}

// counts are the number of events and the total time of a report, 0 and 0 if the test prints neither. idle means that
// no event finished.
func (r report) counts() (events, took float64, idle bool, err error) {
	if iops.Match(r.Text) { // fileio of 1.1
		if _, err := r.Text.Line("sum:"); err != nil { // its last line
			return 0, 0, false, fmt.Errorf("is incomplete: %v", err)
		}
		return 0, 0, !busy.Match(r.Text), nil
	}
	if events, err = r.Text.Number("total number of events:", ""); err != nil {
		return 0, 0, false, fmt.Errorf("is incomplete: %v", err)
	}
	const old, current = "total time:", "time elapsed:" // of 1.0 and 1.1
	for _, label := range []string{old, current} {
		if _, missing := r.Text.Line(label); missing != nil {
			continue
		}
		if took, err = r.Text.Number(label, "s"); err != nil {
			return 0, 0, false, fmt.Errorf("cannot be read: %v", err)
		}
		return events, took, events <= 0 || took <= 0, nil
	}
	return 0, 0, false, fmt.Errorf("has neither %q (version 1.0) nor %q (version 1.1)", old, current)
}

// printed are the rates that reports print beside their numbers of events: of the version 1.0, and of 1.1.
var printed = []string{"events per second:", "events/s (eps):"}

// counted are numbers of a report with their rates.
var counted = lazy.Compile(`(?m)^\s*(Total operations|transactions|queries):?\s+(\d+)\s+\(\s*(\S+) per sec`)

// Sysbench takes the time of the rates apart from the total time: at most maxDelay seconds, and maxShare of it, lie
// between them.
const (
	maxDelay = 0.1
	maxShare = 0.02
)

// compareCounts warns of numbers that contradict each other. Rates and times have two decimals, the times in ms.
func (r report) compareCounts(events, took float64) {
	rateOf := func(what string, rate, n float64, uses string) {
		r.p.Compare(r.Line, what, rate, n/took, 0.01+n/took*(maxShare+maxDelay/took), "the number and the total time",
			uses)
	}
	for _, label := range printed {
		if rate, err := r.Text.Number(label, ""); err == nil {
			rateOf(strings.TrimSuffix(label, ":"), rate, events, "")
		}
	}
	for _, m := range counted.FindAllSubmatch(r.Text, 3) {
		n, nerr := labeled.Decimal(string(m[2]))
		rate, rerr := labeled.Decimal(string(m[3]))
		if what := string(m[1]); nerr == nil && rerr == nil {
			uses := "the stated rate"
			if what == "Total operations" { // they are the events
				uses = ""
			}
			rateOf("the rate of "+what, rate, n, uses)
		}
	}
	if m := transferred.FindSubmatch(r.Text); m != nil {
		all, aerr := labeled.Decimal(string(m[1]))
		rate, rerr := labeled.Decimal(string(m[2]))
		if aerr == nil && rerr == nil {
			rateOf("the rate of MiB transferred", rate, all, "the stated rate")
		}
	}
	sum, serr := r.Text.Number("sum:", "")
	avg, aerr := r.Text.Number("avg:", "")
	if serr == nil && aerr == nil {
		r.p.Compare(r.Line, "the sum of the latencies (ms)", sum, avg*events, 0.01*events+maxShare*sum,
			"avg and the number of events", "avg")
	}
}

// compareLatencies warns of latencies that contradict each other. The percentile comes from a histogram.
func (r report) compareLatencies(rec *format.Record) {
	r.p.CompareOrder(rec, 0.03, 1e-5, mean.Name, highest.Name)
	for _, s := range rec.Series {
		if strings.HasPrefix(s.Metric.Name, "latency-p") {
			r.p.CompareOrder(rec, 0.03, 1e-5, s.Metric.Name, highest.Name)
		}
	}
}

// broken is a message of sysbench, or of its LuaJIT, about what ended a thread or the run.
var broken = lazy.Compile(`(?m)^(?:FATAL|ALERT|PANIC): .{1,200}`)

// fileOptions are the lines of fileio about its work, from the flags to the mode.
var fileOptions = lazy.Compile(`(?m)^(?:(?:Extra file open flags:|\d+ files, ).*\n(?:\S.*\n)*?)?Doing .*$`)

// testKind is the kind of a test, and the options that the report repeats.
func (r report) testKind() (kind, options string) {
	kind = "other"
	var all []string
	for _, o := range []struct{ label, kind string }{
		{"Prime numbers limit:", "cpu"}, {"block size:", "memory"}, {"total size:", "memory"}, {"operation:", "memory"},
		{"scope:", "memory"}, {"Target transaction rate:", ""},
	} {
		if v, err := r.Text.Line(o.label); err == nil {
			kind = cmp.Or(o.kind, kind)
			all = append(all, strings.TrimSpace(o.label+" "+v))
		}
	}
	if test, err := r.Text.Line("Doing"); err == nil { // fileio says so, and with --verbosity=5 all tests do
		kind = cmp.Or(doing[test], "fileio")
	}
	if kind == "fileio" {
		for line := range bytes.Lines(fileOptions.Find(r.Text)) {
			if text := strings.TrimSpace(string(line)); !strings.HasPrefix(text, "Number of IO requests:") {
				all = append(all, text)
			}
		}
	}
	if bytes.Contains(r.Text, []byte("\nSQL statistics:")) {
		kind = "sql"
	}
	return kind, strings.Join(all, ", ")
}

// doing are the tests by what they print with --verbosity=5.
var doing = map[string]string{"CPU performance benchmark": "cpu", "memory operations speed test": "memory",
	"thread subsystem performance test": "other", "mutex performance test": "other"}

var percentile = lazy.Compile(`(?m)^\s+(\d+)th percentile:[ \t]*(\S*)\s*$`)

// latencies adds what the report says of latencies, in ms with two decimals: 0.00 is
// below its resolution.
func (r report) latencies(rec *format.Record) {
	r.p.AddNumber(rec, r.Text, "avg:", mean, 1e-3)
	r.p.AddNumber(rec, r.Text, "max:", highest, 1e-3)
	if m := percentile.FindSubmatch(r.Text); m != nil {
		v, err := labeled.Decimal(string(m[2]))
		if err != nil {
			r.p.LeaveOut(r.Line, "latency-p%s: %v", m[1], err)
		}
		rec.AddSingle(sample.LowerRatio("latency-p"+string(m[1]), "s", "percentile of the time of an event"), v/1e3,
			err == nil && v > 0)
	}
}

var (
	transferred = lazy.Compile(`(?m)^(\S+) MiB transferred \((\S+) MiB/sec\)`)
	perSecond   = lazy.Compile(`(?m)^\s+(transactions|queries|ignored errors|reconnects):\s+\d+\s+` +
		`\((\S+) per sec\.\)`)
	// Version 1.1: "read:  IOPS=12.30 0.19 MiB/s (0.20 MB/s)".
	iops = lazy.Compile(`(?m)^\s+(read|write|fsync):\s+IOPS=(\d\S*)(?: (\S+) MiB/s)?`)
	busy = lazy.Compile(`\bIOPS=[0.]*[1-9]`)
)

// special adds the metrics of some tests.
func (r report) special(rec *format.Record) {
	add := func(name, unit, text string, factor float64) {
		v, err := labeled.Decimal(text)
		if err != nil {
			r.p.LeaveOut(r.Line, "%s: %v", name, err)
		}
		m := sample.HigherRatio(name, unit, "")
		if name == "ignored-errors" || name == "reconnects" {
			m = sample.Metric{Name: name, Unit: unit, Better: sample.Lower, Scale: sample.Difference}
		}
		rec.AddSingle(m, v*factor, err == nil)
	}
	if m := transferred.FindSubmatch(r.Text); m != nil {
		v, err := labeled.Decimal(string(m[2]))
		if err != nil {
			r.p.LeaveOut(r.Line, "%s: %v", bandwidth.Name, err)
		}
		rec.AddSingle(bandwidth, v*(1<<20), err == nil)
	}
	for _, m := range perSecond.FindAllSubmatch(r.Text, 4) {
		add(strings.ReplaceAll(string(m[1]), " ", "-"), "op/s", string(m[2]), 1)
	}
	for _, x := range []struct {
		label, name, unit string
		factor            float64
	}{
		{"reads/s:", "reads", "op/s", 1}, {"writes/s:", "writes", "op/s", 1}, {"fsyncs/s:", "fsyncs", "op/s", 1},
		{"read, MiB/s:", "read-bandwidth", "B/s", 1 << 20}, {"written, MiB/s:", "write-bandwidth", "B/s", 1 << 20},
	} {
		switch v, err := r.Text.Line(x.label); {
		case err == nil:
			add(x.name, x.unit, v, x.factor)
		case r.Text.Has(x.label):
			r.p.LeaveOut(r.Line, "%s: %v", x.name, err)
		}
	}
	for _, m := range iops.FindAllSubmatch(r.Text, 3) {
		add(string(m[1])+"s", "op/s", string(m[2]), 1)
		if len(m[3]) > 0 {
			add(string(m[1])+"-bandwidth", "B/s", string(m[3]), 1<<20)
		}
	}
}
