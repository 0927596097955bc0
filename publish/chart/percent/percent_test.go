package percent

import (
	"math"
	"strings"
	"testing"

	"bakeoff/publish/chart"
	"bakeoff/publish/chart/charttest"
)

func p(v float64) *float64 { return &v }

func figure(rows ...Row) Figure {
	return Figure{Of: "sha256-16k, throughput", Baseline: "host", Less: "slower", More: "faster",
		MoreIsBetter: true, Rows: rows, Axis: NewAxis(0.02, rows...)}
}

func TestFigures(t *testing.T) {
	for name, f := range map[string]Figure{
		"empty": figure(),
		"close": figure(Row{Label: "crun", Value: p(1.001), Lo: p(0.994), Hi: p(1.009), Mark: chart.Same,
			Note: "equivalent"}),
		"far": figure(
			Row{Label: "crun", Value: p(1.001), Lo: p(0.994), Hi: p(1.009), Mark: chart.Same},
			Row{Label: "microvm", Value: p(0.05), Lo: p(0.049), Hi: p(0.051), Mark: chart.Worse},
			Row{Label: "dash", Value: p(2e9), Mark: chart.Better},
			Row{Label: "nothing", Note: "no values"},
			Row{Label: "half open", Value: p(0.9), Hi: p(1.2), Mark: chart.Open}),
		"hostile": figure(Row{Label: charttest.Hostile, Note: charttest.Hostile},
			Row{Label: strings.Repeat("界", 100000), Value: p(1.1), Lo: p(1), Hi: p(1.2)},
			Row{Label: "bad", Value: p(math.NaN()), Lo: p(math.Inf(-1)), Hi: p(0)},
			Row{Label: "tiny", Value: p(5e-324), Lo: p(5e-324), Hi: p(math.MaxFloat64)}),
		"difference": {Of: "switches", Baseline: "host", Less: "fewer", More: "more",
			Rows: []Row{{Label: "crun", Value: p(3), Lo: p(-1), Hi: p(7)}},
			Axis: NewDifferenceAxis("1", Row{Value: p(3), Lo: p(-1), Hi: p(7)})},
		"no difference": {Of: "switches", Baseline: "host", Axis: NewDifferenceAxis("s"),
			Rows: []Row{{Label: "crun", Value: p(0), Lo: p(0), Hi: p(0)}}},
	} {
		t.Run(name, func(t *testing.T) { charttest.Run(t, f) })
	}
}

// An interval that was not computed is unavailable, in every table of the page; one that
// has a single bound has no limit on the other side.
func TestTableNamesMissingIntervals(t *testing.T) {
	f := figure(Row{Label: "few", Value: p(1.01)}, Row{Label: "none"}, Row{Label: "half", Value: p(1.1), Lo: p(1.05)})
	for i, want := range []string{"few|+1.0 %|unavailable|unavailable||1.01",
		"none|unavailable|unavailable|unavailable||unavailable", "half|+10.0 %|+5.0 %|unbounded||1.1"} {
		if got := strings.Join(f.Table().Rows[i], "|"); got != want {
			t.Errorf("row %q, want %q", got, want)
		}
	}
}

// A comparison at −95 % must leave those at ±1 % room to be read, and
// nothing may fall off the axis.
func TestAxisKeepsSmallDifferencesVisible(t *testing.T) {
	a := NewAxis(0.02, Row{Value: p(0.05), Lo: p(0.04), Hi: p(0.06)}, Row{Value: p(1.01)})
	if !a.Stretched {
		t.Fatal("an axis from −95 % should be stretched")
	}
	if w := a.Position(1.02) - a.Position(1/1.02); w < 0.12 {
		t.Errorf("the margin takes %.1f %% of the axis", 100*w)
	}
	if a.Position(0.04) != 0 || a.Position(0.05) <= 0 {
		t.Error("the furthest bound should be the end of the axis")
	}
	for r := 0.04; r < 1.04; r += 0.001 {
		if a.Position(r+0.001) <= a.Position(r) {
			t.Fatalf("the axis does not rise at %v", r)
		}
	}
	if b := NewAxis(0.02, Row{Value: p(0.97), Lo: p(0.95), Hi: p(1.01)}); b.Stretched {
		t.Error("an axis within 5 % needs no stretching")
	}
}

func TestTicksAreInside(t *testing.T) {
	for _, far := range []float64{1.001, 0.9, 0.5, 0.05, 1e-5, 1.3, 20, 1e7} {
		a := NewAxis(0.02, Row{Value: &far})
		ticks := a.tickCandidates()
		if len(ticks) < 3 || ticks[0] != 1 {
			t.Errorf("%v: ticks %v", far, ticks)
		}
		for _, v := range ticks {
			if l := math.Log(v); l < a.Lo-1e-6 || l > a.Hi+1e-6 {
				t.Errorf("%v: tick %v is outside of %v to %v", far, v, a.Lo, a.Hi)
			}
		}
	}
}

func FuzzFigure(f *testing.F) {
	f.Add("crun", 0.5, 0.4, 0.6, 0.02, false)
	f.Add("x", math.Inf(1), math.NaN(), -1.0, 0.0, true)
	f.Fuzz(func(t *testing.T, label string, v, lo, hi, margin float64, difference bool) {
		row := Row{Label: label, Value: &v, Lo: &lo, Hi: &hi, Mark: chart.Open, Note: label}
		g := figure(row)
		g.Axis = NewAxis(margin, row)
		if difference {
			g.Axis = NewDifferenceAxis("s", row)
		}
		svg := g.Draw("f", chart.Narrow)
		if strings.Contains(svg, "NaN") && !strings.Contains(label, "NaN") || strings.Count(svg, "<svg") != 1 {
			t.Error(svg)
		}
	})
}

// Which way is better is said whole, however little room there is on its side.
func TestTheBetterSideIsNamed(t *testing.T) {
	for _, x := range []struct {
		more  bool
		value float64
		want  string
	}{{true, 0.05, ">better →<"}, {true, 1.01, ">faster (better) →<"}, {false, 20, ">← better<"}} {
		row := Row{Label: "microvm", Value: &x.value, Lo: &x.value, Hi: &x.value, Mark: chart.Worse}
		f := Figure{Of: "cpu", Baseline: "host", Less: "slower", More: "faster", MoreIsBetter: x.more, Rows: []Row{row},
			Axis: NewAxis(0.02, row)}
		if !x.more {
			f.Less, f.More = f.More, f.Less
		}
		if svg := f.Draw("f", chart.Narrow); !strings.Contains(svg, x.want) {
			t.Errorf("at %v the figure does not say %q:\n%s", x.value, x.want, svg)
		}
	}
}
