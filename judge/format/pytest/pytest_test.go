package pytest

import (
	"testing"

	"bakeoff/judge/format/formattest"
)

func TestSuite(t *testing.T) { formattest.Run(t, New()) }

func FuzzRead(f *testing.F) { formattest.Fuzz(f, New()) }

// Facts of another form are left out: no number depends on them.
func TestOtherVersions(t *testing.T) {
	out, err := New().Read("x",
		[]byte(`{"machine_info": {"cpu": "fast", "python_version": 3}, "commit_info": null, "datetime": 7,
		"version": "9.0", "new": [],
		"benchmarks": [{"name": "a", "fullname": "f::a", "stats": {"data": [1, 2], "rounds": 2}}]}`))
	if err != nil || len(out.Records) != 1 || !out.Records[0].When.IsZero() || out.Program != "pytest-benchmark 9.0" {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestMistakes(t *testing.T) {
	formattest.Mistakes(t, New(), []formattest.Mistake{
		{Name: "no benchmarks", Text: "{\"machine_info\": {}}", Want: "x:1: the file has no benchmarks"},
		{Name: "none ran", Text: "{\"benchmarks\": []}", Want: "x:1: the file has no benchmarks"},
		{Name: "no name", Text: "{\"benchmarks\": [\n{\"stats\": {}}]}", Want: "x:2: the benchmark has no name or no stats"},
		{Name: "no stats", Text: "{\"benchmarks\": [{\"name\": \"a\"}]}", Want: "x:1: the benchmark has no name or no stats"},
		{Name: "negative", Text: `{"benchmarks": [{"name": "a", "stats": {"data": [-1]}}]}`,
			Want: `x:1: "a" has a negative time`},
		{Name: "NaN", Text: "{\"benchmarks\": [{\"name\": \"a\",\n\"stats\": {\"data\": [NaN]}}]}",
			Want: "x:2: this is not JSON"},
	})
}
