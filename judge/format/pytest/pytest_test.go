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
		"benchmarks": [{"name": "a", "fullname": "f::a", "options": {"timer": "process_time", "warmup": false},
		"stats": {"data": [1, 2], "rounds": 2}}]}`))
	if err != nil || len(out.Records) != 1 || !out.Records[0].When.IsZero() || out.Program != "pytest-benchmark 9.0" {
		t.Errorf("%+v, %v", out, err)
	}
	for k, want := range map[string]string{"option timer": "process_time", "option warmup": "false"} {
		if got := out.Records[0].Facts[k]; got != want {
			t.Errorf("%s is %q, want %q", k, got, want)
		}
	}
}

// Statistics that include a time that is left out do not contradict the others.
func TestStatisticsOfATimeThatIsLeftOut(t *testing.T) {
	out, err := New().Read("x", []byte(`{"benchmarks": [{"name": "a", "stats": {"data": [1, NaN, 3], "max": 9}}]}`))
	if err != nil || len(out.Warnings) != 1 || out.LeftOut != 1 {
		t.Errorf("%q, %v", out.Warnings, err)
	}
}

func TestMistakes(t *testing.T) {
	formattest.Mistakes(t, New(), []formattest.Mistake{
		{Name: "no benchmarks", Text: "{\"machine_info\": {}}", Want: "x:1: the file has no benchmarks"},
		{Name: "none ran", Text: "{\"benchmarks\": []}", Want: "x:1: the file has no benchmarks"},
		{Name: "no name", Text: "{\"benchmarks\": [\n{\"stats\": {}}]}", Want: "x:2: the benchmark has no name or no stats"},
		{Name: "no stats", Text: "{\"benchmarks\": [{\"name\": \"a\"}]}", Want: "x:1: the benchmark has no name or no stats"},
		{Name: "negative", Text: `{"benchmarks": [{"name": "a", "stats": {"data": [-1]}}]}`,
			Want: `x:1: "a": 1 of 1 times are negative`},
		{Name: "NaN", Text: "{\"benchmarks\": [{\"name\": \"a\",\n\"stats\": {\"data\": [NaN]}}]}",
			Want: `x:1: "a": 1 of 1 times are negative or not numbers`},
	})
}

func TestLeftOut(t *testing.T) {
	good := `{"version": NaN, "benchmarks": [{"name": "a", "stats": {"data": [1]}},` + "\n"
	formattest.LeftOut(t, New(), []formattest.Mistake{
		{Name: "no stats", Text: good + `{"name": "b"}]}`, Want: "x:2: the benchmark has no name or no stats"},
		{Name: "one time", Text: good + `{"name": "b", "stats": {"data": [1, Infinity]}}]}`,
			Want: `x:2: "b": 1 of 2 times are negative or not numbers`},
		{Name: "no rounds", Text: good + `{"name": "b", "stats": {"rounds": 0, "mean": 0}}]}`, Want: `x:2: "b" ran 0 rounds`},
		{Name: "no times", Text: good + `{"name": "b", "stats": {"rounds": 3, "mean": NaN}}]}`,
			Want: `x:2: "b" has no times, no mean and no median`},
	})
}

// A test is known by its file, too. Parameters and values of extra_info distinguish
// results.
func TestLabels(t *testing.T) {
	out, err := New().Read("x", []byte(`{"benchmarks": [
		{"name": "t[a-1]", "fullname": "f.py::t[a-1]", "params": {"lib": "a", "n": 1}, "extra_info": {"branch": "main"},
		 "stats": {"data": [1]}},
		{"name": "t[a-1]", "fullname": "g.py::t[a-1]", "stats": {"data": [1]}},
		{"name": "t[a-1]", "fullname": "g.py::t[a-1]", "stats": {"data": [1]}}]}`))
	if err != nil || len(out.Records) != 3 || len(out.Warnings) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	for name, want := range map[string]string{"test": "f.py::t[a-1]", "lib": "a", "n": "1", "function": "f.py::t",
		"branch": "main"} {
		if l, ok := out.Records[0].Label(name); !ok || l.Value != want {
			t.Errorf("%s is %+v, want %s", name, l, want)
		}
	}
	if l, _ := out.Records[2].Label("test"); l.Value != "g.py::t[a-1] #2" || l.Short != "t[a-1] #2" {
		t.Errorf("%+v", l)
	}
}

// A file with sorted members may have all its values before the machine.
func TestRecognizesSortedMembers(t *testing.T) {
	const head = `{"benchmarks": [{"extra_info": {}, "fullname": "t.py::test_a", "options": {"disable_gc": false, ` +
		`"timer": "perf_counter"}, "stats": {"data": [1, 2`
	if !New().Recognizes([]byte(head)) {
		t.Error(head)
	}
}
