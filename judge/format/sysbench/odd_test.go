package sysbench

import (
	"slices"
	"strings"
	"testing"

	"bakeoff/judge/format/formattest"
)

func TestMistakes(t *testing.T) {
	const head = "sysbench 2.7.0\nNumber of threads: 1\n"
	formattest.Mistakes(t, New(), []formattest.Mistake{
		{Name: "nothing", Text: "hello\n", Want: "x:1: no line begins with"},
		{Name: "cut off", Text: head, Want: "x:1: the report of sysbench 2.7.0 is incomplete"},
		{Name: "before 1.0", Text: "sysbench 0.4.12:  multi-threaded system evaluation benchmark\nNumber of threads: 1\n" +
			"Doing CPU performance benchmark\ntotal time: 1s\ntotal number of events: 5\n",
			Want: "x:1: reports of sysbench 0.4.12 are not supported; use sysbench 1.0 or 1.1"},
		{Name: "a decimal comma", Text: head + "total number of events: 5\ntotal time: 1,5s\n",
			Want: `x:1: the report of sysbench 2.7.0 cannot be read: total time: "1,5s": not a number followed by "s"`},
		{Name: "checkpoints", Text: head + "[ 1s ] Checkpoint report:\ntotal time: 1s\ntotal number of events: 5\n",
			Want: "x:1: the report has several parts; run sysbench 2.7.0 without --report-checkpoints"},
		{Name: "no run", Text: "sysbench 1.0.20\n\nRemoving test files...\n",
			Want: "x:1: the file has no report of sysbench TEST run"},
		{Name: "cut off after a line", Text: "sysbench 1.0.20\n\n", Want: "x:1: the report of sysbench 1.0.20 has no line"},
		{Name: "another version", Text: head + "total number of events: 5\nelapsed: 1s\n",
			Want: "x:1: the report of sysbench 2.7.0 has neither \"total time:\" (version 1.0) nor"},
	})
}

// A number that cannot be read does not vanish without a warning.
func TestLeftOut(t *testing.T) {
	const report = "sysbench 1.0.20\nNumber of threads: 1\ntotal time: 1s\ntotal number of events: 5\n"
	formattest.LeftOut(t, New(), []formattest.Mistake{
		{Name: "a mean", Text: report + "   avg:   3,01\n", Want: `x:1: latency-mean: avg: "3,01": not a number`},
		{Name: "a percentile", Text: report + "   95th percentile:   -nan\n", Want: `x:1: latency-p95: "-nan" is not a`},
		{Name: "an empty percentile", Text: report + "   95th percentile:   \n   sum:  9\n", Want: `x:1: latency-p95: "" is`},
		{Name: "a bandwidth", Text: report + "64.00 MiB transferred (nan MiB/sec)\n", Want: `x:1: bandwidth: "nan" is not`},
		{Name: "a mean, and a line of a script", Text: report + "avg: 5\n   avg:   3.01\n",
			Want: `x:1: latency-mean: two lines begin with "avg:"`},
		{Name: "two rates", Text: report + "reads/s: 5\n   reads/s:   3.01\n",
			Want: `x:1: reads: two lines begin with "reads/s:"`},
		{Name: "a rate", Text: report + "   reads/s:   inf\n", Want: `x:1: reads: "inf" is not a number`},
	})
}

// What prepare and cleanup print is no report.
func TestOtherCommands(t *testing.T) {
	const run = "sysbench 1.0.20\n\nRunning the test with following options:\nNumber of threads: 1\n" +
		"total time: 1s\ntotal number of events: 5\n"
	out, err := New().Read("x", []byte("sysbench 1.0.20\n\nCreating table 'sbtest1'...\n"+run+
		"sysbench 1.0.20\n\nDropping table 'sbtest1'...\n"))
	if err != nil || len(out.Records) != 1 || out.LeftOut != 0 || len(out.Warnings) != 0 {
		t.Errorf("%+v, %v", out, err)
	}
}

// A message about a failure counts as one. Without a report, the run failed.
func TestFailuresAreReported(t *testing.T) {
	const head = "sysbench 1.0.20\nNumber of threads: 1\nFATAL: `thread_run' function failed\n"
	out, err := New().Read("x", []byte(head+"total time: 1s\ntotal number of events: 5\n"))
	want := []string{"x:1: sysbench reports a failure, so the results may be those of a part of the run: " +
		"FATAL: `thread_run' function failed"}
	if err != nil || !slices.Equal(out.Warnings, want) || !slices.Equal(out.Failures, want) {
		t.Errorf("%+v, %v", out, err)
	}
	for text, want := range map[string]string{head: "FATAL: `thread_run' function failed",
		"sysbench 1.0.20\nNumber of threads: 1\nPANIC: unprotected error in call to Lua API (x)\n": "" +
			"PANIC: unprotected error in call to Lua API (x)"} {
		out, err = New().Read("x", []byte(text))
		if err != nil || out.Records[0].Failed != 1 || out.Records[0].Reason != "sysbench ended without a report: "+want {
			t.Errorf("%+v, %v", out, err)
		}
	}
}

// A fileio report of version 1.1 ends with the sum of the latencies.
func TestIncompleteFileio(t *testing.T) {
	formattest.Mistakes(t, New(), []formattest.Mistake{{Name: "cut off", Text: "sysbench 1.1.0\nNumber of threads: 1\n" +
		"Doing random read test\n   read:  IOPS=5.00 1.00 MiB/s (1.05 MB/s)\n",
		Want: `x:1: the report of sysbench 1.1.0 is incomplete: no line begins with "sum:"`}})
}

// What fileio prints about its work distinguishes results.
func TestOptionsOfFileio(t *testing.T) {
	lines := []string{"Extra file open flags: (none)", "2 files, 4MiB each", "8MiB total file size", "Block size 16KiB",
		"Calling fsync() at the end of test, Enabled.", "Using synchronous I/O mode", "Using checksums validation."}
	seen := map[string]bool{}
	for i := range len(lines) + 1 {
		changed := slices.Clone(lines)
		if i < len(lines) {
			changed[i] += " x"
		}
		out, err := New().Read("x", []byte("sysbench 1.0.20\nNumber of threads: 1\n\n"+strings.Join(changed, "\n")+
			"\nDoing random read test\nInitializing worker threads...\ntotal time: 1s\ntotal number of events: 5\n"))
		if err != nil || seen[out.Records[0].Labels[1].Value] {
			t.Errorf("%q: %+v, %v", changed, out, err)
			continue
		}
		seen[out.Records[0].Labels[1].Value] = true
	}
}

// Reports of one test with other options, and of tests that do not repeat all options,
// are not pooled.
func TestRepetitions(t *testing.T) {
	report := func(lines string) string {
		return "sysbench 1.0.20\nNumber of threads: 1\n" + lines + "total time: 1s\ntotal number of events: 5\n"
	}
	cpu, other := report("Prime numbers limit: 10\n"), report("")
	out, err := New().Read("x", []byte(cpu+cpu+report("Prime numbers limit: 20\n")+other+other))
	if err != nil || len(out.Records) != 5 {
		t.Fatalf("%+v, %v", out, err)
	}
	for i, want := range []bool{false, true, false, false, false} {
		if out.Records[i].Repeats != want {
			t.Errorf("record %d: %+v", i, out.Records[i])
		}
	}
	if got := out.Records[4].Labels[0].Value; got != "other #2" {
		t.Errorf("the second report has the test %q", got)
	}
}

// With --verbosity=5 every test prints a line that begins with Doing, as fileio always does.
func TestVerboseReports(t *testing.T) {
	for doing, want := range map[string]string{
		"CPU performance benchmark": "cpu", "memory operations speed test": "memory",
		"mutex performance test": "other", "thread subsystem performance test": "other", "random r/w test": "fileio"} {
		text := "sysbench 1.0.20\nNumber of threads: 1\nDoing " + doing + "\ntotal time: 1s\ntotal number of events: 5\n"
		out, err := New().Read("x", []byte(text))
		if err != nil || len(out.Records) != 1 {
			t.Fatalf("%s: %+v, %v", doing, out, err)
		}
		labels := out.Records[0].Labels
		if labels[0].Value != want || (labels[1].Value == "") != (want != "fileio") {
			t.Errorf("%s: test %q, options %q", doing, labels[0].Value, labels[1].Value)
		}
	}
}
