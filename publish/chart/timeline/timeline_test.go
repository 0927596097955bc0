package timeline

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
		"some": {{Label: "hypervisor start", Error: p(0), How: "the process was started"}, {Label: "kernel entry", At: .2,
			Error: p(.01)}, {Label: "userland", At: 1.4}},
		"hostile": {{Label: charttest.Hostile, At: 1, Error: p(.1), How: charttest.Hostile}},
		"wild":    {{Label: "a", At: math.NaN(), Error: p(math.Inf(1))}, {Label: "b", At: math.Inf(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			charttest.Run(t, Figure{Of: "a boot", Rows: rows, Unit: "s", Write: Seconds, Moment: Moment})
		})
	}
}

// An unknown uncertainty is said, and is not none.
func TestUnknownUncertainty(t *testing.T) {
	f := Figure{Rows: []Row{{Label: "a", Error: p(0)}, {Label: "b", At: 1}}, Write: Seconds, Moment: Moment}
	rows := f.Table().Rows
	if rows[0][2] != "none: reference clock" || rows[1][2] != "unavailable" || rows[1][3] != "+1.00 s" {
		t.Errorf("%q", rows)
	}
	if d := f.Desc(); !strings.Contains(d, "± unknown") {
		t.Error(d)
	}
}
