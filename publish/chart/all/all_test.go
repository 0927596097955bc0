package all

import (
	"os"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/publish/chart"
	"bakeoff/publish/chart/bar"
	"bakeoff/publish/chart/change"
	"bakeoff/publish/chart/curve"
	"bakeoff/publish/chart/drift"
	"bakeoff/publish/chart/percent"
	"bakeoff/publish/chart/points"
	"bakeoff/publish/chart/quantile"
	"bakeoff/publish/chart/strip"
	"bakeoff/publish/chart/summary"
	"bakeoff/publish/chart/timeline"
	"bakeoff/publish/chart/tradeoff"
	"bakeoff/publish/chart/trend"
)

// Every folder beside this one is a kind of figure, and is listed.
func TestListIsComplete(t *testing.T) {
	entries, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	var folders, listed []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "all" && e.Name() != "charttest" {
			folders = append(folders, e.Name())
		}
	}
	for _, d := range Docs() {
		listed = append(listed, d.Name)
		if d.Title == "" || d.Read == "" {
			t.Errorf("%s does not say what it is and how to read it", d.Name)
		}
	}
	if !slices.Equal(folders, listed) {
		t.Errorf("folders %q, listed %q", folders, listed)
	}
}

// Every axis names its unit, or says that its numbers have none. An axis of blocks or runs says
// that it counts them.
func TestAxesNameTheirUnits(t *testing.T) {
	v := func(x float64) *float64 { return &x }
	const better = "lower is better"
	change1 := []change.Row{{Label: "a", Diff: 2e6, Lo: 1e6, Hi: 3e6}}
	marks := []timeline.Row{{Label: "a", At: 2e6}, {Label: "b", At: 3e6}}
	write := func(float64) string { return "x" }
	bars := []bar.Row{{Label: "a", Value: v(.002)}}
	dots := []points.Row{{Label: "a", Values: []float64{.002, .003}, Median: v(.002)}}
	sweep := func(values ...string) []curve.Line {
		l := curve.Line{Label: "a"}
		for i, x := range values {
			l.Points = append(l.Points, curve.Point{Value: x, Median: v(.002 + float64(i)/1000)})
		}
		return []curve.Line{l}
	}
	runs := func(f trend.Figure) trend.Figure {
		f.Better, f.Names = better, []string{"one", "two"}
		f.Points = []trend.Point{{Name: "one", Value: v(1.01)}, {Run: 1, Name: "two", Value: v(1.02)}}
		return f
	}
	ratio := percent.Row{Label: "a", Value: v(1.1), Lo: v(1.05), Hi: v(1.2)}
	differs := percent.Row{Label: "a", Value: v(3), Lo: v(1), Hi: v(5)}
	both := []tradeoff.Point{{Label: "1", X: tradeoff.Estimate{Median: v(.002)}, Y: tradeoff.Estimate{Median: v(5)}},
		{Label: "2", X: tradeoff.Estimate{Median: v(.004)}, Y: tradeoff.Estimate{Median: v(9)}}}
	for _, x := range []struct {
		figure chart.Figure
		want   []string // in the drawing or the title
	}{
		{bar.Figure{Unit: "s", Better: better, Rows: bars}, []string{">ms, lower is better<"}},
		{bar.Figure{Better: better, Rows: bars}, []string{">no unit, lower is better<"}},
		{change.Figure{Unit: "s", Rows: change1, Write: write}, []string{" s<"}},
		{change.Figure{Unit: unit.Instruction, Rows: change1, Write: write}, []string{"in instructions"}},
		{curve.Figure{Name: "level", Unit: "s", Better: better, Lines: sweep("1", "9")},
			[]string{"↑ ms, lower is better<", ">level, no unit →<"}},
		{curve.Figure{Name: "size", Better: better, Lines: sweep("1M", "2M")},
			[]string{"↑ no unit, lower is better<", ">size →<", ">1M<"}},
		{drift.Figure{Rows: []drift.Row{{Label: "a", Median: v(1),
			Values: []drift.Value{{Value: 1}, {Position: 1, Value: 1.01}}}}},
			[]string{"±1.0 %", ">one block, in order →<"}},
		{percent.Figure{More: "slower", Rows: []percent.Row{ratio}, Axis: percent.NewAxis(.02, ratio)}, []string{" %<"}},
		{percent.Figure{More: "more", Rows: []percent.Row{differs}, Axis: percent.NewDifferenceAxis("B", differs)},
			[]string{" B<"}},
		{percent.Figure{More: "more", Rows: []percent.Row{differs}, Axis: percent.NewDifferenceAxis("", differs)},
			[]string{", no unit →<"}},
		{points.Figure{Unit: "s", Better: better, Rows: dots}, []string{">ms, lower is better<"}},
		{points.Figure{Unit: "1", Better: better, Rows: dots}, []string{">no unit, lower is better<"}},
		{quantile.Figure{Lines: []quantile.Line{{Label: "a",
			Points: []quantile.Point{{Percent: 50, Seconds: .001}, {Percent: 99, Seconds: .009}}}}},
			[]string{" ms<", ">99 %<"}},
		{strip.Figure{Rows: []strip.Row{{Label: "a", Busy: v(.5), Generator: v(.1), HasPeer: true}}},
			[]string{"0 to 100 % of the time", "load generator, 0 to 100 %"}},
		{summary.Figure{Baseline: "a", Contenders: []string{"b"}, Rows: []summary.Row{{Label: "c",
			Points: []summary.Point{{Value: v(1.5)}}}}}, []string{">1.25×<"}},
		{timeline.Figure{Unit: "s", Rows: marks, Write: write, Moment: write}, []string{" s<"}},
		{timeline.Figure{Unit: unit.Instruction, Rows: marks, Write: write, Moment: write}, []string{"in instructions"}},
		{tradeoff.Figure{X: tradeoff.Side{Metric: "wall", Unit: "s"}, Y: tradeoff.Side{Metric: "score"}, Points: both},
			[]string{"wall, ms, ", "score, no unit, "}},
		{runs(trend.Figure{Baseline: "host", Scale: sample.Ratio, Unit: "s"}), []string{" %<", ">2 runs, in order →<"}},
		{runs(trend.Figure{Baseline: "host", Scale: sample.Difference}), []string{"against host, no unit, lower"}},
		{runs(trend.Figure{Unit: "s"}), []string{" s<"}},
		{runs(trend.Figure{}), []string{"↑ value, no unit, lower"}},
	} {
		drawn := x.figure.Title() + x.figure.Draw("f", chart.Wide)
		for _, want := range x.want {
			if !strings.Contains(drawn, want) {
				t.Errorf("%s does not say %q:\n%s", x.figure.Doc().Name, want, drawn)
			}
		}
	}
}
