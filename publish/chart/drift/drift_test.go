package drift

import (
	"math"
	"strings"
	"testing"

	"bakeoff/publish/chart"
	"bakeoff/publish/chart/charttest"
)

func p(v float64) *float64 { return &v }

func TestFigures(t *testing.T) {
	many := Row{Label: "many", Median: p(100)}
	for i := range 3000 {
		many.Values = append(many.Values, Value{Block: i / 10, Position: i % 10, Value: 100 + float64(i%7)})
	}
	for name, rows := range map[string][]Row{
		"none":    nil,
		"many":    {many, {Label: "missing"}},
		"hostile": {{Label: charttest.Hostile, Median: p(0), Values: []Value{{Value: 1}}}},
		"wild": {{Label: "a", Median: p(1), Values: []Value{{math.MinInt, math.MaxInt, 1},
			{math.MaxInt, math.MinInt, math.NaN()},
			{0, 0, math.MaxFloat64}}}},
	} {
		t.Run(name, func(t *testing.T) { charttest.Run(t, Figure{Of: "sha256", Rows: rows}) })
	}
	table := Figure{Rows: []Row{many}}.Table()
	if len(table.Rows) != tableRows || !strings.Contains(table.Note, "of 300 blocks") {
		t.Errorf("%d rows, note %q: a table that is cut must say so", len(table.Rows), table.Note)
	}
}

// One value has no spread: ±0 % would be read as a very steady contender.
func TestOneValueHasNoSpread(t *testing.T) {
	f := Figure{Of: "sha256", Rows: []Row{{Label: "a", Median: p(3), Values: []Value{{0, 0, 3}}}}}
	if svg := f.Draw("f", chart.Wide); strings.Contains(svg, "±0") || !strings.Contains(svg, ">one value<") ||
		!strings.Contains(svg, "one block, in order") {
		t.Error(svg)
	}
}
