package analysis

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

// A word that this program does not know must not pass for one that it knows.
func TestParseResultsRefusesUnknownWords(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r Results
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	r.Limits = []Limited{{Condition: "time>+5%", Outcome: Kept}}
	r.Geomeans = []Geomean{{Metric: "time", Better: "lower"}}
	sound, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		change func(*Results)
		want   string // "": no error
	}{
		"intact":               {func(*Results) {}, ""},
		"a reason to end":      {func(r *Results) { r.Ended = "moon" }, ""}, // shown as it is
		"a verdict":            {func(r *Results) { r.Comparisons[0].Verdict = "Worse" }, `verdict is "Worse"`},
		"a verdict of a twin":  {func(r *Results) { r.Twin.Comparisons[0].Verdict = "x" }, `verdict is "x"`},
		"a direction":          {func(r *Results) { r.Comparisons[0].Better = "up" }, `better is "up"`},
		"a scale":              {func(r *Results) { r.Comparisons[0].Scale = "" }, `scale is ""`},
		"a scope":              {func(r *Results) { r.Comparisons[0].Scope = "all" }, `scope is "all"`},
		"a metric's direction": {func(r *Results) { r.Cells[0].Metrics[0].Better = "" }, `better is ""`},
		"a metric's scale":     {func(r *Results) { r.Cells[0].Metrics[0].Scale = "log" }, `scale is "log"`},
		"a mean's direction":   {func(r *Results) { r.Geomeans[0].Better = "up" }, `better is "up"`},
		"an outcome":           {func(r *Results) { r.Limits[0].Outcome = "ok" }, `outcome is "ok"`},
		"a primary comparison without a verdict": {func(r *Results) {
			r.Comparisons[0].Primary, r.Comparisons[0].Verdict = true, ""
		}, `verdict is ""`},
		"a margin below 0":    {func(r *Results) { r.Margin = -1 }, "margin is -1"},
		"a margin above all":  {func(r *Results) { r.Margin = 0.9 }, "margin is 0.9"},
		"another without one": {func(r *Results) { r.Comparisons[0].Primary, r.Comparisons[0].Verdict = false, "" }, ""},
		"a word of a newer version": {func(r *Results) { r.Rules, r.Comparisons[0].Verdict = Rules+1, "much worse" },
			"a newer version of bakeoff wrote the file"},
	} {
		var r Results
		if err := json.Unmarshal(sound, &r); err != nil {
			t.Fatal(err)
		}
		r.Schema = ResultsSchema
		x.change(&r)
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ParseResults(text)
		if x.want == "" && err != nil || x.want != "" &&
			(!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%s: %v, want %q", name, err, x.want)
		}
	}
}

// An error names the member and its type in JSON.
func TestParseResultsNamesAWrongType(t *testing.T) {
	for text, want := range map[string]string{`{"margin":"x"}`: "margin is a JSON string, which is the wrong type",
		`[]`: "the document is a JSON array"} {
		if _, err := ParseResults([]byte(text)); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
