package offline

import (
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/analysis"
)

func TestLimitsAreChecked(t *testing.T) {
	for _, text := range []string{"boot", "boot>0.1", ">1%", "boot>-1%", "boot<1%", "boot>+1%%", "boot<-100%"} {
		if err := (FailOn{text}).Check(); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "METRIC>+N%") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A limit without its percent sign gets a suggestion.
func TestLimitsWithoutPercent(t *testing.T) {
	if err := (FailOn{"cpu>+5"}).Check(); err == nil || !strings.HasSuffix(err.Error(), "; did you mean cpu>+5%?") {
		t.Error(err)
	}
	err := (FailOn{"cpu"}).Check()
	if err == nil || !strings.HasSuffix(err.Error(), "in a shell, write quotes: --fail-on 'METRIC>+5%'") {
		t.Errorf("a condition that a shell cut: %v", err)
	}
}

// judgedBy is a run with one comparison of a metric.
func judgedBy(metric string, lo, hi float64, exact *analysis.Exact) analysis.Results {
	return analysis.Results{Comparisons: []analysis.Comparison{{Contender: "new", Baseline: "old", Cell: "boot",
		Workload: "boot", Metric: metric, Unit: "instruction", Primary: true, CI: analysis.Interval{&lo, &hi}, Exact: exact}}}
}

func TestLimitsEnd(t *testing.T) {
	gated := judgedBy("ready", 1.2, 1.5, nil)
	gated.Comparisons[0].Gates = []analysis.Gate{{Name: "steal", Reason: "the host was busy"}}
	unmeasured := judgedBy("ready", 1, 1, nil)
	unmeasured.Comparisons[0].CI = analysis.Interval{}
	apart := judgedBy("ready", 1.2, 1.5, nil)
	apart.Comparisons[0].Scale = "difference"
	lower := judgedBy("ready", 1.031, 1.05, nil)
	lower.Comparisons[0].Better, lower.Margin = "lower", .03
	higher := judgedBy("ready", 1.031, 1.05, nil)
	higher.Margin = .03
	missing := judgedBy("ready", 1, 1.2, nil)
	missing.Missing = []analysis.Missing{{}}
	failed := judgedBy("ready", 1, 1, nil)
	failed.Limits = []analysis.Limited{{Condition: "ready>+1%", Contender: "new", Cell: "boot", Metric: "ready",
		Outcome: analysis.Exceeded, Blocks: 8}}
	three := 3
	asked := judgedBy("ready", 1.2, 1.5, nil) // its answer counts, not the interval of its verdict
	asked.Limits = []analysis.Limited{{Condition: "ready>+1%", Contender: "new", Cell: "boot", Metric: "ready",
		Outcome: analysis.Undecided, Blocks: 4, Reason: "the first look is after 8 blocks",
		MoreBlocks: &three}}
	for _, tt := range []struct {
		condition string
		results   analysis.Results
		code      int
		says      string
	}{
		{"boot>+0.1%", judgedBy("instructions", 1.002, 1.002, &analysis.Exact{Difference: 1421153}), cli.ExitAsked,
			"new boot instructions is +0.2 % (+1,421,153 instructions exactly)"},
		{"instructions>+0.1%", judgedBy("instructions", 1.0005, 1.0005, &analysis.Exact{}), cli.ExitDone, ""},
		{"instructions>+0.1%", judgedBy("instructions", 0.5, 0.5, &analysis.Exact{}), cli.ExitDone, ""},
		{"ready>+1%", judgedBy("ready", 1.005, 1.5, nil), cli.ExitUndecided, "+0.5 to +50.0 % after 0 blocks: the interval " +
			"contains the limit\nmeasure more"},
		{"ready>+1%", judgedBy("ready", 1.02, 1.05, nil), cli.ExitAsked, "is +2.0 % or higher"},
		{"ready<-10%", judgedBy("ready", 0.5, 0.8, nil), cli.ExitAsked, "is −20.0 % or lower"},
		{"ready<-10%", judgedBy("ready", 0.5, 0.95, nil), cli.ExitUndecided, "the interval contains the limit"},
		{"ready<-10%", judgedBy("ready", 0.95, 1.95, nil), cli.ExitDone, ""},
		{"worse-than-margin", lower, cli.ExitAsked, "is worse by more than 3 %: +3.1 % or higher"},
		{"worse-than-margin", higher, cli.ExitDone, ""},
		{"ready>+1%", failed, cli.ExitAsked, "new boot ready is beyond every limit, because failed trials count as"},
		{"ready>+1%", gated, cli.ExitUndecided, "check steal failed: the host was busy"},
		{"ready>+1%", unmeasured, cli.ExitUndecided, "the interval contains the limit"},
		{"ready>+1%", apart, cli.ExitUndecided, "compared by differences, so a share is unknown"},
		{"ready>+1%", missing, cli.ExitUndecided, "not decided"}, // before missing cells
		{"ready>+1%", asked, cli.ExitUndecided, "new boot ready: after 4 blocks: the first look is after 8 blocks; about 3"},
		{"nothing>+1%", judgedBy("ready", 1, 1, nil), cli.ExitInvalid, `cell or workload "nothing"; there are boot`},
		{"worse-than-margin", analysis.Results{}, cli.ExitInvalid, "the comparison contains no primary metric"},
		{"worse-than-margin", analysis.Results{Missing: missing.Missing}, cli.ExitMissing, ""},
	} {
		err := FailOn{tt.condition}.End(tt.results, "measure more")
		if got := cli.ExitCode(err); got != tt.code || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %d, %v, want %d, %q", tt.condition, got, err, tt.code, tt.says)
		}
	}
}
