package quantile

import (
	"math"
	"slices"
	"strings"
	"testing"

	"bakeoff/publish/chart/charttest"
)

// of is a line of n operations whose latency grows with the decades of their quantile.
func of(label string, n int64, scale float64) Line {
	l := Line{Label: label, Trials: 24, Count: n}
	for _, p := range Percents(n) {
		l.Points = append(l.Points, Point{p, scale * math.Exp(decades(p))})
	}
	return l
}

func TestFigures(t *testing.T) {
	two := Figure{Of: "http-50", Lines: []Line{of("host", 1e6, 1e-3), of("crun", 2e5, 1.1e-3)}, Floor: 2e-3}
	two.Lines[0].Baseline = true
	many := Figure{Of: "http-50"}
	for range 30 {
		many.Lines = append(many.Lines, of("same name", 1e5, 1e-3))
	}
	hostile := Figure{Of: charttest.Hostile, Floor: math.Inf(1), Lines: []Line{
		{Label: charttest.Hostile, Points: []Point{{math.NaN(), 1}, {50, math.NaN()}, {200, math.Inf(1)}, {-5, -1}}},
		{Label: "far", Points: []Point{{0, math.SmallestNonzeroFloat64}, {100, math.MaxFloat64}}}}}
	for name, f := range map[string]Figure{"one": {Of: "x", Lines: two.Lines[:1]}, "two": two, "many": many,
		"hostile": hostile, "none": {Of: "nothing"}, "flat": {Of: "x", Lines: []Line{{Label: "a",
			Points: []Point{{50, 1}, {90, 1}}}}}} {
		t.Run(name, func(t *testing.T) { charttest.Run(t, f) })
	}
}

// A quantile needs ten slower operations, and the marks are exactly on the line.
func TestPercents(t *testing.T) {
	for n, want := range map[int64]float64{19: 45, 20: 50, 1000: 99, 99_999: 99.9, 100_000: 99.99, 1e9: 99.99} {
		got := Percents(n)
		last := got[len(got)-1]
		if !slices.IsSorted(got) || last > 100*(1-Slower/float64(n))+1e-9 && n < 1e5 || last < want-3 ||
			want != 45 && !slices.Contains(got, want) {
			t.Errorf("%d operations: up to %v, want %v", n, last, want)
		}
	}
	if got := Percents(9); got != nil {
		t.Errorf("of 9 operations: %v", got)
	}
}

// The table says what is known at each mark, and why the rest is not.
func TestTable(t *testing.T) {
	table := Figure{Of: "x", Lines: []Line{of("host", 2000, 1e-3)}, Floor: 1e-5}.Table()
	if got, want := strings.Join(table.Rows[0], "|"),
		"host|24|2000|1.35 ms|2.72 ms|7.39 ms|unavailable|unavailable"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, want := range []string{"fewer than 10 operations were slower", "more than 10.0 µs late"} {
		if !strings.Contains(table.Note, want) {
			t.Errorf("the note %q lacks %q", table.Note, want)
		}
	}
}
