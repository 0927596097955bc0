package summary

import (
	"math"
	"strings"
	"testing"

	"bakeoff/publish/chart"
	"bakeoff/publish/chart/charttest"
)

func p(v float64) *float64 { return &v }

func at(contender int, v float64) Point {
	return Point{Contender: contender, Value: p(v), Lo: p(v * 0.9), Hi: p(v * 1.1), Mark: chart.Same}
}

func TestFigures(t *testing.T) {
	long := Figure{Baseline: "host"}
	for i := range 60 {
		long.Contenders = append(long.Contenders, strings.Repeat("界", i+1))
	}
	long.Rows = []Row{{Label: "x", Points: []Point{at(0, 1), at(59, 3)}}}
	for name, f := range map[string]Figure{
		"empty": {Baseline: "host"},
		"usual": {Baseline: "host", Contenders: []string{"crun", "microvm"}, Rows: []Row{
			{Label: "syscall, throughput", Points: []Point{at(0, 1.01), at(1, 0.2)}},
			{Label: "pgbench, throughput", Points: []Point{at(0, 0.99), {Contender: 1, Note: "missing"}}}}},
		"hostile": {Baseline: charttest.Hostile, Contenders: []string{charttest.Hostile}, Rows: []Row{
			{Label: charttest.Hostile, Points: []Point{{Contender: 0, Value: p(2), Note: charttest.Hostile},
				{Contender: 7, Value: p(1)}, {Contender: -1}}},
			{Label: strings.Repeat("界", 100000), Points: []Point{at(0, 1)}}}},
		"bad numbers": {Baseline: "host", Contenders: []string{"a"}, Rows: []Row{{Label: "x", Points: []Point{
			{Value: p(math.NaN())}, {Value: p(0)}, {Value: p(-1)}, {Value: p(1), Lo: p(math.Inf(-1)), Hi: p(math.Inf(1))},
			{Value: p(5e-324)}, {Value: p(math.MaxFloat64)}}}}},
		"many": long,
	} {
		t.Run(name, func(t *testing.T) { charttest.Run(t, f) })
	}
}

// The mean is of all components or of none, and has its components above it.
func TestMeanOnlyBesideItsComponents(t *testing.T) {
	f := Figure{Baseline: "host", Contenders: []string{"crun", "microvm"}, Rows: []Row{
		{Label: "a", Points: []Point{at(0, 2), at(1, 4)}},
		{Label: "b", Points: []Point{at(0, 0.5), {Contender: 1, Note: "missing"}}},
	}}
	if m := f.Mean(0); m == nil || math.Abs(*m-1) > 1e-12 {
		t.Errorf("the mean of 2× and 0.5× is %v, and 1× is right", m)
	}
	if m := f.Mean(1); m != nil {
		t.Errorf("a contender without a component has the mean %v", *m)
	}
	rows := f.Table().Rows
	if last := rows[len(rows)-1]; !strings.HasPrefix(last[0], "geometric mean of the 2") || last[1] != "crun" ||
		len(rows) != 5 {
		t.Errorf("table %q", rows)
	}
	one := Figure{Baseline: "host", Contenders: []string{"crun"}, Rows: f.Rows[:1]}
	if one.Mean(0) != nil {
		t.Error("one component has a mean")
	}
}

// Twice and half as good are equally far from the baseline, better right.
func TestAxis(t *testing.T) {
	f := Figure{Contenders: []string{"x"}, Rows: []Row{{Points: []Point{at(0, 2), at(0, 0.5)}}}}
	l := f.layoutFor("f", chart.Wide)
	left, right := l.positionOf(1)-l.positionOf(0.5), l.positionOf(2)-l.positionOf(1)
	if math.Abs(left-right) > 1e-9 || right <= 0 {
		t.Errorf("half is %g to the left, twice %g to the right", left, right)
	}
}
