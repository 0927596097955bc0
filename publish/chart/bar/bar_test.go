package bar

import (
	"math"
	"testing"

	"bakeoff/publish/chart/charttest"
)

func p(v float64) *float64 { return &v }

func TestFigures(t *testing.T) {
	for name, rows := range map[string][]Row{
		"none": nil,
		"some": {{Label: "host", Baseline: true, Value: p(1e-6), Lo: p(0.9e-6), Hi: p(1.1e-6)}, {Label: "vm", Value: p(2e-5)},
			{Label: "energy"}},
		"below zero": {{Label: "a", Value: p(-3), Lo: p(-4), Hi: p(2)}},
		"zero":       {{Label: "a", Value: p(0)}},
		"wild": {{Label: charttest.Hostile, Value: p(math.NaN())},
			{Label: "b", Value: p(math.MaxFloat64), Lo: p(-math.MaxFloat64), Hi: p(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			charttest.Run(t, Figure{Of: "CPU time per request", Unit: "s/op", Better: "lower is better", Rows: rows})
		})
	}
}
