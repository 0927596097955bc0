package gobench

import (
	"strings"
	"testing"

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
	if got := strings.Join(names, ", "); got != "sec/op s/op lower, req/s req/s higher, p99-sec p99-sec " {
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
	if v, ok := r.Label("goos"); !ok || v != "linux" || r.Block != nil {
		t.Errorf("%+v", r)
	}
}

func TestMistakes(t *testing.T) {
	formattest.Mistakes(t, New(), []formattest.Mistake{
		{Name: "nothing", Text: "PASS\n", Want: "x:1: the file has no results of benchmarks"},
		{Name: "JSON", Text: `{"Action":"output","Output":"BenchmarkA 1 5 ns/op\n"}`,
			Want: "x:1: this is the output of go test -json"},
		{Name: "text in the line", Text: "BenchmarkA 1 5 ns/op\nBenchmarkB-8 hello\n",
			Want: "x:2: parsing iteration count: invalid syntax; if the benchmark printed text into"},
		{Name: "no block", Text: "block: one\nBenchmarkA 1 5 ns/op\n", Want: `x:2: the line "block: one" before this result`},
		{Name: "negative", Text: "BenchmarkA 1 -5 ns/op\n", Want: "x:1: -5e-09 sec/op is not a positive number"},
		{Name: "not finite", Text: "BenchmarkA 1 Inf ns/op\n", Want: "x:1: +Inf sec/op is not a positive number"},
		{Name: "twice", Text: "BenchmarkA 1 5 ns/op 6 ns/op\n", Want: "x:1: the line has two values in sec/op"},
		{Name: "a long result",
			Text: "BenchmarkB 1 5 ns/op\nBenchmarkA 1 5 ns/op" + strings.Repeat(" ", 70<<10) + "\n",
			Want: "x:2: the result has more than 61440 bytes"},
	})
}
