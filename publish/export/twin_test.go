package export

import (
	"bytes"
	"strings"
	"testing"

	"bakeoff/judge/analysis"
)

// The results of bakeoff compare have the name of OLD as their baseline, and the twin of a run is
// a copy of the baseline of that run.
func TestTheTwinIsACopyOfItsBaseline(t *testing.T) {
	for format, want := range map[string]string{"junit": "host~twin against host", "openmetrics": "(host under a second"} {
		res := analysis.Results{Run: "old to new", Baseline: "20260101T000000Z-nightly", Twin: &analysis.Twin{
			Name: "host~twin", Comparisons: []analysis.Comparison{{Contender: "host~twin", Baseline: "host"}}}}
		var b bytes.Buffer
		if err := Write(&b, format, []Run{{Results: res}}); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%s: %v\n%s", format, err, b.String())
		}
	}
}
