package report

import (
	"math"
	"testing"

	"bakeoff/base/facts"
)

// A trial in which no tick fell was not idle, where the host tells it finer;
// the states of what was spent add up to the whole.
func TestSharesBelowATick(t *testing.T) {
	at := func(user, idle float64, ns int64) *facts.Counters {
		c := &facts.Counters{CPU: &facts.CPU{User: user, Idle: idle}}
		if ns > 0 {
			c.TaskNS, c.CPUSource = &ns, facts.SourceSchedstat
		}
		return c
	}
	for what, c := range map[string]struct {
		before, after *facts.Counters
		busy          float64
	}{
		"ticks":            {at(1, 1, 0), at(1.5, 2.5, 0), 0.25},
		"finer":            {at(1, 1, 5e9), at(1, 2, 5.004e9), 0.004},
		"more than passed": {at(1, 1, 5e9), at(1, 2, 9e9), 1},
	} {
		var s spent
		s.addStates(c.before, c.after)
		busy, steal, iowait, idle := s.stateTimeShares()
		if math.Abs(*busy-c.busy) > 1e-12 || math.Abs(*busy+*steal+*iowait+*idle-1) > 1e-12 || *idle < 0 {
			t.Errorf("%s: busy for %g, stolen %g, waiting %g, idle %g; busy for %g is right", what, *busy, *steal, *iowait,
				*idle, c.busy)
		}
	}
}
