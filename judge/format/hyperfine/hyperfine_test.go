package hyperfine

import (
	"strings"
	"testing"

	"bakeoff/judge/format/formattest"
)

func TestSuite(t *testing.T) { formattest.Run(t, New()) }

func FuzzRead(f *testing.F) { formattest.Fuzz(f, New()) }

// Fields of other versions are accepted. A run that a signal ended has no exit code.
func TestOtherVersions(t *testing.T) {
	out, err := New().Read("x", []byte("\ufeff"+
		`{"version": 2, "results": [{"command": "a", "mean": 1, "memory_usage_byte": [1, 2, 3],
		"times": [1, 2, 3], "exit_codes": [0, null, 3], "parameters": {"n": "1"}}], "more": {}}`))
	if err != nil || len(out.Records) != 1 || out.Records[0].Failed != 2 || len(out.Records[0].Series[0].Values) != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	out, err = New().Read("x", []byte(`{"results": [{"command": "sleep 1", "times": [1], "parameter": "1"},
		{"command": "sleep 2", "times": [2], "parameter": "2"}]}`)) // versions 1.6 to 1.10
	if v, ok := out.Records[1].Label("parameter"); err != nil || !ok || v.Value != "2" {
		t.Errorf("one parameter: %+v, %v", out, err)
	}
	out, err = New().Read("x", []byte(`{"results": [{"command": "a", "times": [1, 2, 3]}]}`))
	if err != nil || out.Records[0].Failed != 0 || len(out.Records[0].Series[0].Values) != 3 {
		t.Errorf("without exit codes: %+v, %v", out, err)
	}
}

// hyperfine since 1.20 writes the highest memory of all commands so far.
func TestMemory(t *testing.T) {
	out, err := New().Read("x", []byte(`{"results": [
		{"command": "small", "times": [1, 2], "memory_usage_byte": [10, 20]},
		{"command": "large", "times": [1, 2], "memory_usage_byte": [70, 70]},
		{"command": "middle", "times": [1, 2], "memory_usage_byte": [70, 70]},
		{"command": "windows", "times": [1, 2], "memory_usage_byte": [0, 0]}]}`))
	if err != nil || len(out.Records) != 4 || len(out.Warnings) != 1 || out.LeftOut != 0 ||
		!strings.HasPrefix(out.Warnings[0], `x:4: The peak memory of "middle" is unknown`) {
		t.Fatalf("%+v, %v", out, err)
	}
	for i, want := range []float64{20, 70, 0, 0} {
		got := 0.0
		for _, s := range out.Records[i].Series[1:] {
			got = s.Values[0]
		}
		if got != want {
			t.Errorf("result %d: %g, want %g", i, got, want)
		}
	}
}

// A run that failed may have no time.
func TestFailedRunWithoutTime(t *testing.T) {
	out, err := New().Read("x", []byte(`{"results": [{"command": "a", "mean": 1, "times": [1, null],
		"exit_codes": [0, 1]}]}`))
	if err != nil || len(out.Records) != 1 || out.Records[0].Failed != 1 || len(out.Records[0].Series[0].Values) != 1 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestMistakes(t *testing.T) {
	formattest.Mistakes(t, New(), []formattest.Mistake{
		{Name: "no command", Text: "{\"results\": [\n{\"times\": [1]}]}", Want: "x:2: the result has no command"},
		{Name: "no times", Text: `{"results": [{"command": "a"}]}`, Want: `x:1: "a" has no times, no mean and`},
		{Name: "negative", Text: `{"results": [{"command": "a", "times": [-1]}]}`,
			Want: `x:1: "a": 1 of 1 times are negative`},
		{Name: "exit codes", Text: `{"results": [{"command": "a", "times": [1, 1], "exit_codes": [0]}]}`,
			Want: `x:1: "a" has 2 times and 1 exit codes`},
		{Name: "both", Text: "{\"results\": [{},\n{}]}", Want: "x:1: the result has no command; it needs " +
			"command and times\nx:2: "},
		{Name: "nothing", Text: `{"results": []}`, Want: "x:1: the file has no results"},
		{Name: "cut off", Text: "{\"results\": [\n{\"command\": ", Want: "x:2: the JSON ends too early"},
	})
}

func TestLeftOut(t *testing.T) {
	good := `{"results": [{"command": "a", "times": [1, 2]},` + "\n"
	formattest.LeftOut(t, New(), []formattest.Mistake{
		{Name: "no command", Text: good + `{"times": [1]}]}`, Want: "x:2: the result has no command"},
		{Name: "a string", Text: good + `{"command": "b", "times": ["x"]}]}`,
			Want: "x:2: times is a JSON string instead of a number"},
		{Name: "NaN", Text: good + `{"command": "b", "times": [1, NaN]}]}`,
			Want: `x:2: "b": 1 of 2 times are negative or not numbers`},
		{Name: "null", Text: good + `{"command": "b", "times": [null]}]}`, Want: `x:2: "b": 1 of 1 times`},
		{Name: "exit codes", Text: good + `{"command": "b", "times": [1, 1], "exit_codes": [0]}]}`,
			Want: `x:2: "b" has 2 times and 1 exit codes`},
	})
}

// Results of one command are no repetitions: something else may differ, as preparation
// does. Parameters are the difference of which hyperfine knows.
func TestEqualCommands(t *testing.T) {
	out, err := New().Read("x", []byte(`{"results": [{"command": "a", "times": [1]},
		{"command": "a", "times": [2]}, {"command": "n", "parameters": {"x": "1"}, "times": [3]},
		{"command": "n", "parameters": {"x": "2"}, "times": [4]}]}`))
	if err != nil || len(out.Warnings) != 1 ||
		!strings.HasPrefix(out.Warnings[0], `x:2: Another result has the command "a"`) {
		t.Fatalf("%q, %v", out.Warnings, err)
	}
	var names []string
	for _, r := range out.Records {
		names = append(names, r.Labels[0].Value)
	}
	if got := strings.Join(names, ", "); got != "a, a #2, n (x=1), n (x=2)" {
		t.Error(got)
	}
}

// Two command lines with the same parameters are two templates.
func TestTemplates(t *testing.T) {
	out, err := New().Read("x", []byte(`{"results": [
		{"command": "gcc -O1 f1.c", "parameters": {"opt": "1"}, "times": [1]},
		{"command": "gcc -O2 f1.c", "parameters": {"opt": "2"}, "times": [1]},
		{"command": "tcc 1", "parameters": {"opt": "1"}, "times": [1]},
		{"command": "tcc 2", "parameters": {"opt": "2"}, "times": [1]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range out.Records {
		names = append(names, r.Labels[0].Parts[0].Value)
	}
	if got := strings.Join(names, ", "); got != "command 1, command 1, tcc {opt}, tcc {opt}" {
		t.Error(got)
	}
}
