package offline

import (
	"strings"
	"testing"
	"unicode/utf8"

	"bakeoff/base/sample"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/analysis"
)

func comparison(contender, cell string, ratio, lo, hi float64, v analysis.Verdict) analysis.Comparison {
	return analysis.Comparison{
		Contender: contender, Baseline: "host", Cell: cell, Metric: "throughput", Unit: "B/s",
		Better: sample.Higher, Scale: sample.Ratio, Primary: true, Look: 8,
		Ratio: &ratio, CI: analysis.Interval{&lo, &hi}, Verdict: v,
	}
}

func TestIntervalBar(t *testing.T) {
	for _, c := range []struct {
		ratio, lo, hi float64
		want          string
	}{
		{1, 0.999, 1.001, "          ··●··          "},
		{1, 0.99, 1.01, "          ·━●━·          "},
		{1.1, 1.05, 1.2, "          ··┊·· ━●━      "},
		{0.1, 0.05, 0.2, "●━        ··┊··          "},
	} {
		got := intervalBar(comparison("a", "b", c.ratio, c.lo, c.hi, ""), 0.02, 25)
		if utf8.RuneCountInString(got) != 25 {
			t.Errorf("%v: %d cells", c, utf8.RuneCountInString(got))
		}
		if got != c.want {
			t.Errorf("%v:\n%q, want\n%q", c.ratio, got, c.want)
		}
	}
}

// A line says how large a verdict is, seen from the margin, where there is room.
func TestLineSaysWhatIsBeyondTheMargin(t *testing.T) {
	yes, no := true, false
	for _, x := range []struct {
		beyond *bool
		width  int
		want   string
	}{
		{&yes, 120, " worse by more than 3 %"},
		{&no, 120, " worse, possibly by less than 3 %"},
		{nil, 120, " worse"},
		{&no, 80, " worse"},
	} {
		c := comparison("crun", "sha", 0.97, 0.96, 0.982, analysis.Worse)
		c.BeyondMargin = x.beyond
		l := LayoutFor(analysis.Results{}, []analysis.Comparison{c}, x.width)
		if got := l.Line(c, 0.03, cli.Style{}); !strings.HasSuffix(got, "]"+x.want) {
			t.Errorf("%d columns: %q, want %q at its end", x.width, got, x.want)
		}
	}
}

// Blocks after the last look are distinguished from blocks after a decision.
func TestUnusedBlocks(t *testing.T) {
	r := analysis.Results{Unused: 8, Looks: []int{8, 18}, Comparisons: []analysis.Comparison{
		{Primary: true, Verdict: analysis.Equivalent}, {Primary: true, Verdict: analysis.Inconclusive}}}
	if got := unusedText(r); got != "unused: 8 blocks after the last look at 18 blocks; set other looks with --looks" {
		t.Error(got)
	}
	r.Comparisons = r.Comparisons[:1]
	if got := unusedText(r); got != "unused: 8 blocks after the deciding look" {
		t.Error(got)
	}
}
