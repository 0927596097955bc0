package curve

import (
	"math"
	"slices"
	"strings"
	"testing"

	"bakeoff/publish/chart"
	"bakeoff/publish/chart/charttest"
)

func v(x float64) *float64 { return &x }

func line(label string, values map[string]float64, order ...string) Line {
	l := Line{Label: label}
	for i, x := range order {
		m := values[x]
		p := Point{Value: x, Median: v(m), Lo: v(m * .99), Hi: v(m * 1.01), Mark: chart.Worse, Note: "worse",
			Against: "10 % more", Between: "9 % to 11 %"}
		if i == 0 {
			p.Baseline, p.Mark, p.Note, p.Against, p.Between = true, chart.Plain, "", "", ""
		}
		l.Points = append(l.Points, p)
	}
	return l
}

func one() Figure {
	return Figure{Of: "try, wall", Name: "level", Unit: "s", Better: "lower is better", Baseline: "gzip-level-1",
		Lines: []Line{line("gzip", map[string]float64{"1": .1, "5": .2, "9": .3}, "1", "5", "9")}}
}

func TestFigures(t *testing.T) {
	two := one()
	two.Lines = append(two.Lines, line("zstd", map[string]float64{"1": .05, "19": 1.2}, "1", "19"))
	names := one()
	names.Lines = []Line{line("image", map[string]float64{"alpine:3.20": 2, "debian:bookworm": 1}, "debian:bookworm",
		"alpine:3.20")}
	level := one()
	level.Level = v(.15)
	many := one()
	many.Lines[0].Points = nil
	for i := range 64 {
		many.Lines[0].Points = append(many.Lines[0].Points,
			Point{Value: strings.Repeat("9", i+1), Median: v(float64(i)), Mark: chart.Same})
	}
	hostile := one()
	hostile.Of, hostile.Name = charttest.Hostile, charttest.Hostile
	hostile.Unit, hostile.Baseline = charttest.Hostile, charttest.Hostile
	hostile.Level = v(math.MaxFloat64)
	hostile.Lines = []Line{
		{Label: charttest.Hostile, Points: []Point{{Value: charttest.Hostile, Median: v(math.NaN()), Lo: v(math.Inf(1))},
			{Value: "b", Median: v(-math.MaxFloat64), Lo: v(math.Inf(-1)), Hi: v(0), Mark: chart.Open,
				Note: charttest.Hostile}}},
		{Label: ""},
	}
	for name, f := range map[string]Figure{"one": one(), "two": two, "names": names, "level": level, "many": many,
		"hostile": hostile, "none": {Of: "nothing", Name: "x"}} {
		t.Run(name, func(t *testing.T) { charttest.Run(t, f) })
	}
}

// Values that are numbers of one kind stand at their place, others one after the
// other in their order.
func TestWhereValuesStand(t *testing.T) {
	for _, c := range []struct {
		values, order []string
		across        []float64
	}{
		{[]string{"9", "1", "5"}, []string{"1", "5", "9"}, []float64{0, .5, 1}},
		{[]string{"1", "16", "4"}, []string{"1", "4", "16"}, []float64{0, .5, 1}}, // logarithmic
		{[]string{"1KiB", "2KiB", "3KiB"}, []string{"1KiB", "2KiB", "3KiB"}, []float64{0, .5, 1}},
		{[]string{"1s", "500ms"}, []string{"500ms", "1s"}, []float64{0, 1}},
		{[]string{"10/s", "20/s"}, []string{"10/s", "20/s"}, []float64{0, 1}},
		{[]string{"zstd", "lz4", "9"}, []string{"zstd", "lz4", "9"}, []float64{0, .5, 1}},
		{[]string{"nan", "1"}, []string{"nan", "1"}, []float64{0, 1}},
		{[]string{"5"}, []string{"5"}, []float64{.5}},
	} {
		f := Figure{Lines: []Line{{}}}
		for _, x := range c.values {
			f.Lines[0].Points = append(f.Lines[0].Points, Point{Value: x})
		}
		values, across := NewPlot(f).Values()
		close := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
		if !slices.Equal(values, c.order) || !slices.EqualFunc(across, c.across, close) {
			t.Errorf("%v: %v at %v, want %v at %v", c.values, values, across, c.order, c.across)
		}
	}
}

// The table says of each value what it is, in which unit, and its verdict.
func TestTable(t *testing.T) {
	f := one()
	f.Lines[0].Points[2].Median, f.Lines[0].Points[2].Lo, f.Lines[0].Points[2].Hi = nil, nil, nil
	f.Lines[0].Points[2].Note = "missing"
	rows := f.Table().Rows
	for i, want := range []string{"gzip|1|100 ms|99.0 ms|101 ms|–|–|the baseline",
		"gzip|5|200 ms|198 ms|202 ms|10 % more|9 % to 11 %|worse",
		"gzip|9|unavailable|unavailable|unavailable|10 % more|9 % to 11 %|missing"} {
		if got := strings.Join(rows[i], "|"); got != want {
			t.Errorf("row %d: %s, want %s", i, got, want)
		}
	}
}

// Every part of a figure stays inside of its frame, whatever is far apart.
func TestPlotStaysInside(t *testing.T) {
	f := one()
	f.Lines[0].Points[0].Median, f.Level = v(1e-9), v(1e9)
	p := NewPlot(f)
	for _, x := range []float64{1e-9, .3, 1e9} {
		if up := p.Up(x); up < 0 || up > 1 {
			t.Errorf("%g stands at %g", x, up)
		}
	}
	if p.Up(1e-9) >= p.Up(.3) || p.Up(.3) >= p.Up(1e9) {
		t.Error("the order of the values is not that of their places")
	}
	if labels, up, _ := p.Ticks(6); len(labels) != len(up) || len(labels) < 2 {
		t.Errorf("ticks %v at %v", labels, up)
	}
}
