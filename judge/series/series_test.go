package series

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"bakeoff/base/fault"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/judge/format"
	"bakeoff/judge/format/all"
)

// doc is a format whose files are in the order of measurement.
var doc = format.Doc{Name: "test", By: "who", InOrder: true, Order: "One after another."}

var latency = sample.LowerRatio("time", "s", "")

// rec is a record of one contender with values of latency.
func rec(who string, turn int, values ...float64) format.Record {
	return format.Record{Line: turn + 1, Turn: turn, Labels: []format.Label{{Name: "who", Value: who}},
		Series: []format.Series{{Metric: latency, Values: values}}}
}

func source(name string, records ...format.Record) Source {
	return Source{Name: name, Path: name + ".json", File: format.File{Program: "test 1", Records: records}}
}

func compared(t *testing.T, opt Option, sources ...Source) Result {
	t.Helper()
	r, err := Compare(doc, sources, opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// stored reads a stored file of a real program.
func stored(t *testing.T, name, archive string, files ...string) (format.Doc, []Source) {
	t.Helper()
	text, err := os.ReadFile("../format/" + archive)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all.Formats(), func(f format.Format) bool { return f.Doc().Name == name })
	x := all.Formats()[i]
	var out []Source
	for _, f := range txtar.Parse(text).Files {
		if slices.Contains(files, f.Name) {
			read, err := x.Read(f.Name, f.Data)
			if err != nil {
				t.Fatal(err)
			}
			format.Settle(x, []*format.File{&read})
			stem, _, _ := strings.Cut(f.Name, ".")
			out = append(out, Source{Name: stem, Path: f.Name, File: read})
		}
	}
	if len(out) != len(files) {
		t.Fatalf("%s has %d of %q", archive, len(out), files)
	}
	return x.Doc(), out
}

// The values of real commands, gzip -1 and gzip -6, give an interval around the ratio
// of their medians and no verdict, whatever the difference.
func TestHyperfine(t *testing.T) {
	d, sources := stored(t, "hyperfine", "hyperfine/testdata/two.txtar", "two.json")
	r, err := Compare(d, sources, Option{})
	if err != nil || len(r.Comparisons) != 1 || len(r.Summaries) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	c := r.Comparisons[0]
	medians := *r.Summaries[1].Median / *r.Summaries[0].Median
	if c.Verdict != NotInterleaved || c.Order != Sequence || c.N != [2]int{12, 12} || c.Scale != sample.Ratio {
		t.Errorf("%+v", c)
	}
	if math.Abs(*c.Ratio/medians-1) > 0.1 || !(*c.CI[0] < *c.Ratio && *c.Ratio < *c.CI[1] &&
		*c.CI[0] > 1.5 && *c.CI[1] < 5) {
		t.Errorf("%v [%v, %v], the medians differ by %v", *c.Ratio, *c.CI[0], *c.CI[1], medians)
	}
	if !strings.HasPrefix(c.Baseline, "gzip -1") || c.Cell != "" || r.By != "command" {
		t.Errorf("baseline %q, cell %q, by %q", c.Baseline, c.Cell, r.By)
	}
	for _, x := range r.Results().Comparisons {
		if x.Verdict != analysis.Inconclusive || len(x.Gates) != 1 || x.Gates[0].Name != "not interleaved" {
			t.Errorf("for --fail-on: %+v", x)
		}
	}
}

// What is known about the order is what the files say, and nothing else.
func TestOrders(t *testing.T) {
	at := func(r format.Record, second int) format.Record {
		r.When = time.Unix(int64(second), 0)
		return r
	}
	disordered := doc
	disordered.InOrder = false
	for _, c := range []struct {
		name    string
		doc     format.Doc
		sources []Source
		want    Order
	}{
		{"one after another", doc, []Source{source("f", rec("a", 0), rec("a", 1), rec("b", 2), rec("b", 3))}, Sequence},
		{"by turns", doc, []Source{source("f", rec("a", 0), rec("b", 1), rec("a", 2), rec("b", 3))}, Turns},
		{"together", doc, []Source{source("f", rec("a", 0), rec("b", 0))}, Together},
		{"two files without times", doc, []Source{source("a", rec("a", 0)), source("b", rec("b", 0))}, Unknown},
		{"two files with times", doc, []Source{source("a", at(rec("a", 0), 5)), source("b", at(rec("b", 0), 3))}, Sequence},
		{"files by turns", doc, []Source{source("a", at(rec("a", 0), 1)), source("a", at(rec("a", 0), 3)),
			source("b", at(rec("b", 0), 2))}, Turns},
		{"files of the same time", doc, []Source{source("a", at(rec("a", 0), 1)), source("b", at(rec("b", 0), 1))}, Unknown},
		{"a file without a time", doc, []Source{source("a", at(rec("a", 0), 1)), source("b", rec("b", 0))}, Unknown},
		{"a file in another order", disordered, []Source{source("f", rec("a", 0), rec("b", 1))}, Unknown},
		{"a file in another order, with times", disordered,
			[]Source{source("f", at(rec("a", 0), 1), at(rec("b", 0), 2))}, Sequence},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i := range c.sources {
				for k := range c.sources[i].Records {
					c.sources[i].Records[k].Series[0].Values = []float64{1}
					c.sources[i].Name = "f"
				}
			}
			r, err := Compare(c.doc, c.sources, Option{By: "who"})
			if err != nil || len(r.Comparisons) != 1 || r.Comparisons[0].Order != c.want {
				t.Errorf("%+v, %v; want %s", r.Comparisons, err, c.want)
			}
		})
	}
}

// Without a number of blocks there are no blocks: no file of a real program without
// them gives rows.
func TestNeverInventsBlocks(t *testing.T) {
	for name, archive := range map[string][3]string{
		"hyperfine": {"hyperfine/testdata/two.txtar", "two.json"},
		"go":        {"gobench/testdata/count.txtar", "count.txt", "algo"},
		"fio":       {"fio/testdata/together.txtar", "together.json"},
		"phoronix":  {"phoronix/testdata/systems.txtar", "composite.xml"},
		"pytest":    {"pytest/testdata/one.txtar", "one.json"},
	} {
		d, sources := stored(t, name, archive[0], archive[1])
		rows, why, err := Rows(d, sources, Option{By: archive[2]})
		if len(rows)+len(why) > 0 || err != nil {
			t.Errorf("%s: %d rows, %q, %v", name, len(rows), why, err)
		}
		r, err := Compare(d, sources, Option{By: archive[2]})
		if err != nil || len(r.Comparisons) == 0 {
			t.Errorf("%s: %d comparisons, %v", name, len(r.Comparisons), err)
		}
		for _, c := range r.Comparisons {
			if c.Verdict != NotInterleaved || c.Order == "" {
				t.Errorf("%s: %+v", name, c)
			}
		}
	}
}

// Rows are in the blocks that the file names, at the places that they have in it.
func TestRows(t *testing.T) {
	d, sources := stored(t, "go", "gobench/testdata/blocks.txtar", "blocks.txt")
	rows, why, err := Rows(d, sources, Option{By: "version"})
	if err != nil || len(rows) != 24 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	if len(why) != 1 || !strings.HasPrefix(why[0], "copied-bytes of Copy gets no verdict") {
		t.Errorf("%q", why)
	}
	first := rows[0]
	if first.Block != 1 || first.Contender != "first" || first.Workload != "Copy" || first.Metric.Name != "sec/op" ||
		first.Line != 7 {
		t.Errorf("%+v", first)
	}
	results, err := analysis.AnalyseRows(rows, "blocks.txt", analysis.TableOptions{Margin: 0.02})
	if err != nil || len(results) != 1 || results[0].Blocks != 12 || len(results[0].Comparisons) != 1 {
		t.Errorf("%+v, %v", results, err)
	}
}

// A file that names blocks, but not so that they can be used, gives a reason.
func TestRowsThatCannotBeUsed(t *testing.T) {
	in := func(block int, r format.Record) format.Record {
		r.Block = &block
		return r
	}
	full := source("f", in(1, rec("a", 0, 1)), in(1, rec("b", 1, 1)))
	for _, c := range []struct {
		name    string
		sources []Source
		by      string
		want    string
	}{
		{"two files", []Source{full, full}, "who", "common order is unknown"},
		{"only some", []Source{source("f", in(1, rec("a", 0, 1)), rec("b", 1, 1))}, "who",
			"Only 1 of 2 results have a block"},
		{"one contender", []Source{full}, ByFile, "choose with --contender"},
	} {
		rows, why, err := Rows(doc, c.sources, Option{By: c.by})
		if len(rows) > 0 || err != nil || len(why) != 1 || !strings.Contains(why[0], c.want) {
			t.Errorf("%s: %d rows, %q, %v", c.name, len(rows), why, err)
		}
	}
	other := in(1, rec("", 2, 1))
	rows, why, err := Rows(doc, []Source{source("f", in(1, rec("a", 0, 1)), in(1, rec("b", 1, 1)), other)}, Option{})
	if err != nil || len(rows) != 2 || len(why) != 1 || why[0] != `1 results have no "who" and are left out.` {
		t.Errorf("%+v, %q, %v", rows, why, err)
	}
	zero := source("f", in(1, rec("a", 0, 0)), in(1, rec("b", 1, 1)))
	rows, _, err = Rows(doc, []Source{zero}, Option{})
	if err != nil || len(rows) != 2 || rows[0].Metric.Scale != sample.Difference || rows[0].Workload != "test" {
		t.Errorf("%+v, %v", rows, err)
	}
}

// Several names of files make the files the contenders; files of one name are
// repetitions. Facts that differ are listed.
func TestFiles(t *testing.T) {
	with := func(s Source, fact string) Source {
		for i := range s.Records {
			s.Records[i].Facts = map[string]string{"cpu": fact, "os": "x"}
		}
		return s
	}
	r := compared(t, Option{}, with(source("old", rec("a", 0, 1, 2, 3)), "fast"),
		with(source("new", rec("a", 0, 2)), "slow"),
		with(source("old", rec("a", 0, 4, 5, 6)), "fast"))
	if r.By != ByFile || !slices.Equal(r.Contenders, []string{"old", "new"}) || len(r.Comparisons) != 1 {
		t.Fatalf("%+v", r)
	}
	c := r.Comparisons[0]
	if c.Baseline != "old" || c.N != [2]int{1, 6} || c.Cell != "a" {
		t.Errorf("%+v", c)
	}
	if c.CI[0] != nil || c.CI[1] != nil || c.Ratio == nil || len(c.Warnings) != 1 ||
		!strings.Contains(c.Warnings[0], "at least 6 values, and one has 1") {
		t.Errorf("one value: %+v", c)
	}
	want := []Difference{{"cpu", []Value{{"old", "fast"}, {"new", "slow"}}}}
	if fmt.Sprint(r.Differences) != fmt.Sprint(want) {
		t.Errorf("%+v", r.Differences)
	}
}

// By another label, files of other names are other cells: unlike values are not
// mixed.
func TestFilesAreCells(t *testing.T) {
	r := compared(t, Option{By: "who"}, source("x", rec("a", 0, 1), rec("b", 1, 2)),
		source("y", rec("a", 0, 3), rec("b", 1, 4)))
	var got []string
	for _, c := range r.Comparisons {
		got = append(got, fmt.Sprintf("%s %.0f", c.Cell, *c.Ratio*3))
	}
	if strings.Join(got, ", ") != "file=x 6, file=y 4" {
		t.Errorf("%q", got)
	}
}

// Values of zero have no ratio, so they are compared by difference.
func TestZero(t *testing.T) {
	r := compared(t, Option{}, source("f", rec("a", 0, 0, 0, 1, 0, 0, 1, 0), rec("b", 1, 2, 2, 2, 2, 2, 2, 2)))
	c := r.Comparisons[0]
	if c.Scale != sample.Difference || *c.Ratio < 1 || *c.Ratio > 2 || c.CI[0] == nil {
		t.Errorf("%+v", c)
	}
}

// A repetition that failed is counted, and a contender without values is missing.
func TestFailures(t *testing.T) {
	some := rec("b", 1, 1, 2, 1, 2, 1, 2)
	some.Failed, some.Reason = 2, "the exit code is not 0"
	none := rec("c", 2)
	none.Failed, none.Reason, none.Series[0].Values = 6, "no result", nil
	r := compared(t, Option{}, source("f", rec("a", 0, 1, 2, 1, 2, 1, 2), some, none))
	if len(r.Comparisons) != 1 || r.Comparisons[0].Failures != [2]int{2, 0} ||
		!strings.HasPrefix(strings.Join(r.Comparisons[0].Warnings, ""), "2 repetitions of b and 0 of a failed") {
		t.Errorf("%+v", r.Comparisons)
	}
	if len(r.Missing) != 1 || r.Missing[0] != (analysis.Missing{Contender: "c", Reason: "no result"}) {
		t.Errorf("%+v", r.Missing)
	}
	d, sources := stored(t, "phoronix", "phoronix/testdata/systems.txtar", "composite.xml")
	sources[0].Records = slices.DeleteFunc(sources[0].Records, func(x format.Record) bool {
		a, _ := x.Label("arguments")
		s, _ := x.Label("system")
		return s.Value == "crun" && strings.Contains(a.Value, "MD5")
	})
	got, err := Compare(d, sources, Option{})
	if err != nil || len(got.Missing) != 3 || got.Missing[0].Contender != "crun" ||
		got.Missing[0].Reason != "no file has a value" ||
		got.Missing[1].Reason != "The test run did not produce a result." {
		t.Errorf("%+v, %v", got.Missing, err)
	}
}

// A part of the name of a Go benchmark distinguishes contenders; results without it
// are left out, and counted.
func TestSubBenchmarks(t *testing.T) {
	d, sources := stored(t, "go", "gobench/testdata/count.txtar", "count.txt")
	r, err := Compare(d, sources, Option{By: "algo", Baseline: "sha256"})
	if err != nil || !slices.Equal(r.Contenders, []string{"md5", "sha256"}) {
		t.Fatalf("%q, %v", r.Contenders, err)
	}
	var got []string
	for _, c := range r.Comparisons {
		got = append(got, fmt.Sprintf("%s/%s of %s %s", c.Contender, c.Baseline, c.Cell, c.Metric))
	}
	want := "md5/sha256 of Sum/size=64 sec/op, md5/sha256 of Sum/size=64 B/op, md5/sha256 of Sum/size=64 allocs/op, " +
		"md5/sha256 of Sum/size=4096 sec/op, md5/sha256 of Sum/size=4096 B/op, md5/sha256 of Sum/size=4096 allocs/op"
	if strings.Join(got, ", ") != want {
		t.Errorf("%q", got)
	}
	if len(r.Warnings) != 1 || r.Warnings[0] != `6 results have no "algo" and are left out.` {
		t.Errorf("%q", r.Warnings)
	}
	if c := r.Comparisons[2]; *c.Ratio != 1 || *c.CI[0] != 1 || *c.CI[1] != 1 {
		t.Errorf("allocations: %+v", c)
	}
}

// Each mistake of the user is refused, with what could be used.
func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		name    string
		sources []Source
		opt     Option
		want    string
	}{
		{"no such baseline", []Source{source("f", rec("a", 0, 1), rec("b", 1, 1))}, Option{Baseline: "x"},
			`the baseline "x" is not a contender; use one of "a", "b"`},
		{"no such label", []Source{source("f", rec("a", 0, 1))}, Option{By: "x"},
			`f.json:1: this result has no label "x" to distinguish contenders; use --contender with one of file, who`},
		{"no such group", []Source{source("f", rec("a", 0, 1))}, Option{Group: "x"},
			`f.json:1: this result has no label "x" to distinguish groups; use --group with one of file, who`},
	} {
		_, err := Compare(doc, c.sources, c.opt)
		if !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// The first contender with values is the baseline of each cell.
func TestBaselineOfEachCell(t *testing.T) {
	d, sources := stored(t, "pytest", "pytest/testdata/one.txtar", "one.json")
	r, err := Compare(d, sources, Option{})
	if err != nil || len(r.Comparisons) != 2 || len(r.Missing) != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	a, b := r.Comparisons[0], r.Comparisons[1]
	if a.Cell != "group=sort" || a.Contender != "test_list_sort" || a.Baseline != "test_sorted" ||
		b.Cell != "" || b.Contender != "test_sum[1000]" || b.Baseline != "test_sum[100]" {
		t.Errorf("%+v\n%+v", a, b)
	}
}

// The unit and the direction are parts of what was measured: a cell with two of them
// becomes two, and no contender without one of them is compared in it.
func TestUnitsAreCells(t *testing.T) {
	in := func(who, unit string, better sample.Better, turn int) format.Record {
		r := rec(who, turn, 1, 2, 3)
		r.Labels = append(r.Labels, format.Label{Name: "test", Value: "ssl"})
		r.Series[0].Metric.Unit, r.Series[0].Metric.Better = unit, better
		return r
	}
	r := compared(t, Option{}, source("f", in("a", "sign/s", sample.Higher, 0), in("b", "sign/s", "", 1),
		in("a", "verify/s", sample.Higher, 2), in("b", "verify/s", sample.Higher, 3), in("b", "s", sample.Lower, 4)))
	var got []string
	for _, s := range r.Summaries {
		got = append(got, s.Contender+" "+s.Cell+" "+string(s.Better))
	}
	want := []string{"a ssl [sign/s] higher", "b ssl [sign/s] higher", "a ssl [verify/s] higher",
		"b ssl [verify/s] higher", "b ssl [s] lower"}
	if !slices.Equal(got, want) || len(r.Comparisons) != 2 {
		t.Errorf("%q, %+v", got, r.Comparisons)
	}
}

// Results that differ in unit or direction, or in the name of the test, are not compared.
// The warning names the cause, not a label that differs without harm.
func TestWarningsNameWhatKeepsContendersApart(t *testing.T) {
	on := func(place, test, unit string, better sample.Better) format.Record {
		m := latency
		m.Unit, m.Better = unit, better
		return format.Record{Line: 1, Labels: []format.Label{{Name: "test", Value: test},
			{Name: "system", Value: place, Setting: true, Place: true}},
			Series: []format.Series{{Metric: m, Values: []float64{1}}}}
	}
	for _, x := range []struct {
		now  format.Record
		want string
	}{
		{on("B", "build 1", "min", sample.Lower), `because their units differ: "min", "s".`},
		{on("B", "build 2", "s", sample.Lower), `no two share a value of "test". Use --contender "test"`},
		{on("B", "build 1", "s", sample.Higher), `whether a higher or a lower time is better at "build 1"`},
	} {
		r := compared(t, Option{}, source("old", on("A", "build 1", "s", sample.Lower)), source("new", x.now))
		if len(r.Comparisons) != 0 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], x.want) {
			t.Errorf("%q, want %q", r.Warnings, x.want)
		}
		if opposed := x.now.Series[0].Metric.Better == sample.Higher; opposed && (len(r.Missing) != 2 ||
			r.Missing[0].Reason != "no file has a value of time with higher as better" ||
			r.Missing[1].Reason != "no file has a value of time with lower as better") {
			t.Errorf("opposed directions: %+v", r.Missing)
		}
	}
	// With several values of each contender, the label is not that of contenders.
	several := compared(t, Option{}, source("old", on("A", "./old small", "s", sample.Lower), on("A", "./old big", "s",
		sample.Lower)), source("new", on("A", "./new small", "s", sample.Lower), on("A", "./new big", "s", sample.Lower)))
	if len(several.Warnings) != 1 || strings.Contains(several.Warnings[0], "Use --contender") {
		t.Errorf("%q", several.Warnings)
	}
	// With two such labels, no choice of contenders helps.
	with := func(test, clients string) format.Record {
		r := on("A", test, "s", sample.Lower)
		r.Labels = append(r.Labels, format.Label{Name: "clients", Value: clients})
		return r
	}
	r := compared(t, Option{}, source("old", with("build 1", "1")), source("new", with("build 2", "8")))
	if len(r.Warnings) != 1 || !strings.HasSuffix(r.Warnings[0], `labels: "clients", "test". They did different work.`) {
		t.Errorf("%q", r.Warnings)
	}
}

// Labels that say where the work was done do not keep contenders apart. Those that say
// which work do.
func TestPlaces(t *testing.T) {
	on := func(place string, turn int, values ...float64) format.Record {
		return format.Record{Line: turn + 1, Turn: turn, Labels: []format.Label{{Name: "test", Value: "build"},
			{Name: "system", Value: place, Setting: true, Place: true}},
			Series: []format.Series{{Metric: latency, Values: values}}}
	}
	old, now := source("old", on("A", 0, 1)), source("new", on("B", 0, 2))
	r := compared(t, Option{}, old, now)
	if len(r.Comparisons) != 1 || !near(r.Comparisons[0].Ratio, 2) || r.Comparisons[0].Cell != "build" ||
		len(r.Differences) != 1 || r.Differences[0].Fact != "system" || len(r.Missing) != 0 {
		t.Errorf("%+v", r)
	}
	r = compared(t, Option{By: "system"}, old, now)
	if len(r.Comparisons) != 1 || r.Comparisons[0].Contender != "B" || r.Comparisons[0].Cell != "build" {
		t.Errorf("by system: %+v", r)
	}
	both := source("both", on("A", 0, 1), on("B", 1, 2))
	r = compared(t, Option{}, both, source("again", on("A", 0, 3), on("B", 1, 2)))
	if len(r.Comparisons) != 2 || r.Comparisons[0].Cell != "build/A" || r.Comparisons[1].Cell != "build/B" {
		t.Errorf("two systems in each file: %+v", r.Comparisons)
	}
	old.Records[0].Labels[1].Place, now.Records[0].Labels[1].Place = false, false
	r = compared(t, Option{}, old, now)
	if len(r.Comparisons) != 0 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], `Use --contender "system"`) {
		t.Errorf("other work: %+v", r)
	}
}

// Records with equal labels that differ in a fact are pooled with a warning.
// A parameter may have the name of a label of the format, or be called file. It never makes
// results of different work repetitions.
func TestParametersWithTheNamesOfLabels(t *testing.T) {
	of := func(name, value string, turn int, own string) format.Record {
		r := rec(own, turn, 1, 2)
		r.Labels[0].Parts = []format.Label{{Name: "template", Value: "cc"}, {Name: name, Value: value}}
		return r
	}
	for _, c := range []struct {
		name, own, by string
		files         int
		contenders    string
	}{
		{"file", "cc", "file", 1, "a, b"},   // one file: the parameter
		{"file", "cc", "file", 2, "f0, f1"}, // two files: the files
		{"who", "", "who", 1, "a, b"},       // the label has no value
		{"who", "cc", "who", 1, "a, b"},     // the label has one value
		{"who", "cc", "who #2", 1, "a, b"},
	} {
		var sources []Source
		for i := range c.files {
			sources = append(sources, source(fmt.Sprintf("f%d", i), of(c.name, "a", 0, c.own), of(c.name, "b", 1, c.own)))
		}
		if c.files > 1 {
			for i := range sources { // other work has another label
				for k, v := range []string{"a", "b"} {
					sources[i].Records[k].Labels = append(sources[i].Records[k].Labels, format.Label{Name: "n", Value: v})
				}
			}
		}
		r := compared(t, Option{By: c.by}, sources...)
		if got := strings.Join(r.Contenders, ", "); got != c.contenders {
			t.Errorf("%s of %q in %d files: contenders %s, want %s", c.by, c.own, c.files, got, c.contenders)
		}
		for _, s := range r.Summaries {
			if s.N != 2 {
				t.Errorf("%s of %q in %d files: %d values of %s at %q are pooled", c.by, c.own, c.files, s.N, s.Contender, s.Cell)
			}
		}
	}
}

// Results of equal names are numbered, unless --contender names what tells them apart.
func TestNumbersThatContendersDoNotNeed(t *testing.T) {
	records := []format.Record{rec("a", 0, 1, 2), rec("a", 1, 3, 4)}
	records[0].Facts, records[1].Facts = map[string]string{"size": "4k"}, map[string]string{"size": "64k"}
	file := format.File{Records: records}
	format.NewProblems("x").Distinguish(&file, "who")
	for by, want := range map[string]string{"size": "64k against 4k", "who": "a #2 against a"} {
		r := compared(t, Option{By: by}, Source{Name: "x", Path: "x", File: file})
		if len(r.Comparisons) != 1 || r.Comparisons[0].Contender+" against "+r.Comparisons[0].Baseline != want ||
			(len(r.Warnings) == 0) != (by == "size") {
			t.Errorf("%s: %+v, %q", by, r.Comparisons, r.Warnings)
		}
	}
	file.Records[1].Facts = file.Records[0].Facts // nothing tells them apart
	if r := compared(t, Option{By: "size"}, Source{Name: "x", Path: "x", File: file}); len(r.Summaries) != 2 {
		t.Errorf("%+v", r.Summaries)
	}
}

func TestMixedRepetitions(t *testing.T) {
	a, b := rec("a", 0, 1), rec("a", 1, 2)
	a.Facts, b.Facts = map[string]string{"commit": "one"}, map[string]string{"commit": "two"}
	r := compared(t, Option{}, source("f", a, b))
	if len(r.Warnings) != 1 ||
		!strings.HasPrefix(r.Warnings[0], `Values that differ in "commit" ("one", "two") count as`) {
		t.Errorf("%q", r.Warnings)
	}
	if r = compared(t, Option{By: "commit"}, source("f", a, b)); len(r.Comparisons) != 1 || len(r.Warnings) != 0 {
		t.Errorf("by commit: %+v", r)
	}
}

// Statistics instead of values give a difference without an interval; six files of them
// give one.
func TestStatistics(t *testing.T) {
	number := func(v float64) *float64 { return &v }
	stats := func(who string, turn int, mean float64, median *float64) format.Record {
		r := rec(who, turn)
		r.Series[0].Stats = &format.Stats{Mean: number(mean), Median: median}
		return r
	}
	r := compared(t, Option{}, source("f", stats("a", 0, 1, number(2)), stats("b", 1, 3, number(8))))
	c := r.Comparisons
	if len(c) != 1 || !near(c[0].Ratio, 4) || c[0].CI[0] != nil || *r.Summaries[0].Median != 2 ||
		*r.Summaries[0].Stats.Mean != 1 || !strings.Contains(c[0].Warnings[0], "that of the medians") {
		t.Errorf("medians: %+v", r)
	}
	r = compared(t, Option{}, source("f", stats("a", 0, 1, number(2)), stats("b", 1, 3, nil)))
	if c = r.Comparisons; len(c) != 1 || !near(c[0].Ratio, 3) || r.Summaries[0].Median != nil ||
		!strings.Contains(c[0].Warnings[0], "that of the means") {
		t.Errorf("means: %+v", r)
	}
	r = compared(t, Option{}, source("f", rec("a", 0, 1, 2, 6), stats("b", 1, 6, nil)))
	if c = r.Comparisons; len(c) != 1 || !near(c[0].Ratio, 2) || *r.Summaries[0].Stats.N != 3 ||
		*r.Summaries[0].Stats.Mean != 3 {
		t.Errorf("a mean against values: %+v", r)
	}
	r = compared(t, Option{}, source("f", rec("a", 0, 1, 2, 6), stats("b", 1, 6, number(4))))
	if c = r.Comparisons; len(c) != 1 || !near(c[0].Ratio, 2) || *r.Summaries[0].Stats.N != 3 ||
		*r.Summaries[0].Median != 2 {
		t.Errorf("a median against values: %+v", r)
	}
	onlyMedian := stats("b", 1, 0, number(4))
	onlyMedian.Series[0].Stats.Mean = nil
	if r = compared(t, Option{}, source("f", stats("a", 0, 2, nil), onlyMedian)); len(r.Comparisons) != 0 {
		t.Errorf("a median is compared with a mean: %+v", r)
	}
	var many []format.Record
	for i := range 12 {
		many = append(many, stats([]string{"a", "b"}[i%2], i, 1, number(1+float64(i%2)+float64(i)/100)))
		many[i].Repeats = i > 1
	}
	if c = compared(t, Option{}, source("f", many...)).Comparisons; len(c) != 1 || c[0].CI[0] == nil || c[0].N[0] != 6 {
		t.Errorf("six statistics: %+v", c)
	}
}

// The geometric mean is over the cells that both sides have, for each group.
func TestGeomeans(t *testing.T) {
	in := func(who, cell, size string, turn int, v float64) format.Record {
		var values []float64
		for i := range 8 {
			values = append(values, v*(1+float64(i%3)/1000))
		}
		r := rec(who, turn, values...)
		r.Labels = append(r.Labels, format.Label{Name: "cell", Value: cell}, format.Label{Name: "size", Value: size})
		return r
	}
	s := source("f", in("a", "x", "1", 0, 1), in("b", "x", "1", 1, 2), in("a", "y", "1", 2, 1), in("b", "y", "1", 3, 8),
		in("a", "z", "2", 4, 1), in("b", "z", "2", 5, 1), in("a", "only", "2", 6, 1))
	r := compared(t, Option{}, s)
	if g := r.Geomeans; len(g) != 1 || g[0].Cells != 3 || math.Abs(*g[0].Ratio-math.Cbrt(16)) > .01 ||
		!(*g[0].CI[0] < *g[0].Ratio && *g[0].Ratio < *g[0].CI[1]) {
		t.Errorf("%+v", g)
	}
	r = compared(t, Option{Group: "size"}, s)
	if g := r.Geomeans; len(g) != 1 || g[0].Group != "1" || g[0].Cells != 2 || math.Abs(*g[0].Ratio-4) > .01 {
		t.Errorf("groups: %+v", g)
	}
	records := []format.Record{in("a", "x", "1", 0, 1), in("b", "x", "1", 1, 2), in("a", "y", "1", 2, 1),
		in("b", "y", "1", 3, 8)}
	for i := range records {
		m := &records[i].Series[0].Metric
		m.Better, m.Unit = "", []string{"s", "op/s"}[i/2]
	}
	if g := compared(t, Option{}, source("f", records...)).Geomeans; len(g) != 0 {
		t.Errorf("two units without a direction: %+v", g)
	}
}

func near(v *float64, want float64) bool { return v != nil && math.Abs(*v/want-1) < 1e-9 }

// The interval of a geometric mean contains the true ratio as often as it says, if the
// values are independent.
func TestGeomeanCoverage(t *testing.T) {
	const rounds, cells, n, truth = 400, 4, 10, 1.1
	rng := rand.New(rand.NewPCG(1, 2))
	hits := 0
	for range rounds {
		var records []format.Record
		for i := range 2 * cells {
			var values []float64
			for range n {
				v := math.Exp(rng.NormFloat64()/20) * float64(1+i/2)
				if i%2 == 1 {
					v *= truth
				}
				values = append(values, v)
			}
			r := rec([]string{"a", "b"}[i%2], i, values...)
			r.Labels = append(r.Labels, format.Label{Name: "cell", Value: fmt.Sprint(i / 2)})
			records = append(records, r)
		}
		g := compared(t, Option{}, source("f", records...)).Geomeans
		if len(g) != 1 || g[0].Cells != cells {
			t.Fatalf("%+v", g)
		}
		if *g[0].CI[0] <= truth && truth <= *g[0].CI[1] {
			hits++
		}
	}
	if share := float64(hits) / rounds; share < .93 {
		t.Errorf("%.3f of the intervals contain the ratio, want %.2f", share, Level)
	} else {
		t.Logf("%.3f of the intervals contain the ratio", share)
	}
}

// Work that ended too fast to be measured is missing, and so is the median of its slower repetitions.
func TestWorkThatWasTooFastHasNoMedian(t *testing.T) {
	with := func(values []float64, fast bool) format.Record {
		return format.Record{Line: 1, Labels: []format.Label{{Name: "test", Value: "a"}},
			Series: []format.Series{{Metric: latency, Values: values, TooFast: fast}}}
	}
	slow, fast := with([]float64{3}, false), with(nil, true)
	r := compared(t, Option{}, source("old", slow, slow, fast), source("new", slow, slow, slow))
	if len(r.Summaries) != 2 || r.Summaries[0].Median != nil || r.Summaries[0].N != 0 || r.Summaries[1].Median == nil ||
		len(r.Comparisons) != 0 {
		t.Errorf("%+v, %+v", r.Summaries, r.Comparisons)
	}
	if r := compared(t, Option{}, source("old", fast), source("new", fast)); len(r.Summaries) != 0 {
		t.Errorf("a metric that no file has a value of: %+v", r.Summaries)
	}
}
