package points

import (
	"math"
	"strings"
	"testing"

	"bakeoff/publish/chart"
	"bakeoff/publish/chart/charttest"
)

func p(v float64) *float64 { return &v }

func rows(levels ...float64) []Row {
	var out []Row
	for i, l := range levels {
		r := Row{Label: string(rune('a' + i)), Baseline: i == 0, Median: p(l), Lo: p(l * 0.99), Hi: p(l * 1.01), N: 20}
		for j := range 20 {
			r.Values = append(r.Values, l*(1+0.02*math.Sin(float64(j*7))))
		}
		out = append(out, r)
	}
	return out
}

func one(label string, v float64) Row {
	return Row{Label: label, Values: []float64{v}, Median: &v, N: 1}
}

// A unit that holds for the whole axis is written once; pieces of different
// sizes have it each.
func TestUnitsOfPieces(t *testing.T) {
	for want, f := range map[string]Figure{
		">request/s, higher is better<": {Rows: []Row{one("a", 26.9), one("b", 7.84), one("c", 30.6)}},
		" krequest/s<":                  {Rows: []Row{one("a", 7.84), one("b", 7840)}},
	} {
		f.Unit, f.Better = "request/s", "higher is better"
		if svg := f.Draw("f", chart.Wide); !strings.Contains(svg, want) {
			t.Errorf("no %q in\n%s", want, svg)
		}
	}
}

func TestFigures(t *testing.T) {
	for name, rs := range map[string][]Row{
		"none":   nil,
		"close":  rows(100e6, 101e6, 99e6),
		"far":    rows(100e6, 101e6, 5e6),
		"pieces": {one("a", 26.9), one("b", 7.84), one("c", 26.4), one("d", 30.6), one("e", 27.4)},
		"sizes":  {one("a", 0.0071), one("b", 7.84), one("c", 7840)},
		"one":    {{Label: "a", Values: []float64{3}, Median: p(3), N: 1}},
		"zero":   {{Label: "a", Values: []float64{0, 0, 0}, Median: p(0), Lo: p(0), Hi: p(0), N: 3}},
		"failed": {{Label: charttest.Hostile, Failures: 4}},
		"wild": {{Label: "a", Values: []float64{math.NaN(), math.Inf(1), -math.MaxFloat64, math.MaxFloat64, 1}, N: 5,
			Median: p(math.NaN()), Lo: p(math.Inf(-1)), Hi: p(-1)}},
	} {
		t.Run(name, func(t *testing.T) {
			charttest.Run(t, Figure{Of: "sha256", Unit: "request/s", Better: "higher is better", Rows: rs})
		})
	}
}

// Every value has its place, and a contender at a twentieth does not press
// the spread of the others into nothing.
func TestPieces(t *testing.T) {
	rs := rows(100, 101, 5)
	ps := breakAxis(rs, 0, 800)
	if len(ps) != 2 {
		t.Fatalf("%d pieces, want 2", len(ps))
	}
	for _, r := range rs {
		for _, v := range r.Values {
			if pieceHolding(ps, v) == nil {
				t.Errorf("%v has no place", v)
			}
		}
	}
	if w := ps[1].positionOf(102) - ps[1].positionOf(98); w < 200 {
		t.Errorf("4 %% of the upper piece take %.0f of 800", w)
	}
	if n := len(breakAxis(rows(100, 103, 90), 0, 800)); n != 1 {
		t.Errorf("%d pieces for contenders that are close, want 1", n)
	}
	if n := len(breakAxis([]Row{one("a", 657), one("b", 585), one("c", 426), one("d", 259)}, 0, 800)); n != 1 {
		t.Errorf("%d pieces for four single values that are even, want 1", n)
	}
	if n := len(breakAxis([]Row{one("a", 0.17), one("b", 0.25), one("c", 19)}, 0, 800)); n != 2 {
		t.Errorf("%d pieces for a single value far from two, want 2", n)
	}
	if n := len(breakAxis(rows(1, 10, 100, 1e3, 1e4, 1e5, 1e6), 0, 800)); n > most {
		t.Errorf("%d pieces", n)
	}
}
