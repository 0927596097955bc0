package offline

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"bakeoff/base/sample"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/analysis"
	"bakeoff/judge/compare"
	"bakeoff/publish/difference"
)

// The live view has the medians of both sides where there is room, and no interval
// that mixes percent with factors.
func TestLinesHaveMedians(t *testing.T) {
	host, crun := 23.8e-3, 24.1e-3
	r := analysis.Results{Baseline: "host", Summaries: []analysis.Summary{
		{Contender: "host", Cell: "sha", Metric: "throughput", Unit: "s", Median: &host},
		{Contender: "crun", Cell: "sha", Metric: "throughput", Unit: "s", Median: &crun}}}
	small := comparison("crun", "sha", 1.012, 1.005, 1.019, analysis.Worse)
	large := comparison("crun", "sha", 1.66, 1.05, 1.93, analysis.Worse)
	for columns, want := range map[int][]string{
		100: {"23.8 ms → 24.1 ms", "+1.2 % [+0.5 to +1.9 %] worse", "1.66× [1.05–1.93×] worse"},
		80:  {"23.8 ms → 24.1 ms", "+1.2 % [+0.5 to +1.9 %] worse", "1.66× [1.05–1.93×] worse"},
		60:  {"+1.2 % [+0.5 to +1.9 %] worse"},
	} {
		l := LayoutFor(r, []analysis.Comparison{small, large}, columns)
		lines := strings.Join([]string{l.Head("host"), l.Line(small, .02, cli.Style{}), l.Line(large, .02, cli.Style{})},
			"\n")
		for _, w := range want {
			if !strings.Contains(lines, w) {
				t.Errorf("%d columns: no %q in\n%s", columns, w, lines)
			}
		}
	}
}

// compare has the values of both runs before each change.
func TestCompareHasTheValues(t *testing.T) {
	res, err := compare.Two(changed("6.1", 90), changed("6.2", 40), compare.Option{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	a := reader{Streams: cli.NewStreams(nil, &out, io.Discard, func(string) string { return "" })}
	a.printCompare(res, false)
	for _, want := range []string{"0.444× [", "90.2 B/s → 40.1 B/s", "100 B/s → 100 B/s"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if got := difference.Change(sample.Difference, "s", &[]float64{.003}[0], nil, nil); got != "+3.00 ms" {
		t.Errorf("%q", got)
	}
}
