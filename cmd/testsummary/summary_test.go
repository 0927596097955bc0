package main

import (
	"strings"
	"testing"
)

// Output of go1.26 test -json, shortened.
const mixed = `{"Action":"start","Package":"bakeoff/a"}
{"Action":"run","Package":"bakeoff/a","Test":"TestGood"}
{"Action":"output","Package":"bakeoff/a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"pass","Package":"bakeoff/a","Test":"TestGood","Elapsed":0.1}
{"Action":"run","Package":"bakeoff/a","Test":"TestParent"}
{"Action":"run","Package":"bakeoff/a","Test":"TestParent/child"}
{"Action":"pass","Package":"bakeoff/a","Test":"TestParent/child","Elapsed":0}
{"Action":"pass","Package":"bakeoff/a","Test":"TestParent","Elapsed":0}
{"Action":"run","Package":"bakeoff/a","Test":"TestCrun"}
{"Action":"output","Package":"bakeoff/a","Test":"TestCrun","Output":"=== RUN   TestCrun\n"}
{"Action":"output","Package":"bakeoff/a","Test":"TestCrun","Output":"    needs crun: apt-get install crun\n"}
{"Action":"output","Package":"bakeoff/a","Test":"TestCrun","Output":"--- SKIP: TestCrun (0.00s)\n"}
{"Action":"skip","Package":"bakeoff/a","Test":"TestCrun","Elapsed":0}
{"Action":"pass","Package":"bakeoff/a","Elapsed":0.2}
{"Action":"start","Package":"bakeoff/none"}
{"Action":"skip","Package":"bakeoff/none","Elapsed":0}
`

const killed = `{"Action":"start","Package":"bakeoff/d"}
{"Action":"run","Package":"bakeoff/d","Test":"TestLong"}
` + mixed

const failing = `{"Action":"run","Package":"bakeoff/b","Test":"TestBad"}
{"Action":"run","Package":"bakeoff/b","Test":"TestBad/sub"}
{"Action":"output","Package":"bakeoff/b","Test":"TestBad/sub","Output":"    b_test.go:3: got 1, want 2\n"}
{"Action":"fail","Package":"bakeoff/b","Test":"TestBad/sub","Elapsed":0}
{"Action":"output","Package":"bakeoff/b","Test":"TestBad","Output":"--- FAIL: TestBad (0.00s)\n"}
{"Action":"fail","Package":"bakeoff/b","Test":"TestBad","Elapsed":0}
{"Action":"fail","Package":"bakeoff/b","Elapsed":0.2}
`

const broken = `{"ImportPath":"bakeoff/c","Action":"build-output","Output":"c/c.go:3:1: syntax error\n"}
{"ImportPath":"bakeoff/c","Action":"build-fail"}
{"Action":"fail","Package":"bakeoff/c","Elapsed":0,"FailedBuild":"bakeoff/c"}
`

// A package that waited a minute for its turn and then ran for two seconds.
const waited = `{"Time":"2026-01-01T00:00:00Z","Action":"start","Package":"bakeoff/e"}
{"Time":"2026-01-01T00:01:00Z","Action":"run","Package":"bakeoff/e","Test":"TestLate"}
{"Time":"2026-01-01T00:01:02Z","Action":"pass","Package":"bakeoff/e","Test":"TestLate","Elapsed":2}
{"Time":"2026-01-01T00:01:02Z","Action":"pass","Package":"bakeoff/e","Elapsed":62}
`

// Two slow tests. A subtest's time is part of its parent's.
const slowTests = `{"Action":"pass","Package":"bakeoff/f","Test":"TestSlow","Elapsed":10}
{"Action":"pass","Package":"bakeoff/f","Test":"TestSlower/sub","Elapsed":11}
{"Action":"fail","Package":"bakeoff/f","Test":"TestSlower","Elapsed":11.2}
{"Action":"pass","Package":"bakeoff/f","Test":"TestFast","Elapsed":9.9}
{"Action":"fail","Package":"bakeoff/f","Elapsed":32}
`

func TestSummary(t *testing.T) {
	for _, c := range []struct {
		name, in, refuse string
		code             int
		want             []string
		packages         []string
	}{
		{"leaves are counted, skips have reasons", mixed, "", 0, []string{
			"skipped 1: needs crun: apt-get install crun\n    a.TestCrun\n",
			"2 passed, 0 failed, 1 skipped\n"}, nil},
		{"a refused skip fails", mixed, "apt-get install", 1, []string{
			"--- FAIL a.TestCrun skipped, and must not here: needs crun", "2 passed, 1 failed, 0 skipped\n"}, nil},
		{"waiting is not running", waited, "", 0, []string{"  2.0 s  1 passed, 0 failed"}, nil},
		{"lanes have their time", "lane 1: x\n" + waited + "lane 2: y\n" + waited, "", 0, []string{
			"lane 1: 1 packages in 2 s\nlane 2: 1 packages in 2 s\n2 passed"}, nil},
		{"slow tests are named, the slowest first", slowTests, "", 1, []string{
			"slow: f.TestSlower, 11 s\nslow: f.TestSlow, 10 s\nfailed: "}, nil},
		{"a failure is reported once", failing, "", 1, []string{"got 1, want 2", "failed: b.TestBad/sub\n0 " +
			"passed, 1 failed, 0 skipped\n"}, nil},
		{"a build that fails counts", broken, "", 1, []string{"syntax error", "0 passed, 1 failed, 0 skipped\n"}, nil},
		{"a package that never ended failed", killed, "", 1,
			[]string{"--- FAIL d never ended", "2 passed, 1 failed, 1 skipped\n"}, nil},
		{"a package that was to be tested and was not failed", mixed + "phase 2\n", "", 1, []string{"phase 2\n",
			"--- FAIL z was not tested\n", "1 packages failed outside of their tests\n2 passed, 1 failed, 1 skipped\n"},
			[]string{"bakeoff/a", "bakeoff/z"}},
		{"other words are passed on", "go: no such module\n", "", 2,
			[]string{"go: no such module\n", "no package was tested"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			if code := run(strings.NewReader(c.in), &out, c.refuse, false, c.packages...); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, w := range c.want {
				if !strings.Contains(out.String(), w) {
					t.Errorf("no %q in\n%s", w, out.String())
				}
			}
		})
	}
}

// TestVerbose prints what tests say once, and the skips again at the end.
func TestVerbose(t *testing.T) {
	var out strings.Builder
	if code := run(strings.NewReader(mixed+failing), &out, "", true); code != 1 {
		t.Errorf("exit code %d", code)
	}
	for want, times := range map[string]int{"=== RUN   TestGood\n": 1, "b_test.go:3: got 1, want 2": 1,
		"needs crun: apt-get install crun": 2} {
		if got := strings.Count(out.String(), want); got != times {
			t.Errorf("%q is there %d times, want %d\n%s", want, got, times, out.String())
		}
	}
}
