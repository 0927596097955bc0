package gobench

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"testing"

	"bakeoff/judge/format"
	"bakeoff/judge/format/formattest"
)

func TestSuite(t *testing.T) { formattest.Run(t, New()) }

func FuzzRead(f *testing.F) { formattest.Fuzz(f, New()) }

// Lines of any length that are no results are skipped. Units may be described after
// their results.
func TestLongLinesAndUnits(t *testing.T) {
	text := "goos: linux\nBenchmark starts\nBenchmarking\n" + strings.Repeat("x", 200<<10) +
		"\nBenchmarkA/big/n=1-8 10 5 ns/op 3 req/s 7 p99-ns 4.0 MB/s\nUnit req/s better=higher\n"
	out, err := New().Read("x", []byte(text))
	if err != nil || len(out.Records) != 1 || out.Records[0].Line != 5 {
		t.Fatalf("%+v, %v", out, err)
	}
	r := out.Records[0]
	var names []string
	for _, s := range r.Series {
		names = append(names, s.Metric.Name+" "+s.Metric.Unit+" "+string(s.Metric.Better))
	}
	if got := strings.Join(names, ", "); got != "sec/op s/op lower, req/s req/s higher, p99-sec p99-sec , B/s B/s higher" {
		t.Errorf("%q", got)
	}
	var labels []string
	for _, l := range r.Labels {
		labels = append(labels, l.Name+"="+l.Value)
	}
	if got := strings.Join(labels, " "); got != "pkg= benchmark=A sub1=big n=1 procs=8" {
		t.Errorf("%q", got)
	}
	out, err = New().Read("x", []byte("BenchmarkA 1 0 ns/op\n"))
	if err != nil || out.Records[0].Series[0].Metric.Unit != "s/op" {
		t.Errorf("a time of 0: %+v, %v", out, err)
	}
	if v, ok := r.Label("goos"); !ok || v.Value != "linux" || r.Block != nil {
		t.Errorf("%+v", r)
	}
}

func TestMistakes(t *testing.T) {
	formattest.Mistakes(t, New(), []formattest.Mistake{
		{Name: "nothing", Text: "PASS\n", Want: "x:1: the file has no results of benchmarks"},
		{Name: "events without results", Text: `{"Action":"output","Output":"PASS\n"}`,
			Want: "x:1: the file has no results of benchmarks"},
		{Name: "a failure", Text: "BenchmarkA   \tpanic: x\n",
			Want: "x:1: A program of benchmarks ended early"},
		{Name: "negative", Text: "BenchmarkA 1 -5 ns/op\n", Want: "x:1: -5e-09 sec/op of A is negative"},
		{Name: "not finite", Text: "BenchmarkA 1 Inf ns/op\n", Want: "x:1: +Inf sec/op of A is not a number"},
	})
}

// A line that cannot be read does not take the others with it.
func TestLeftOut(t *testing.T) {
	formattest.LeftOut(t, New(), []formattest.Mistake{
		{Name: "text in the line", Text: "BenchmarkA 1 5 ns/op\nBenchmarkB-8 hello\n",
			Want: "x:2: parsing iteration count: invalid syntax; the program ended there, or the benchmark printed"},
		{Name: "an unknown direction", Text: "Unit foo better=up\nBenchmarkA 1 5 ns/op 3 foo\n",
			Want: `x:1: the unit foo has the unknown direction "up"; write better=higher or better=lower`},
		{Name: "two directions", Text: "BenchmarkA 1 5 ns/op 3 foo\nUnit foo better=higher\nUnit foo better=lower\n",
			Want: "x:3: metadata better of unit foo already set to higher; this line has another value; keep the right one"},
		{Name: "an end after the name", Text: "BenchmarkA 1 5 ns/op\nBenchmarkB-8   \t",
			Want: "x:2: BenchmarkB-8 has no result; the program may have been killed"},
		{Name: "no block", Text: "block: 1\nBenchmarkA 1 5 ns/op\nblock: one\nBenchmarkA 1 5 ns/op\n",
			Want: `x:4: the line "block: one" before this result`},
		{Name: "negative", Text: "BenchmarkA 1 -5 ns/op 7 B/op\n", Want: "x:1: -5e-09 sec/op of A is negative"},
		{Name: "no iterations", Text: "BenchmarkA 1 5 ns/op\nBenchmarkB 0 NaN ns/op 0 B/op\n",
			Want: "x:2: B ran 0 times"},
		{Name: "no iterations and a time", Text: "BenchmarkA 1 5 ns/op\nBenchmarkB 0 0 ns/op\n",
			Want: "x:2: B ran 0 times"},
		{Name: "negative iterations", Text: "BenchmarkA 1 5 ns/op\nBenchmarkB -5 7 ns/op\n",
			Want: "x:2: B ran -5 times"},
		{Name: "twice", Text: "BenchmarkA 1 5 ns/op 6 ns/op\n", Want: "x:1: the line of A has a second value in sec/op"},
		{Name: "a long result",
			Text: "BenchmarkB 1 5 ns/op\nBenchmarkA 1 5 ns/op" + strings.Repeat(" ", 70<<10) + "\n",
			Want: "x:2: the result has more than 61440 bytes"},
		{Name: "an event", Text: `{"Action":"output","Package":"p","Output":"BenchmarkA \t"}
{"Action":"output","Package":"p","Output":"1 5 ns/op\nBenchmarkB x\n"}`, Want: "x:2: parsing iteration count"},
	})
}

// A metric of the benchmark itself may be negative.
func TestNegativeMetric(t *testing.T) {
	out, err := New().Read("x", []byte("BenchmarkA 1 5 ns/op -2 heap-change-kB\n"))
	if err != nil || out.LeftOut != 0 || out.Records[0].Series[1].Values[0] != -2 {
		t.Errorf("%+v, %v", out, err)
	}
}

// Names that go on with a lower case letter are results if their lines have the form of
// one.
func TestLowerCaseNames(t *testing.T) {
	out, err := New().Read("x", []byte("Benchmarking 3 programs\nBenchmarklogger_total 1 10149055 total-bytes\n"))
	if err != nil || len(out.Records) != 1 || out.Records[0].Line != 2 || out.LeftOut != 0 ||
		!New().Recognizes([]byte("Benchmarklogger_total 1 10149055 total-bytes\n")) {
		t.Errorf("%+v, %v", out, err)
	}
}

// Equal names in two packages are two benchmarks; in one package they are repetitions.
// testing writes no number of processors if it is 1.
func TestRepetitions(t *testing.T) {
	out, err := New().Read("x", []byte("pkg: a\nBenchmarkA 1 5 ns/op\nBenchmarkA 1 5 ns/op\nBenchmarkA-4 1 5 ns/op\n"+
		"pkg: b\nBenchmarkA 1 5 ns/op\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range out.Records {
		got = append(got, fmt.Sprint(r.Labels[0].Value, r.Labels[2].Value, r.Repeats))
	}
	if text := strings.Join(got, " "); text != "a1false a1true a4false b1false" {
		t.Error(text)
	}
}

// The events of go test -json have the package of each part of a line.
func TestEvents(t *testing.T) {
	text := `{"Action":"start","Package":"a"}
{"Time":"2026-11-27T06:00:00Z","Action":"output","Package":"a","Output":"BenchmarkA-8   \t"}
{"Action":"output","Package":"b","Output":"BenchmarkA-8   \t"}
version: new
{"Action":"output","Package":"a","Output":"     100\t     5 ns/op\n"}
{"Action":"output","Package":"b","Output":"     100\t     6 ns/op\n"}
{"Action":"pass","Package":"a"}
`
	out, err := New().Read("x", []byte(text))
	if err != nil || len(out.Records) != 2 || !New().Recognizes([]byte(text)) {
		t.Fatalf("%+v, %v", out, err)
	}
	for i, want := range []string{"a 2 new 5", "b 3 new 6"} {
		r := out.Records[i]
		ns := math.Round(r.Series[0].Values[0] * 1e9)
		if got := fmt.Sprint(r.Labels[0].Value, " ", r.Line, " ", r.Facts["version"], " ", ns); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The output of a package may end without a line break, as that of a killed program does.
func TestEventsEndWithoutALineBreak(t *testing.T) {
	const out = `{"Action":"output","Package":"a","Output":"BenchmarkA-8   \t 100\t 5 ns/op"}` + "\n"
	for name, text := range map[string]string{"the end of the file": out,
		"the end of the package": out + `{"Action":"fail","Package":"a"}
{"Action":"output","Package":"b","Output":"BenchmarkA-8 1 5 ns/op\n"}` + "\n"} {
		f, err := New().Read("x", []byte(text))
		if err != nil || f.Records[0].Labels[0].Value != "a" || f.Records[0].Line != 1 || len(f.Cut) != 2 ||
			!strings.Contains(strings.Join(f.Cut, "\n"), `x:1: The output of the package "a" ends without a line break.`) {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}

// Programs that write events again use blanks or another order.
func TestOtherEvents(t *testing.T) {
	for _, text := range []string{
		`{"Time": "2026-11-27T06:00:00Z", "Action": "output", "Package": "a", "Output": "BenchmarkA 1 5 ns/op\n"}`,
		`{"Elapsed":0.5,"Output":"BenchmarkA 1 5 ns/op\n","Package":"a","Action":"output"}`,
	} {
		if out, err := New().Read("x", []byte(text)); err != nil || !New().Recognizes([]byte(text)) ||
			len(out.Records) != 1 || out.Records[0].Labels[0].Value != "a" {
			t.Errorf("%s: %+v, %v", text, out, err)
		}
	}
}

// A benchmark that prints to standard error divides its line.
func TestDividedLine(t *testing.T) {
	out, err := New().Read("x", []byte("BenchmarkA-2 \tstarted\nready\n 8852102\t         0.3591 ns/op\n"+
		"BenchmarkB-2 \tstarted\nBenchmarkB-2 5 7 ns/op\n 1\t 3 ns/op\n"))
	if err != nil || len(out.Records) != 2 || out.LeftOut != 1 || out.Records[0].Labels[1].Value != "A" ||
		out.Records[0].Line != 3 || out.Records[1].Labels[1].Value != "B" {
		t.Errorf("%+v, %v", out, err)
	}
}

// Text of a benchmark is neither a name nor a result, and a result after text is not lost. go test pads numbers to ten
// columns, so a time of 1 s or more has no blank before it.
func TestTextOfABenchmark(t *testing.T) {
	const rest = "    1000\t       100.0 ns/op\n"
	for name, x := range map[string]struct {
		text, want string
		leftOut    int
	}{
		"ten digits":     {"BenchmarkB-8   \tx\n       1\t1234567890 ns/op\n", "B/procs=8: 1 sec/op", 0},
		"a metric alone": {"BenchmarkB-8   \tx\n       1\t         7.000 hits\n", "B/procs=8: 1 hits", 0},
		"a table":        {"BenchmarkB-8   \tx\n       1\t7 hits\n" + rest, "B/procs=8: 1 sec/op", 0},
		"a word":         {"BenchmarkB-8   \tx\nBenchmarkRunner started\n" + rest, "B/procs=8: 1 sec/op", 0},
		"a colon":        {"BenchmarkB-8   \tx\nBenchmark: step 2\n" + rest, "B/procs=8: 1 sec/op", 0},
		"numbers":        {"BenchmarkB-8   \t42 7 items\n" + rest, "B/procs=8: 1 sec/op", 0},
		"a word with -v": {"BenchmarkB\nBenchmarkRunner started\nBenchmarkB-8   \t" + rest, "B/procs=8: 1 sec/op", 0},
		"a result in a line": {
			"BenchmarkA-8 1 5 ns/op\nxBenchmarkB-8   \t       1\t1234567890 ns/op\n", "A/procs=8: 1 sec/op", 1},
		"a metric in a line": {"BenchmarkA-8 1 5 ns/op\nxBenchmarkB-8   \t       1\t         7.000 hits\n",
			"A/procs=8: 1 sec/op", 1},
		"results of others": {"BenchmarkA-8 1 5 hits\nBenchmarkB-8 1 6 hits\n", "A/procs=8: 1 hits B/procs=8: 1 hits", 0},
	} {
		out, err := New().Read("x", []byte(x.text))
		var got []string
		for _, r := range out.Records {
			got = append(got, fmt.Sprintf("%s: %d %s", labelsText(r), len(r.Series), r.Series[0].Metric.Name))
		}
		if text := strings.Join(got, " "); err != nil || text != x.want || out.LeftOut != x.leftOut {
			t.Errorf("%s: %q with %d left out, want %q; %v", name, text, out.LeftOut, x.want, err)
		}
	}
}

// labelsText writes the labels of a record.
func labelsText(r format.Record) string {
	var parts []string
	for _, l := range r.Labels {
		if !l.Absent() {
			parts = append(parts, cmp.Or(l.Shown, l.Value))
		}
	}
	return strings.Join(parts, "/")
}

// A number at the end of a name is GOMAXPROCS only if the other results agree.
func TestNumbersAtTheEndsOfNames(t *testing.T) {
	for name, x := range map[string]struct {
		files []string // names of benchmarks, in lines
		want  string
		place bool // of all
	}{
		"one number": {[]string{"A-8\nB/x-8"}, "A/procs=8 B/x/procs=8", true},
		"parts only": {[]string{"A/x-8\nA/y-8"}, "A/x/procs=8 A/y/procs=8", true},
		"-cpu": {[]string{"A/x\nA/x-2\nB/y\nB/y-2"},
			"A/x/procs=1 A/x/procs=2 B/y/procs=1 B/y/procs=2", true},
		"names":                       {[]string{"A/x-256\nA/x-512\nA/md5"}, "A/x-256 A/x-512 A/md5", true},
		"names beside a plain one":    {[]string{"A/x-256\nB"}, "A/x-256 B", true},
		"names of another package":    {[]string{"A/x-256\npkg: b\nB"}, "A/x-256 b/B", true},
		"GOMAXPROCS of other package": {[]string{"A/x-8\npkg: b\nB-8"}, "A/x/procs=8 b/B/procs=8", true},
		"1 is never written":          {[]string{"A/n=-1\nA/n=-01"}, "A/n=-1 A/n=-01", true},
		"one name":                    {[]string{"A/x-256"}, "A/x/procs=256", false},
		"a name of another file": {[]string{"A/x-256", "A/x-256-8\nB-8"},
			"A/x-256/procs=1 A/x-256/procs=8 B/procs=8", true},
		"a number in another file": {[]string{"A/x-8", "A/x-4\nB-4"}, "A/x/procs=8 A/x/procs=4 B/procs=4", true},
		"sizes of bent": {[]string{"A-8\na_total", "A-16\na_total\nB-16"},
			"A/procs=8 a_total A/procs=16 a_total B/procs=16", true},
		"sizes of bent with -cpu":     {[]string{"A\nA-8\na_total"}, "A/procs=1 A/procs=8 a_total/procs=1", true},
		"another package has one CPU": {[]string{"A-8\npkg: b\nA"}, "A/procs=8 b/A/procs=1", true},
		"one processor in a file":     {[]string{"A\nA-2", "A"}, "A/procs=1 A/procs=2 A/procs=1", true},
	} {
		var files []*format.File
		for _, names := range x.files {
			var text strings.Builder
			for line := range strings.Lines(names) {
				if line = strings.TrimSpace(line); strings.Contains(line, ": ") {
					fmt.Fprintln(&text, line)
				} else {
					fmt.Fprintf(&text, "Benchmark%s 1 5 ns/op\n", line)
				}
			}
			out, err := New().Read("x", []byte(text.String()))
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, &out)
		}
		format.Settle(New(), files)
		var got []string
		place := true
		for _, f := range files {
			for _, r := range f.Records {
				got = append(got, labelsText(r))
				if l := procsOf(&r); l != nil {
					place = place && l.Place
				}
			}
		}
		if text := strings.Join(got, " "); text != x.want || place != x.place {
			t.Errorf("%s: %q, place %t; want %q", name, text, place, x.want)
		}
	}
}

// testing computes MB/s from the time, unless a benchmark reports a rate of its own.
func TestOwnRates(t *testing.T) {
	const first = "BenchmarkA-8 1 1000000000 ns/op 500.0 MB/s\n"
	for second, rates := range map[string]int{
		"BenchmarkA-8 1 2000000000 ns/op 250.0 MB/s\n": 0,
		"BenchmarkA-8 1 1000000000 ns/op 400.0 MB/s\n": 2,
	} {
		var files []*format.File
		for _, text := range []string{first, second} {
			out, err := New().Read("x", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, &out)
		}
		format.Settle(New(), files)
		n := 0
		for _, f := range files {
			n += len(f.Records[0].Series) - 1
		}
		if n != rates {
			t.Errorf("%q after %q: %d rates, want %d", second, first, n, rates)
		}
		both, err := New().Read("x", []byte(first+second))
		if err != nil || len(both.Warnings) != rates/2 {
			t.Errorf("%q after %q: %q, %v", second, first, both.Warnings, err)
		}
	}
}

// What go test says about failures is not lost: a crash ends all later benchmarks, and go
// test -v writes a result behind the text that its benchmark printed.
func TestWhatIsMissingIsSaid(t *testing.T) {
	const good = "BenchmarkA-2\t10\t 5.0 ns/op\n"
	action := func(a string) string { return `{"Action":"` + a + `","Package":"p"}` + "\n" }
	start, out := action("start"), `{"Action":"output","Package":"p","Output":"BenchmarkA-2 10 5.0 ns/op\n"}`+"\n"
	for name, x := range map[string]struct {
		text, want string
		leftOut    int
		failed     int
	}{
		"text before a result": {good + "BenchmarkB\nnoisenoiseBenchmarkB-2   \t      20\t       872.1 ns/op\n",
			"x:3: a result follows other text in its line", 1, 0},
		"blanks before a result": {good + "    BenchmarkB-2   \t      20\t       872.1 ns/op\n",
			"x:2: a result follows other text in its line", 1, 0},
		"skipped": {good + "--- SKIP: BenchmarkB\n    b_test.go:5: no disk\n",
			"x:2: BenchmarkB was skipped", 0, 0},
		"text that names a benchmark": {good + "see BenchmarkB for more\nrunning BenchmarkC-2 10 times\n", "", 0, 0},
		"a panic": {good + "panic: x [recovered]\n\npanic: x\nFAIL\tex.com/p\t0.01s\n",
			"x:2: A program of benchmarks ended", 0, 1},
		"a timeout": {good + "*** Test killed with quit: ran too long (11m0s).\n",
			"x:2: A program of benchmarks ended", 0, 1},
		"not built":                {good + "FAIL\tex.com/p [build failed]\n", "The package ex.com/p was not built", 0, 1},
		"a panic after the name":   {good + "BenchmarkB-2   \tpanic: x\n", "x:2: A program of benchmarks ended", 0, 1},
		"a failure after the name": {good + "BenchmarkB-2   \t--- FAIL: BenchmarkB-2\n", "x:2: BenchmarkB-2 failed", 0, 1},
		"a failed package": {good + "exit status 3\nFAIL\tex.com/p\t0.01s\n",
			"x:3: The package ex.com/p failed", 0, 1},
		"a failed test": {good + "ok  \tex.com/p\t0.01s\n--- FAIL: TestB (0.00s)\n    --- FAIL: TestB/sub (0.00s)\nFAIL\n" +
			"exit status 1\nFAIL\tex.com/q\t0.01s\n", "x:3: TestB failed, so go test ran no benchmark", 0, 1},
		"no end": {"goos: linux\npkg: ex.com/p\n" + good,
			"x:2: The output of the package ex.com/p has no line PASS, FAIL or ok, so it may be incomplete", 0, 0},
		"no end before the next program": {"pkg: ex.com/p\n" + good + "goos: linux\npkg: ex.com/q\nPASS\n",
			"x:1: The output of the package ex.com/p has no line PASS", 0, 0},
		"a test program":        {"pkg: ex.com/p\n" + good + "PASS\n", "", 0, 0},
		"other programs":        {good + "goos: linux\n", "", 0, 0},
		"events without an end": {start + out, "x:1: The package p has no action pass, fail or skip, so the file may", 0, 0},
		"the last run lost its end": {start + action("pass") + start + out,
			"x:3: The package p has no action pass, fail or skip", 0, 0},
		"the last run lost its end and has no action start": {start + action("pass") + out,
			"x:3: The package p has no action pass, fail or skip", 0, 0},
		"the first run lost its end": {start + start + out + action("pass"),
			"x:1: The package p has no action pass, fail or skip", 0, 0},
		"two runs with ends":  {start + action("pass") + start + out + action("pass"), "", 0, 0},
		"events of a failure": {start + out + action("fail"), "x:3: The package p failed, so values", 0, 1},
		"events of a failure that the output names": {start + out +
			`{"Action":"output","Package":"p","Output":"FAIL\tp\t1s\n"}` + "\n" + action("fail"),
			"x:3: The package p failed, so values", 0, 1},
		"events with an end": {start + out + action("pass"), "", 0, 0},
		"a warning of go build": {`{"ImportPath":"p","Action":"build-output","Output":"# p\n"}` + "\n" + start + out +
			action("pass"), "", 0, 0},
		"all is right": {good + "PASS\nok  \tex.com/p\t0.01s\n", "", 0, 0},
	} {
		out, err := New().Read("x", []byte(x.text))
		said := strings.Join(out.Warnings, "\n")
		if err != nil || len(out.Records) != 1 || out.LeftOut != x.leftOut || len(out.Failures) != x.failed ||
			!strings.Contains(said, x.want) || x.want == "" && said != "" || len(strings.Split(said, "\n")) != 1 {
			t.Errorf("%s: %d records, %d left out, %q, %v", name, len(out.Records), out.LeftOut, said, err)
		}
	}
}
