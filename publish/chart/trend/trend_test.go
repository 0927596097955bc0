package trend

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/sample"
	"bakeoff/publish/chart"
	"bakeoff/publish/chart/charttest"
)

func v(x float64) *float64 { return &x }

// nightly is a step of 3 % at the fifth of eight runs; the second does not count.
func nightly() Figure {
	f := Figure{Of: "sha256, crun", Baseline: "host", Scale: sample.Ratio, Unit: "s/op", Better: "lower is better",
		Band: &[2]float64{1 / 1.02, 1.02}}
	for i := range 8 {
		name := fmt.Sprintf("2026-01-%02d", i+1)
		f.Names = append(f.Names, name)
		m := 1.01
		if i >= 4 {
			m = 1.04
		}
		if i == 1 {
			f.Left = append(f.Left, Left{Run: i, Name: name, Reason: "a check failed"})
			continue
		}
		f.Points = append(f.Points, Point{Run: i, Name: name, Value: v(m), Lo: v(m - .02), Hi: v(m + .02),
			Inner0: v(m - .01), Inner1: v(m + .01), Blocks: 8})
	}
	f.Levels = []Level{{0, 3, v(1.01), v(1.005), v(1.015)}, {3, 7, v(1.04), v(1.035), v(1.045)}}
	f.Steps = []Step{{Run: 4, From: 3, To: 5, Mark: chart.Worse, Text: "worse by 3.0 %"}}
	return f
}

func TestFigures(t *testing.T) {
	many := nightly()
	many.Names, many.Points, many.Left, many.Levels, many.Steps = nil, nil, nil, nil, nil
	for i := range 700 {
		many.Names = append(many.Names, fmt.Sprint("run ", i))
		many.Points = append(many.Points, Point{Run: i, Name: "run", Value: v(1 + float64(i%7)/100)})
	}
	hostile := nightly()
	hostile.Of, hostile.Baseline, hostile.Unit, hostile.Better = charttest.Hostile, charttest.Hostile, charttest.Hostile,
		charttest.Hostile
	hostile.Names = []string{charttest.Hostile, strings.Repeat("x", 5000)}
	hostile.Points = []Point{{Run: -5, Name: charttest.Hostile, Value: v(math.NaN()), Lo: v(math.Inf(-1))},
		{Run: math.MaxInt, Value: v(-1), Lo: v(math.MaxFloat64), Hi: v(math.Inf(1))}, {Value: v(math.MaxFloat64)}}
	hostile.Levels = []Level{{From: -3, To: 900}, {From: 2, To: 1, Value: v(1)}, {From: 0, To: 2, Value: v(math.Inf(1))}}
	hostile.Steps = []Step{{Run: 77, From: -8, To: 99, Text: charttest.Hostile}}
	hostile.Left = []Left{{Run: 12, Name: charttest.Hostile, Reason: charttest.Hostile}}
	values := nightly()
	values.Baseline, values.Band = "", nil
	differences := nightly()
	differences.Scale = sample.Difference
	factors := nightly()
	factors.Points[6].Value = v(40)
	for name, f := range map[string]Figure{"nightly": nightly(), "many": many, "hostile": hostile, "values": values,
		"differences": differences, "factors": factors, "none": {Of: "nothing", Better: "x"}} {
		t.Run(name, func(t *testing.T) { charttest.Run(t, f) })
	}
}

func TestWordsAndTable(t *testing.T) {
	f := nightly()
	for _, want := range []string{"Level of 3 runs: +1.0 %, interval +0.5 to +1.5 %", "Then worse by 3.0 % at 2026-01-05",
		"Level of 4 runs: +4.0 %"} {
		if !strings.Contains(f.Desc(), want) {
			t.Errorf("no %q in %q", want, f.Desc())
		}
	}
	f.Steps, f.Levels = nil, f.Levels[:1]
	if !strings.Contains(f.Desc(), "No step was found") {
		t.Error(f.Desc())
	}
	table := nightly().Table()
	if len(table.Rows) != 8 || table.Rows[0][0] != "2026-01-08" || table.Rows[3][5] != "worse by 3.0 %" ||
		!slices.Equal(table.Rows[6][:3], []string{"2026-01-02", "does not count", "a check failed"}) {
		t.Errorf("%q", table.Rows)
	}
}

// A step stands between the last run before it and the first after it.
func TestAStepStandsBetweenRuns(t *testing.T) {
	f := nightly()
	c := chart.NewRows("f", chart.Wide, left, right, f.Points, func(Point) string { return "" })
	p := plot{Axis: NewAxis(f), Rows: c, x0: left, x1: chart.Wide - right, runs: len(f.Names)}
	at := fmt.Sprintf(`x1="%.1f"`, (p.xOf(3)+p.xOf(4))/2)
	if svg := f.Draw("f", chart.Wide); !strings.Contains(strings.ReplaceAll(svg, ".0\"", "\""),
		strings.ReplaceAll(at, ".0\"", "\"")) {
		t.Errorf("no line at %s", at)
	}
	if a := NewAxis(f); !a.Has(1) || a.Has(2) || a.Up(1.05) <= a.Up(1.04) {
		t.Error("the axis does not rise, or misses the margin")
	}
}
