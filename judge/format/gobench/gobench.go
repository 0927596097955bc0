// Package gobench reads the output of Go benchmarks.
package gobench

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchunit"

	"bakeoff/base/lazy"
	"bakeoff/base/sample"
	"bakeoff/judge/format"
)

type gobench struct{}

// New returns the format.
func New() format.Format { return gobench{} }

func (gobench) Doc() format.Doc {
	return format.Doc{
		Name:    "go",
		Program: "go test -bench",
		Labels: []format.LabelDoc{
			{Name: "pkg", Doc: "package"},
			{Name: "benchmark", Doc: "name of the benchmark, without its sub-benchmarks"},
			{Name: "procs", Doc: "GOMAXPROCS"},
		},
		Parts: "parts of the names of sub-benchmarks, and lines of the form name: value",
		Order: "go test runs the repetitions of -count one after another, in one process, before it starts the next " +
			"benchmark; -shuffle changes the order of benchmarks, but not that of sub-benchmarks. The output has no times, " +
			"so the order of two files is unknown.",
		InOrder: true,
		Summaries: []format.Summary{
			{What: "the output of benchstat", Fix: "give analyse the files that benchstat read", Head: benchstat},
		},
		Source: []string{"https://go.dev/design/14313-benchmark-format"},
	}
}

var resultLine = lazy.Compile(`(?m)^Benchmark\S*[ \t]+[0-9]+[ \t]+(?i:[0-9.e+-]+|[+-]?inf|nan)[ \t]+\S`)

// headerLine begins the output of every package that has benchmarks. A file may
// begin with a long log.
var headerLine = lazy.Compile(`(?m)^goos: \S+\r?\ngoarch: `)

// benchstat matches the table of benchstat, which repeats the header of the files.
var benchstat = lazy.Compile(`(?m)^ *│ +(?:\S+/op|B/s)\b|^name +old \S+ +new \S+ +delta$|^,[^,\n]+,CI,`)

func (gobench) Recognizes(head []byte) bool {
	return resultLine.Match(head) || eventLine.Match(head) || headerLine.Match(head) && !benchstat.Match(head)
}

// maxLine is the longest line that benchfmt gets; it reads at most 64 KiB.
const maxLine = 60 << 10

// benchmarkName begins a line that go test prints for a benchmark. Other lines that
// begin with "Benchmark" are text, unless they have the form of a result: other programs
// write names that continue with a lower case letter.
var benchmarkName = lazy.Compile(`^Benchmark[^\sa-z]`)

// nameAndTab is what go test prints before it runs a benchmark.
var nameAndTab = lazy.Compile(`^Benchmark(?:[^\sa-z]\S*)? *\t`)

// looseResult is a result without the tab that go test prints after the number of iterations: another program wrote
// the line, or it is the text of a benchmark.
var looseResult = lazy.Compile(`^Benchmark\S*[ \t]+[0-9]+ `)

// restLine is what go test prints after the name of a benchmark that printed text into
// the line in between. Metrics other than the time take at least ten columns.
var restLine = lazy.Compile(`^ *[0-9]+\t(?: *[0-9.]+ ns/op|[-+ 0-9.]{10,} \S)`)

// nameLine is the name of a benchmark that starts, as go test -v prints it.
var nameLine = lazy.Compile(`^Benchmark[^\sa-z]\S*\r?\n`)

// openLine is the name of a benchmark, as go test prints it before the benchmark ends.
var openLine = lazy.Compile(`^Benchmark[^\sa-z]\S*[ ]*\t\s*$`)

// insideLine is a result after text that a benchmark printed without a line break, as go
// test -v writes it.
var insideLine = lazy.Compile(`^.+Benchmark\S* *\t *[0-9]+\t *[-+0-9.]+ \S`)

// blankUnreadable replaces the lines that benchfmt must not read by empty ones: long lines, as
// logs have them, and text that is not a result. A result that text divides becomes
// one line again.
func (r *reader) blankUnreadable(data []byte) []byte {
	lines := slices.Collect(bytes.Lines(data))
	divided := -1    // the last line with a name and text
	running := false // a benchmark, so that text may be its own
	for i, line := range lines {
		name := benchmarkName.Match(line)
		result := resultLine.Match(line)
		switch {
		case len(line) > maxLine:
			if name || result {
				r.p.LeaveOut(r.fileLine(i+1), "the result has more than %d bytes", maxLine)
			}
			lines[i] = []byte{'\n'}
		case result:
			if divided, running = -1, false; looseResult.Match(line) && nameAndTab.Match(line) {
				divided = i
			}
		case endLine.Match(line):
			lines[i], divided, running = []byte{'\n'}, -1, false
		case nameAndTab.Match(line):
			divided, running = i, true
		case insideLine.Match(line):
			r.p.LeaveOut(r.fileLine(i+1), "a result follows other text in its line; let the benchmark end its text with a "+
				"line break")
			lines[i], divided, running = []byte{'\n'}, -1, false
		case nameLine.Match(line):
			running = true
		case bytes.HasPrefix(line, []byte("Benchmark")) && (running || !name):
			lines[i] = []byte{'\n'}
		case divided >= 0 && restLine.Match(line):
			lines[i] = slices.Concat(bytes.Fields(lines[divided])[0], []byte{'\t'}, line)
			lines[divided] = []byte{'\n'}
			divided, running = -1, false
		}
	}
	for i, line := range lines {
		if openLine.Match(line) {
			r.p.LeaveOut(r.fileLine(i+1), "%s has no result; the program may have been killed", bytes.Fields(line)[0])
		}
	}
	return bytes.Join(lines, nil)
}

// reader reads one file.
type reader struct {
	out format.File
	p   *format.Problems
	// lines are the lines of the file from which the lines of the text come; nil if they
	// are the same.
	lines []int
	bytes map[string]float64 // of an operation, by package and name
	// directions is unit → +1 if higher values are better, −1 if lower ones are.
	directions func(unit string) int
}

// fileLine is the line of the file of a line of the text.
func (r *reader) fileLine(n int) int {
	if r.lines != nil && n >= 1 && n <= len(r.lines) {
		return r.lines[n-1]
	}
	return n
}

func (gobench) Read(name string, data []byte) (format.File, error) {
	r := reader{p: format.NewProblems(name)}
	r.out.Program = "go test"
	data = format.TrimMark(data)
	if eventLine.Match(data) {
		data = r.textOfEvents(data)
	} else {
		r.findEnds(data)
	}
	failures(&r, data)
	in := benchfmt.NewReader(bytes.NewReader(r.blankUnreadable(data)), name)
	r.directions = func(unit string) int { return in.Units().GetBetter(unit) }
	for in.Scan() {
		switch x := in.Result().(type) {
		case *benchfmt.Result:
			r.addResult(x)
		case *benchfmt.UnitMetadata:
			if _, line := x.Pos(); x.Key == "better" && x.Value != "higher" && x.Value != "lower" {
				r.p.LeaveOut(r.fileLine(line), "the unit %s has the unknown direction %q; write better=higher or better=lower",
					x.OrigUnit, x.Value)
			}
		case *benchfmt.SyntaxError:
			_, line := x.Pos()
			fix := "the program ended there, or the benchmark printed text into its own line; remove such text"
			if strings.HasPrefix(x.Msg, "metadata ") {
				fix = "this line has another value; keep the right one of the two lines Unit"
			}
			r.p.LeaveOut(r.fileLine(line), "%s; %s", x.Msg, fix)
		}
	}
	switch {
	case in.Err() != nil:
		r.p.Add(1, "%v", in.Err())
	case len(r.out.Records)+len(r.out.Failures) == 0 && !r.p.AnyLeftOut():
		r.p.Add(1, "the file has no results of benchmarks; write it with go test -bench . > FILE")
	}
	r.giveDirections()
	settleProcs([]*format.File{&r.out})
	return r.p.Finish(r.out)
}

// The lines of go test about what failed. The name of a benchmark may precede them: go test prints it
// before it repeats the work.
var (
	skipLine    = lazy.Compile(`^\s*(?:Benchmark\S*[ \t]+)?--- SKIP: (Benchmark\S*)`)
	failLine    = lazy.Compile(`^\s*(?:Benchmark\S*[ \t]+)?--- FAIL: (Benchmark\S*)`)
	testLine    = lazy.Compile(`^--- FAIL: ((?:Test|Example|Fuzz)\S*)`)
	crashLine   = lazy.Compile(`^(?:Benchmark\S*[ \t]+)?(?:panic: |fatal error: |\*\*\* Test killed|signal: |SIG[A-Z]+: )`)
	buildLine   = lazy.Compile(`^FAIL\s+(\S+) \[(?:build|setup) failed\]`)
	packageLine = lazy.Compile(`^(?:(FAIL)|ok)[ \t]+(\S+)[ \t]+[0-9.]+s\b`)
	// endLine is a benchmark without a result of which go test says why.
	endLine = lazy.Compile(`^Benchmark\S*[ \t]+(?:--- (?:FAIL|SKIP): |panic: |fatal error: |\*\*\* Test killed|signal: |` +
		`SIG[A-Z]+: |exit status [0-9])`)
)

// The lines with which a program of benchmarks begins and ends. testing writes the first of them once, before the
// first result.
var (
	beginLine = lazy.Compile(`^pkg: (\S+)`)
	finalLine = lazy.Compile(`^(?:PASS|FAIL|ok)\b|^exit status \d`)
)

// findEnds notes programs whose output has a beginning and no end. Output without these lines may come from another
// program.
func (r *reader) findEnds(data []byte) {
	n, start, pkg := 0, 0, ""
	end := func() {
		if start > 0 {
			r.p.Cut(&r.out, start, "The output of the package %s has no line PASS, FAIL or ok, so it may be incomplete.", pkg)
		}
		start = 0
	}
	for line := range bytes.Lines(data) {
		n++
		if m := beginLine.FindSubmatch(line); m != nil {
			end()
			start, pkg = n, string(m[1])
		} else if finalLine.Match(line) || crashLine.Match(line) {
			start = 0
		}
	}
	end()
}

// failures notes what failed: benchmarks, of which go test prints no value, programs that ended before their other
// benchmarks, tests without which go test runs no benchmark, and packages that were not built.
func failures(r *reader, data []byte) {
	n, noted := 0, map[string]bool{} // about the package
	for line := range bytes.Lines(data) {
		n++
		fail := func(format string, args ...any) {
			if text := fmt.Sprintf(format, args...); !noted[text] {
				noted[text] = true
				r.p.Fail(&r.out, r.fileLine(n), "%s", text)
			}
		}
		if m := failLine.FindSubmatch(line); m != nil {
			fail("%s failed, so some or all of its values are missing.", m[1])
		}
		if m := skipLine.FindSubmatch(line); m != nil {
			r.p.Warn(r.fileLine(n), "%s was skipped, so it has no value.", m[1])
		}
		if m := testLine.FindSubmatch(line); m != nil {
			fail("%s failed, so go test ran no benchmark of its package.", m[1])
		}
		if m := buildLine.FindSubmatch(line); m != nil {
			fail("The package %s was not built, so the values of its benchmarks are missing.", m[1])
		}
		if crashLine.Match(line) {
			fail("A program of benchmarks ended early, so the values of the benchmarks after it are missing.")
		}
		if m := packageLine.FindSubmatch(line); m != nil {
			if len(m[1]) > 0 && len(noted) == 0 {
				fail("The package %s failed, so values of its benchmarks may be missing.", m[2])
			}
			clear(noted)
		}
	}
}

// addResult keeps one line.
func (r *reader) addResult(x *benchfmt.Result) {
	_, line := x.Pos()
	line = r.fileLine(line)
	rec := format.Record{Line: line, Turn: len(r.out.Records), Facts: map[string]string{}}
	pkg := format.Label{Name: "pkg", Setting: true}
	for _, c := range x.Config {
		value := string(c.Value)
		switch c.Key {
		case "pkg":
			pkg.Value = value
		case "block":
			n, err := strconv.Atoi(value)
			if err != nil {
				r.p.LeaveOut(line, "the line \"block: %s\" before this result names no block; write a whole number", value)
				return
			}
			rec.Block = &n
		default:
			rec.Facts[c.Key] = value
		}
	}
	rec.Labels = append([]format.Label{pkg}, splitName(string(x.Name), "")...) // settleProcs finds GOMAXPROCS
	if x.Iters <= 0 {
		r.p.LeaveOut(line, "%s ran %d times", x.Name, x.Iters)
		return
	}
	for _, v := range x.Values {
		_, v.Unit = benchunit.Tidy(1, v.Unit) // benchfmt leaves the unit of 0 ns as it is
		switch {
		case math.IsNaN(v.Value) || math.IsInf(v.Value, 0):
			r.p.LeaveOut(line, "%v %s of %s is not a number", v.Value, v.Unit, x.Name)
			continue
		case v.Value < 0 && measured(v.Unit):
			r.p.LeaveOut(line, "%v %s of %s is negative", v.Value, v.Unit, x.Name)
			continue
		case slices.ContainsFunc(rec.Series, func(s format.Series) bool { return s.Metric.Name == v.Unit }):
			r.p.LeaveOut(line, "the line of %s has a second value in %s", x.Name, v.Unit)
			continue
		}
		rec.Series = append(rec.Series, format.Series{Values: []float64{v.Value},
			Metric: sample.Metric{Name: v.Unit, Unit: plainUnit(v.Unit), Scale: sample.Ratio}})
	}
	if len(rec.Series) == 0 {
		return
	}
	r.compareRate(rec, pkg.Value+" "+string(x.Name))
	r.out.Records = append(r.out.Records, rec)
}

// measured reports whether testing itself measures a metric, which is never negative.
func measured(unit string) bool {
	return slices.Contains([]string{"sec/op", "B/s", "B/op", "allocs/op"}, unit)
}

// procsLabel is the label of GOMAXPROCS, which is the last one of every record.
const procsLabel = "procs"

// emptyPart stands for an empty part of a name.
const emptyPart = `""`

// splitName splits a name such as "Sum/algo=md5/size=64" into labels, and adds that of GOMAXPROCS.
func splitName(name, procs string) (out []format.Label) {
	base, rest, more := strings.Cut(name, "/")
	out = append(out, format.Label{Name: "benchmark", Value: base})
	for i := 1; more; i++ {
		var text string
		text, rest, more = strings.Cut(rest, "/")
		k, v, ok := strings.Cut(text, "=")
		if !ok {
			k, v = fmt.Sprintf("sub%d", i), text
		}
		out = append(out, format.Label{Name: k, Value: v, Shown: cmp.Or(text, emptyPart)})
	}
	last := format.Label{Name: procsLabel, Value: procs, Setting: true, Place: true}
	if procs != "" {
		last.Shown = procsLabel + "=" + procs
	}
	return append(out, last)
}

// plainUnit writes seconds as bakeoff does.
func plainUnit(unit string) string {
	if rest, ok := strings.CutPrefix(unit, "sec"); ok && (rest == "" || rest[0] == '/') {
		return "s" + rest
	}
	return unit
}

// compareRate warns if a rate contradicts the time of the operation: all lines of a benchmark have one number of
// bytes for each operation, unless the benchmark reports a rate of its own.
func (r *reader) compareRate(rec format.Record, name string) {
	bytes, time, rate, ok := bytesOf(rec)
	if !ok {
		return
	}
	if r.bytes == nil {
		r.bytes = map[string]float64{}
	}
	size, known := r.bytes[name]
	if !known {
		r.bytes[name] = bytes
	} else if size > 0 && math.Abs(bytes-size) > sameBytes*max(bytes, size) {
		r.p.Warn(rec.Line, "the rate (B/s) of %s is %.6g in the file, which contradicts the time and the bytes of an "+
			"earlier line: %.6g. The file was changed, or the benchmark reports a rate of its own; bakeoff uses both.",
			strings.TrimSpace(name), rate, size/time)
		r.bytes[name] = 0 // one warning for each benchmark
	}
}

// giveDirections gives metrics their direction, which a file may give after its results.
func (r *reader) giveDirections() {
	for _, rec := range r.out.Records {
		for i := range rec.Series {
			m := &rec.Series[i].Metric
			switch r.directions(m.Name) {
			case 1:
				m.Better = sample.Higher
			case -1:
				m.Better = sample.Lower
			}
		}
	}
}
