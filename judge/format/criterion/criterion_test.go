package criterion

import (
	"strings"
	"testing"

	"bakeoff/judge/format/formattest"
)

func TestSuite(t *testing.T) { formattest.Run(t, New()) }

func FuzzRead(f *testing.F) { formattest.Fuzz(f, New()) }

// target/criterion/*/change/estimates.json has ratios and not times. It lacks the deviations that those of times have.
func TestRelativeChanges(t *testing.T) {
	const point = `{"confidence_interval":{"confidence_level":0.95,"lower_bound":%,"upper_bound":%},` +
		`"point_estimate":%,"standard_error":0.004}`
	change := strings.ReplaceAll(`{"mean":`+point+`,"median":`+point+`}`, "%", "-0.031")
	formattest.Mistakes(t, New(), []formattest.Mistake{{Name: "change", Text: change,
		Want: `x:1: the estimates of "benchmark" are changes relative to an earlier run (folder change) and no times`}})
}

// A folder above target may have the name criterion, too, and so may a group of benchmarks.
func TestBenchmarkOfPath(t *testing.T) {
	for path, want := range map[string]string{
		"target/criterion/fib/new/sample.json":                       "fib new",
		"/src/criterion/v1/target/criterion/fib/20/base/sample.json": "fib/20 base",
		"target/criterion/criterion/fib/new/sample.json":             "criterion/fib new",
		"old/criterion/fib/new/sample.json":                          "fib new",
		"/src/criterion/old/criterion/fib/new/sample.json":           "fib new",
		"sample.json": "benchmark ",
	} {
		if id, saved := benchmarkOfPath(path); id+" "+saved != want {
			t.Errorf("%s: %s %s, want %s", path, id, saved, want)
		}
	}
}

// On a terminal, Criterion.rs overwrites its progress. The name begins after it.
func TestOverwrittenProgress(t *testing.T) {
	text := "Benchmarking fib 20\rBenchmarking fib 20: Warming up for 3.0000 s\r            \r" +
		"fib 20                  time:   [1.0 ns 2.0 ns 3.0 ns]\r\n" +
		"Benchmarking a/long/name\ra/long/name\r\n                        time:   [1.0 ns 2.0 ns 3.0 ns]\r\n"
	out, err := New().Read("x", []byte(text))
	if err != nil || len(out.Records) != 2 || out.Records[0].Labels[0].Value != "fib 20" ||
		out.Records[1].Labels[0].Value != "a/long/name" || !New().Recognizes([]byte(text)) {
		t.Errorf("%+v, %v", out, err)
	}
}
