package strip

import (
	"math"
	"strings"
	"testing"

	"bakeoff/publish/chart/charttest"
)

func p(v float64) *float64 { return &v }

func TestFigures(t *testing.T) {
	for name, rows := range map[string][]Row{
		"none": nil,
		"some": {{Label: "host", Busy: p(0.4), Steal: p(0.02), IOWait: p(0.1), Idle: p(0.48), HasPeer: true,
			Generator: p(0.97)},
			{Label: "vm", Busy: p(1), Steal: p(0), IOWait: p(0), Idle: p(0), HasPeer: true}},
		"unavailable": {{Label: charttest.Hostile}},
		"wild":        {{Label: "a", Busy: p(7), Steal: p(-1), IOWait: p(math.NaN()), HasPeer: true, Generator: p(3)}},
	} {
		t.Run(name, func(t *testing.T) { charttest.Run(t, Figure{Of: "http-50", Rows: rows}) })
	}
}

// Unknown values are shown as unknown, and never drawn or written as zero.
func TestUnavailable(t *testing.T) {
	f := Figure{Of: "x", Rows: []Row{{Label: "bsd", HasPeer: true}}}
	if d := f.Desc(); strings.Contains(d, "0 %") || strings.Count(d, "unavailable") != 4 {
		t.Errorf("Desc: %q", d)
	}
	if svg := f.Draw("f", 800); strings.Count(svg, ">unavailable<") != 2 {
		t.Error(svg)
	}
}
