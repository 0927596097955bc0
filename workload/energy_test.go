package workload

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"bakeoff/agent"
	"bakeoff/probe"
)

// counted is the blob of a host whose counter of energy went from one reading
// to another within some seconds; nil is a host without one.
func counted(t *testing.T, before, after *float64, seconds float64) Raw {
	t.Helper()
	b, err := json.Marshal(agent.Span{Before: probe.Counters{AtNS: 5, Joules: before},
		After: probe.Counters{AtNS: 5 + int64(seconds*1e9), Joules: after}})
	if err != nil {
		t.Fatal(err)
	}
	return Raw{Host: b}
}

// Energy is charged by time, and is not there where nobody counted it, never 0.
func TestEnergy(t *testing.T) {
	j := func(v float64) *float64 { return &v }
	for name, c := range map[string]struct {
		raw   Raw
		work  float64
		timed time.Duration
		want  float64 // 0: there is no value
	}{
		"the whole trial":          {counted(t, j(100), j(160), 4), 30, 0, 2},
		"half of its time":         {counted(t, j(100), j(160), 4), 30, 2 * time.Second, 1},
		"a guest's fast clock":     {counted(t, j(100), j(160), 4), 30, 8 * time.Second, 2},
		"no counter":               {counted(t, nil, nil, 4), 30, 0, 0},
		"one that came later":      {counted(t, nil, j(5), 4), 30, 0, 0},
		"less than its grain":      {counted(t, j(7), j(7), 4), 30, 0, 0},
		"one that was set back":    {counted(t, j(160), j(100), 4), 30, 0, 0},
		"no work":                  {counted(t, j(100), j(160), 4), 0, 0, 0},
		"a trial without counters": {Raw{}, 30, 0, 0},
	} {
		got, err := Energy(c.raw, JoulesPerRequest, c.work, c.timed)
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want == 0 && len(got) != 0:
			t.Errorf("%s: %v, and there is nothing to tell", name, got)
		case c.want != 0 && (len(got) != 1 || got[0].Metric != "joules-per-request" || got[0].Unit != "J/request" || math.Abs(got[0].Value-c.want) > 1e-9):
			t.Errorf("%s: %v, want %g J", name, got, c.want)
		}
	}
	if _, err := Energy(Raw{Host: []byte("{")}, JoulesPerOp, 1, 0); err == nil {
		t.Error("a damaged blob is taken for an answer")
	}
}
