package tradeoff

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"bakeoff/publish/chart"
	"bakeoff/publish/chart/charttest"
)

func v(x float64) *float64 { return &x }

func near(m float64) Estimate { return Estimate{v(m), v(m * .99), v(m * 1.01)} }

// levels is a compressor whose level 3 is slower than level 5 and makes larger files.
func levels() Figure {
	f := Figure{Of: "try", Name: "level", X: Side{Metric: "wall", Unit: "s"}, Y: Side{Metric: "cost", Unit: "B"}}
	for _, p := range [][3]float64{{1, .1, 9e5}, {3, .3, 8e5}, {5, .2, 7e5}, {9, .9, 6e5}} {
		f.Points = append(f.Points, Point{Label: fmt.Sprint(p[0]), X: near(p[1]), Y: near(p[2]), Baseline: p[0] == 1})
	}
	return f
}

func TestFigures(t *testing.T) {
	higher := levels()
	higher.X.Higher, higher.Y.Unit = true, "1"
	same := levels()
	for i := range same.Points {
		same.Points[i].X, same.Points[i].Y = near(0), near(3)
	}
	many := levels()
	for i := range 200 {
		many.Points = append(many.Points,
			Point{Label: strings.Repeat("9", i+1), X: near(float64(i)), Y: near(1 / float64(i+1))})
	}
	hostile := levels()
	hostile.Of, hostile.Name = charttest.Hostile, charttest.Hostile
	hostile.X, hostile.Y = Side{Metric: charttest.Hostile, Unit: charttest.Hostile}, hostile.X
	hostile.Points = []Point{{Label: charttest.Hostile, X: near(math.NaN()), Y: near(math.Inf(1))},
		{Label: charttest.Hostile, X: Estimate{v(-math.MaxFloat64), v(math.Inf(-1)), nil}, Y: near(1), Baseline: true},
		{X: near(math.MaxFloat64 / 2), Y: near(1e-300)}}
	for name, f := range map[string]Figure{"levels": levels(), "higher": higher, "same": same, "many": many,
		"hostile": hostile, "none": {Of: "nothing", Name: "x"}} {
		t.Run(name, func(t *testing.T) { charttest.Run(t, f) })
	}
}

// The front holds what nothing beats in both metrics, whichever direction is better, and the
// table names what beats the others.
func TestFront(t *testing.T) {
	words := func(f Figure) string {
		var out []string
		for _, r := range f.Table().Rows {
			out = append(out, r[0]+" "+r[len(r)-1])
		}
		return strings.Join(out, "; ")
	}
	f := levels()
	if got, want := words(f), "1 on the front; 3 beaten by 5; 5 on the front; 9 on the front"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	f.X.Higher = true
	if got, want := words(f), "1 beaten by 9; 3 beaten by 9; 5 beaten by 9; 9 on the front"; got != want {
		t.Errorf("higher is better: %s, want %s", got, want)
	}
	f = levels()
	f.Points[1].X, f.Points[1].Y = Estimate{v(.21), v(.19), v(.23)}, Estimate{v(7e5), v(7e5), v(7e5)}
	f.Points[2].Y, f.Points[3].Y = f.Points[1].Y, Estimate{}
	want := "1 on the front; 3 beaten by 5, intervals overlap; 5 on the front; 9 not shown"
	if got := words(f); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Shapes tell the front from the others, both axes have their unit, and every point its
// label.
func TestDrawn(t *testing.T) {
	for _, width := range []float64{chart.Wide, chart.Narrow} {
		svg := levels().Draw("f", width)
		for want, n := range map[string]int{`class="front"`: 3 + 1, `class="beaten"`: 1 + 1, // and the key
			">↑ cost, kB, lower is better<": 1, ">wall, ms, lower is better →<": 1,
			">1 (baseline)<": 1, ">3</text>": 1, ">5</text>": 1, ">9</text>": 1} {
			if got := strings.Count(svg, want); got != n {
				t.Errorf("%d of %q at width %v, want %d", got, want, width, n)
			}
		}
	}
}
