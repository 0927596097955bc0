package asv

import (
	"testing"

	"bakeoff/judge/format/formattest"
)

func TestMistakes(t *testing.T) {
	formattest.Mistakes(t, New(), []formattest.Mistake{
		{Name: "another version", Text: `{"commit_hash": "x", "version": 3, "results": {}}`,
			Want: "x:1: the file has version 3 of asv's results; bakeoff reads versions 1 and 2"},
		{Name: "no version", Text: `{"commit_hash": "x", "results": {}}`, Want: "x:1: the file has no version of asv's"},
		{Name: "nothing", Text: `{"version": 2, "results": {}}`, Want: "x:1: the file has no results"},
		{Name: "more columns than names", Text: `{"version": 2, "result_columns": ["result"], "results": {"a": [[1], []]}}`,
			Want: `x:1: "a": the row has 2 columns, but result_columns names 1`},
		{Name: "a string", Text: `{"version": 2, "result_columns": ["result"], "results": {"a": [["1"]]}}`,
			Want: `x:1: "a": result is a JSON string instead of a number`},
	})
}

// Parameters may have values other than strings. Two equal values are two measurements.
func TestParameters(t *testing.T) {
	out, err := New().Read("x", []byte(`{"version": 2, "result_columns": ["result", "params"],
"results": {"a": [[1, 2, 3], [[7, "'x'", "'x'"]]]}}`))
	if err != nil || len(out.Records) != 3 || len(out.Warnings) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	for i, want := range [][2]string{{"a", "7"}, {"a", "'x'"}, {"a #2", "'x'"}} {
		if l := out.Records[i].Labels; l[0].Value != want[0] || l[1].Value != want[1] {
			t.Errorf("record %d: %+v", i, l)
		}
	}
}

// The version of the code of a benchmark is in a column, or in version 1 in a member of the file. Results of two
// versions have different labels, and the same short one.
func TestVersionsOfBenchmarks(t *testing.T) {
	const hash = "0123456789ab0123456789ab0123456789ab0123456789ab0123456789abcdef"
	columns := func(version string) string {
		return `{"version": 2, "result_columns": ["result", "params", "version"],
"results": {"a": [[1], [], ` + version + `]}}`
	}
	const old = `{"version": 1, "results": {"a": 1}, "benchmark_version": `
	for text, want := range map[string]string{
		columns(`"` + hash + `"`):    "a (version 0123456789ab)",
		columns(`"2"`):               "a (version 2)",
		columns("null"):              "a",
		old + `{"a": "7", "b": 8}}`:  "a (version 7)",
		old + `{"a": null, "b": 8}}`: "a",
	} {
		out, err := New().Read("x", []byte(text))
		if err != nil || out.Records[0].Labels[0].Value != want || want != "a" && out.Records[0].Labels[0].Short != "a" {
			t.Errorf("%s: %+v, %v", text, out, err)
		}
	}
}

// A benchmark that failed with all parameters has no list of results.
func TestFailedBenchmarks(t *testing.T) {
	out, err := New().Read("x", []byte(`{"version": 2, "result_columns": ["result", "params"],
"results": {"a": [null, [["1", "2"]]], "b": [null, []]}}`))
	if err != nil || len(out.Records) != 3 || out.LeftOut != 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	for _, r := range out.Records {
		if r.Failed != 1 {
			t.Errorf("%+v", r)
		}
	}
	formattest.LeftOut(t, New(), []formattest.Mistake{
		{Name: "no result", Text: `{"version": 2, "result_columns": ["params", "result"],
"results": {"a": [[]], "b": [[], [1]]}}`, Want: `x:2: "a" has no result`},
		{Name: "skipped", Text: `{"version": 2, "result_columns": ["params", "result"], "results": {
"a": [[["1", "NaN", "3"]], [NaN, null, NaN]]}}`,
			Want: `x:2: "a" was skipped with 2 of its 3 combinations of parameters`},
		{Name: "skipped in version 1", Text: `{"version": 1, "results": {"a": 1, "b": NaN, "c": {"result": [2, NaN],
"params": [["1", "2"]]}}}`, Want: `x:1: "b" was skipped`},
	})
}
