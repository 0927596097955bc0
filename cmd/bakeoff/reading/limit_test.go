package reading

import (
	"math"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
)

func TestLimits(t *testing.T) {
	for text, want := range map[string]limit{
		"boot>+0.1%":          {name: "boot", more: true, share: 0.001},
		"instructions>3%":     {name: "instructions", more: true, share: 0.03},
		"throughput<-5%":      {name: "throughput", share: 0.05},
		"cpu-per-request>+2%": {name: "cpu-per-request", more: true, share: 0.02},
	} {
		want.text = text
		got, ok := parseLimit(text)
		if !ok || got.name != want.name || got.more != want.more || math.Abs(got.share-want.share) > 1e-12 {
			t.Errorf("%q: got %+v, %v", text, got, ok)
		}
		if err := (FailOn{text}).Check(); err != nil {
			t.Error(err)
		}
	}
	for _, text := range []string{"boot", "boot>0.1", ">1%", "boot>-1%", "boot<1%", "boot>+1%%", "boot<-100%", "a b>1%"} {
		if err := (FailOn{text}).Check(); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "METRIC>+N%") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// judgedBy is a run with one comparison of a metric.
func judgedBy(metric string, lo, hi float64, exact *analysis.Exact) analysis.Results {
	return analysis.Results{Comparisons: []analysis.Comparison{{Contender: "new", Baseline: "old", Cell: "boot",
		Workload: "boot", Metric: metric, Unit: "instruction", Primary: true, CI: analysis.Interval{&lo, &hi}, Exact: exact}}}
}

func TestLimitsEnd(t *testing.T) {
	for _, tt := range []struct {
		condition string
		results   analysis.Results
		says      string
	}{
		{"boot>+0.1%", judgedBy("instructions", 1.002, 1.002, &analysis.Exact{Difference: 1421153}),
			"new boot instructions is +0.2 % (+1,421,153 instructions exactly)"},
		{"instructions>+0.1%", judgedBy("instructions", 1.0005, 1.0005, &analysis.Exact{}), ""},
		{"instructions>+0.1%", judgedBy("instructions", 0.5, 0.5, &analysis.Exact{}), ""},
		{"ready>+1%", judgedBy("ready", 1.005, 1.5, nil), ""}, // the difference may be smaller
		{"ready>+1%", judgedBy("ready", 1.02, 1.05, nil), "is +2.0 % or further"},
		{"ready<-10%", judgedBy("ready", 0.5, 0.8, nil), "is −20.0 % or further"},
		{"ready<-10%", judgedBy("ready", 0.5, 0.95, nil), ""},
		{"nothing>+1%", judgedBy("ready", 1, 1, nil), `cell or workload "nothing"; there are boot`},
	} {
		err := FailOn{tt.condition}.End(tt.results)
		if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: got %v, want %q", tt.condition, err, tt.says)
		}
	}
}
