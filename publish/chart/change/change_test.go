package change

import (
	"math"
	"strings"
	"testing"

	"bakeoff/publish/chart"
	"bakeoff/publish/chart/charttest"
	"bakeoff/publish/chart/timeline"
)

func TestFigures(t *testing.T) {
	inf := math.Inf(1)
	for name, rows := range map[string][]Row{
		"none": nil,
		"some": {{Label: "init", Diff: .2, Lo: .1, Hi: .3, Mark: chart.Worse},
			{Label: "probe", Diff: -.01, Lo: -.01, Hi: -.01, Mark: chart.Better}},
		"hostile":   {{Label: charttest.Hostile, Diff: 1, Lo: -inf, Hi: inf, Mark: chart.Open}},
		"wild":      {{Label: "a", Diff: math.NaN(), Lo: math.NaN(), Hi: inf, Mark: chart.Open}},
		"no length": {{Label: "a", Mark: chart.Same}},
	} {
		t.Run(name, func(t *testing.T) {
			charttest.Run(t, Figure{Of: "boots", Rows: rows, Unit: "s", Write: timeline.Seconds})
		})
	}
}

// A difference says whether its interval is known, and which way it goes.
func TestValue(t *testing.T) {
	f := Figure{Write: timeline.Seconds}
	for want, r := range map[string]Row{
		"+200 ms (+100 ms to +300 ms)":                {Diff: .2, Lo: .1, Hi: .3},
		"−10.0 ms, exact":                             {Diff: -.01, Lo: -.01, Hi: -.01, Exact: true},
		"−20.0 ms (−20.0 ms to −20.0 ms)":             {Diff: -.02, Lo: -.02, Hi: -.02},
		"+3.00 s, the same in all boots: no interval": {Diff: 3, Lo: math.Inf(-1), Hi: math.Inf(1), Agree: true},
		"+1.00 s, too few boots for an interval":      {Diff: 1, Lo: math.Inf(-1), Hi: math.Inf(1)},
		"+5.00 ms (−1.00 ms to +11.0 ms)":             {Diff: .005, Lo: -.001, Hi: .011},
	} {
		if got := f.Value(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if !strings.Contains(f.Title(), "differences") {
		t.Error(f.Title())
	}
}
