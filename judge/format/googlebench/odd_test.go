package googlebench

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"bakeoff/judge/format/formattest"
)

func TestMistakes(t *testing.T) {
	formattest.Mistakes(t, New(), []formattest.Mistake{
		{Name: "another schema", Text: `{"context": {"json_schema_version": 2}, "benchmarks": []}`,
			Want: "x:1: json_schema_version 2 is not supported; bakeoff reads version 1"},
		{Name: "nothing", Text: `{"context": {}, "benchmarks": []}`, Want: "x:1: the file has no benchmarks"},
		{Name: "no time", Text: "{\"benchmarks\": [\n{\"name\": \"a\", \"iterations\": 1}]}",
			Want: `x:2: "a" has neither a real_time nor a cpu_time that is a number`},
		{Name: "no unit", Text: "{\"benchmarks\": [\n{\"name\": \"a\", \"iterations\": 1, \"real_time\": 5}]}",
			Want: `x:2: "a" has no time_unit, so its times are unknown`},
		{Name: "skipped", Text: `{"benchmarks": [{"name": "a", "skipped": true, "skip_message": "no GPU"}]}`,
			Want: `x:1: "a" was skipped: no GPU`},
		{Name: "no iterations", Text: `{"benchmarks": [{"name": "a", "iterations": 0, "real_time": 0, "time_unit": "ns"}]}`,
			Want: `x:1: "a" ran 0 times`},
		{Name: "a string", Text: `{"benchmarks": [{"name": "a", "repetitions": "3", "real_time": 1, "time_unit": "ns"}]}`,
			Want: `x:1: "a": repetitions is a JSON string instead of a whole number`},
	})
}

// What --benchmark_context and newer versions write are facts.
func TestContext(t *testing.T) {
	out, err := New().Read("x", []byte(`{"context": {"date": "x", "host_name": "h", "allocator": "jemalloc",
"aslr_enabled": true, "load_avg": [1], "new": null},
"benchmarks": [{"name": "a", "real_time": 1, "time_unit": "ns"}]}`))
	if err != nil || len(out.Records) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	want := map[string]string{"program": "Google Benchmark", "host": "h", "allocator": "jemalloc", "aslr_enabled": "true"}
	if got := out.Records[0].Facts; !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// Two benchmarks with one name are two, although their repetitions have the same indices.
func TestEqualNames(t *testing.T) {
	out, err := New().Read("x", []byte(`{"benchmarks": [
{"name": "a", "family_index": 0, "repetition_index": 0, "real_time": 1, "cpu_time": 1, "time_unit": "ns"},
{"name": "a", "family_index": 0, "repetition_index": 1, "real_time": 2, "cpu_time": 2, "time_unit": "ns"},
{"name": "a", "family_index": 1, "repetition_index": 0, "real_time": 7, "cpu_time": 7, "time_unit": "ns"},
{"name": "a", "family_index": 1, "repetition_index": 1, "real_time": 8, "cpu_time": 8, "time_unit": "ns"}]}`))
	if err != nil || len(out.Records) != 4 || len(out.Warnings) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	for i, want := range []string{"a", "a", "a #2", "a #2"} {
		if r := out.Records[i]; r.Labels[0].Value != want || r.Repeats != (i%2 == 1) {
			t.Errorf("record %d: %+v", i, r)
		}
	}
}

// Before version 1.5, only the name tells an aggregate from a benchmark.
func TestOldAggregates(t *testing.T) {
	one := func(name string, iterations, ns int) string {
		return fmt.Sprintf(`{"name": %q, "iterations": %d, "real_time": %d, "cpu_time": %[3]d, "time_unit": "ns"}`, name,
			iterations, ns)
	}
	for name, c := range map[string]struct {
		results []string
		want    string
	}{
		"benchmarks of such names": {[]string{one("a_mean", 10, 100), one("a_median", 10, 900), one("a_stddev", 10, 300)},
			"a_mean a_median a_stddev"},
		"other iterations": {[]string{one("a_mean", 10, 100), one("a_stddev", 20, 3)}, "a_mean a_stddev"},
		"a mean alone":     {[]string{one("a", 10, 90), one("a_mean", 10, 100)}, "a a_mean"},
		"aggregates alone": {[]string{one("a_mean", 10, 100), one("a_median", 10, 101), one("a_stddev", 10, 3)}, "a"},
		"repetitions": {[]string{one("a", 10, 90), one("a", 10, 110), one("a_mean", 10, 100), one("a_stddev", 10, 14)},
			"a a"},
	} {
		out, err := New().Read("x", []byte(`{"benchmarks": [`+strings.Join(c.results, ", ")+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range out.Records {
			names = append(names, r.Labels[0].Value)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
