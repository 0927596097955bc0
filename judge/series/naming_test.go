package series

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bakeoff/judge/format"
	"bakeoff/judge/format/gobench"
	"bakeoff/judge/format/hyperfine"
	"bakeoff/judge/format/jmh"
)

// written reads a text as a file of a format.
func written(t *testing.T, f format.Format, name, text string) Source {
	t.Helper()
	read, err := f.Read(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return Source{Name: name, Path: name, File: read}
}

// rowsText writes the summaries: "cell contender n", one a line.
func rowsText(r Result) string {
	var out []string
	for _, s := range r.Summaries {
		out = append(out, fmt.Sprintf("%s %s %d", s.Cell, s.Contender, s.N))
	}
	return strings.Join(out, "\n")
}

// Records with different labels have different cells, however their labels are written.
func TestCellsOfDifferentWorkAreDifferent(t *testing.T) {
	with := func(values ...string) format.Record {
		x := rec("", 0, 1)
		x.Labels = nil
		for i, v := range values {
			x.Labels = append(x.Labels, format.Label{Name: string(rune('k' + i)), Value: v})
		}
		return x
	}
	cut := "BenchmarkTrim/cut=-8 1 10 ns/op\nBenchmarkTrim/all=-8 1 500 ns/op\n"
	routes := "BenchmarkRouter/GET=/users-8 1 100 ns/op\nBenchmarkRouter/POST=/users-8 1 900 ns/op\n"
	for name, x := range map[string]struct {
		source Source
		want   string
	}{
		"an empty part":      {written(t, gobench.New(), "f", cut), "Trim/cut= f 1\nTrim/all= f 1"},
		"a part without one": {written(t, gobench.New(), "f", routes), "Router/GET=/users f 1\nRouter/POST=/users f 1"},
		"no part": {written(t, gobench.New(), "f", "BenchmarkA//b-8 1 1 ns/op\nBenchmarkA/b-8 1 1 ns/op\n"),
			"A/\"\"/b f 1\nA/b f 1"},
		"slashes": {source("f", with("a", "b/c"), with("a/b", "c")), "k=a/l=b/c f 1\nk=a/b/l=c f 1"},
		"slashes and names": {source("f", with("a", "b/c"), with("a/b", "c"), with("k=a", "l=b/c")),
			"k=a/l=b/c f 1\nk=a/b/l=c f 1\nk=a/l=b/c #2 f 1"},
	} {
		r, err := Compare(doc, []Source{x.source}, Option{By: ByFile})
		if got := rowsText(r); err != nil || got != x.want {
			t.Errorf("%s:\n%s\nwant\n%s\n%v", name, got, x.want, err)
		}
	}
}

// An empty value of a parameter is a value. A record without the parameter is left out.
func TestEmptyValues(t *testing.T) {
	flags := written(t, hyperfine.New(), "f", `{"results": [
{"command": "cc  x.c", "times": [1], "parameters": {"flag": ""}},
{"command": "cc -O2 x.c", "times": [2], "parameters": {"flag": "-O2"}},
{"command": "true", "times": [3]}]}`)
	codecs := written(t, jmh.New(), "f", `[
{"benchmark": "a.B.c", "mode": "avgt", "params": {"codec": ""}, 
 "primaryMetric": {"scoreUnit": "s/op", "rawData": [[1]]}},
{"benchmark": "a.B.c", "mode": "avgt", "params": {"codec": "x"}, 
 "primaryMetric": {"scoreUnit": "s/op", "rawData": [[2]]}}]`)
	parts := written(t, gobench.New(), "f", "BenchmarkSplit/sep=-8 1 1 ns/op\nBenchmarkSplit/sep=,-8 1 3 ns/op\n")
	quotes := source("f", rec("", 0, 1), rec(`""`, 1, 2))
	quotes.Records[0].Labels[0].Shown = "who="
	for _, x := range []struct {
		source     Source
		by         string
		contenders []string
		without    int
	}{
		{flags, "flag", []string{`""`, "-O2"}, 1},
		{codecs, "codec", []string{`""`, "x"}, 0},
		{parts, "sep", []string{`""`, ","}, 0},
		{quotes, "who", []string{`""`, `"\"\""`}, 0},
	} {
		r, err := Compare(doc, []Source{x.source}, Option{By: x.by, Baseline: x.contenders[0], Group: x.by})
		if err != nil || !slices.Equal(r.Contenders, x.contenders) || len(r.Comparisons) != 1 ||
			r.Comparisons[0].Group != x.contenders[1] && x.without == 0 ||
			strings.Contains(strings.Join(r.Warnings, ""), "are left out") != (x.without > 0) {
			t.Errorf("%s: %q, %+v, %q, %v", x.by, r.Contenders, r.Comparisons, r.Warnings, err)
		}
	}
}

// A hint names a label by which contenders can be compared, or no label.
func TestHintsHelp(t *testing.T) {
	const lines = "BenchmarkA-8 1 5 ns/op\n"
	result := func(mode, unit string) string {
		return `[{"benchmark": "a.B.c", "mode": "` + mode + `", "primaryMetric": {"scoreUnit": "` + unit +
			`", "rawData": [[1]]}}]`
	}
	for name, x := range map[string]struct {
		a, b Source
		want string
	}{
		"other packages": {written(t, gobench.New(), "a", "pkg: x\n"+lines), written(t, gobench.New(), "b", "pkg: y\n"+lines),
			`Use --contender "pkg" to compare by it.`},
		"no package": {written(t, gobench.New(), "a", "pkg: x\n"+lines), written(t, gobench.New(), "b", lines),
			`Some results have no "pkg".`},
		"other metrics": {
			written(t, jmh.New(), "a", result("avgt", "s/op")), written(t, jmh.New(), "b", result("thrpt", "ops/s")),
			`any of these labels: "mode". They did different work.`},
	} {
		r, err := Compare(doc, []Source{x.a, x.b}, Option{})
		if n := len(r.Warnings); err != nil || n == 0 || !strings.HasSuffix(r.Warnings[n-1], x.want) {
			t.Errorf("%s: %q, %v", name, r.Warnings, err)
		}
	}
}

// Large suites of benchmarks fit, and the advice beyond the bounds helps.
func TestBounds(t *testing.T) {
	many := func(contenders, cells int) Source {
		s := source("f")
		for i := range max(contenders, cells) {
			x := rec(fmt.Sprint(i%contenders), i, 1)
			x.Labels = append(x.Labels, format.Label{Name: "cell", Value: fmt.Sprint(i % cells)})
			s.Records = append(s.Records, x)
		}
		return s
	}
	for _, x := range []struct {
		contenders, cells int
		want              string
	}{
		{2, 5000, ""},
		{1001, 1, "f.json:1001: more than 1000 contenders; choose another label with --contender"},
		{1, 20_001, "f.json:20001: more than 20000 metrics of cells; write the results into several files"},
	} {
		_, err := Compare(doc, []Source{many(x.contenders, x.cells)}, Option{})
		if got := fmt.Sprint(err); x.want == "" && err != nil || !strings.HasPrefix(got, x.want) {
			t.Errorf("%d contenders, %d cells: %v", x.contenders, x.cells, err)
		}
	}
}

// A fact that differs where two contenders are compared is in a warning, unless the list of differences tells it.
func TestUnequalFacts(t *testing.T) {
	with := func(cell string, facts ...string) format.Record {
		r := rec(cell, 0, 1)
		r.Facts = map[string]string{}
		for i, v := range facts {
			if v != "" {
				r.Facts[[]string{"version", "host"}[i]] = v
			}
		}
		return r
	}
	const differ = `Results that are compared differ in "version": a has "1" and b has "2" at x`
	for name, c := range map[string]struct {
		a, b []format.Record
		want string
	}{
		"equal":       {[]format.Record{with("x", "1"), with("y", "2")}, []format.Record{with("x", "1"), with("y", "2")}, ""},
		"of the file": {[]format.Record{with("x", "1"), with("y", "1")}, []format.Record{with("x", "2"), with("y", "2")}, ""},
		"disjoint":    {[]format.Record{with("x", "1"), with("y", "2")}, []format.Record{with("x", "3"), with("y", "4")}, ""},
		"swapped": {[]format.Record{with("x", "1", "h"), with("y", "2", "h")},
			[]format.Record{with("x", "2", "i"), with("y", "1", "i")}, differ + " (and other values at 1 other cell)."},
		"one": {[]format.Record{with("x", "1"), with("y", "2")}, []format.Record{with("x", "2"), with("y", "2")},
			differ + "."},
		"unknown": {[]format.Record{with("x", ""), with("y", "2")}, []format.Record{with("x", "2"), with("y", "2")},
			strings.Replace(differ, `"1"`, `"unavailable"`, 1) + "."},
		"not compared": {[]format.Record{with("x", "1"), with("y", "2")}, []format.Record{with("y", "2")}, ""},
	} {
		r := compared(t, Option{By: ByFile}, source("a", c.a...), source("b", c.b...))
		if got := strings.Join(r.Warnings, " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A file without a result that another file of its contender has is in a warning: it is none of "missing".
func TestLackingFiles(t *testing.T) {
	file := func(name string, cells ...string) Source {
		s := source(name)
		for i, c := range cells {
			s.Records = append(s.Records, rec(c, i, 1))
		}
		return s
	}
	const lacks = "a.json has no result of y"
	for name, c := range map[string]struct {
		files []Source
		want  string
	}{
		"all": {[]Source{file("a", "x", "y"), file("a", "x", "y")}, ""},
		"one": {[]Source{file("a", "x", "y"), file("a", "x")},
			lacks + ", which another file of a has. The run may be incomplete."},
		"several":          {[]Source{file("a", "x", "y", "z"), file("a", "x")}, lacks + " and 1 other cell, which"},
		"parts of one run": {[]Source{file("a", "x"), file("a", "y")}, ""},
		"other contender":  {[]Source{file("a", "x", "y"), file("b", "x")}, ""},
	} {
		r := compared(t, Option{By: ByFile}, c.files...)
		if got := strings.Join(r.Warnings, " "); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// The name of a run does not keep the files of a contender apart, unless another contender has a run of this name.
func TestNamesOfRuns(t *testing.T) {
	run := func(file string, names ...string) Source {
		s := source(file)
		for i, name := range names {
			r := rec("x", i, 1)
			r.Facts = map[string]string{"version": "1"}
			r.Labels = append(r.Labels, format.Label{Name: "system", Value: name, Setting: true, Place: true, Run: true})
			s.Records = append(s.Records, r)
		}
		return s
	}
	const pooled = `Values that differ in "system" ("1", "2", "3" and 1 more) count as repetitions.`
	for name, c := range map[string]struct {
		files      []Source
		want, warn string
	}{
		"repetitions": {[]Source{run("a", "1"), run("a", "2"), run("b", "3"), run("b", "4")}, "x a 2, x b 2", pooled},
		"machines": {[]Source{run("a", "1"), run("a", "2"), run("b", "1"), run("b", "2")},
			"x/1 a 1, x/1 b 1, x/2 a 1, x/2 b 1", ""},
		"in one file": {[]Source{run("a", "1", "2"), run("b", "3")}, "x/1 a 1, x/2 a 1, x/3 b 1", ""},
		"one each":    {[]Source{run("a", "1"), run("b", "2")}, "x a 1, x b 1", ""},
	} {
		r := compared(t, Option{By: ByFile}, c.files...)
		rows := strings.Split(rowsText(r), "\n")
		slices.Sort(rows)
		warnings := strings.Join(r.Warnings, " ")
		if got := strings.Join(rows, ", "); got != c.want || c.warn != "" && !strings.Contains(warnings, c.warn) {
			t.Errorf("%s: %s, want %s; %q", name, got, c.want, warnings)
		}
	}
}
