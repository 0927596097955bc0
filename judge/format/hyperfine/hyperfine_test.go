package hyperfine

import (
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
	out, err = New().Read("x", []byte(`{"results": [{"command": "a", "times": [1, 2, 3]}]}`))
	if err != nil || out.Records[0].Failed != 0 || len(out.Records[0].Series[0].Values) != 3 {
		t.Errorf("without exit codes: %+v, %v", out, err)
	}
}

func TestMistakes(t *testing.T) {
	formattest.Mistakes(t, New(), []formattest.Mistake{
		{Name: "no command", Text: "{\"results\": [\n{\"times\": [1]}]}", Want: "x:2: the result has no command"},
		{Name: "no times", Text: `{"results": [{"command": "a", "mean": 1}]}`, Want: `x:1: "a" has no times`},
		{Name: "negative", Text: `{"results": [{"command": "a", "times": [1, -1]}]}`, Want: `x:1: "a" has a negative time`},
		{Name: "exit codes", Text: `{"results": [{"command": "a", "times": [1, 1], "exit_codes": [0]}]}`,
			Want: `x:1: "a" has 2 times and 1 exit codes`},
		{Name: "both", Text: "{\"results\": [{},\n{}]}", Want: "x:1: the result has no command; it needs " +
			"command and times\nx:2: "},
		{Name: "nothing", Text: `{"results": []}`, Want: "x:1: the file has no results"},
		{Name: "cut off", Text: "{\"results\": [\n{\"command\": ", Want: "x:2: the JSON ends too early"},
	})
}
