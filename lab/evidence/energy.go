package evidence

import (
	"cmp"

	"bakeoff/base/facts"
	"bakeoff/lab/store"
)

// meteredEnd is one end of the trials: how its counters stand in a line of the
// journal, and on which host a contender has it.
type meteredEnd struct {
	counters func(store.Line) (before, after *facts.Counters)
	host     func(contenderHost string) string
}

// noEnergy says for each contender why a metric of its host's energy has no
// value, as far as the counters in the journal tell.
func (s *story) noEnergy() map[string]string {
	return s.uncounted(meteredEnd{
		counters: func(l store.Line) (_, _ *facts.Counters) { return l.Before, l.After },
		host:     func(h string) string { return cmp.Or(h, "local") },
	})
}

// noGeneratorEnergy says the same of the host that load comes from; nothing of
// a contender whose load comes from its own.
func (s *story) noGeneratorEnergy() map[string]string {
	return s.uncounted(meteredEnd{
		counters: func(l store.Line) (_, _ *facts.Counters) { return l.GeneratorBefore, l.GeneratorAfter },
		host:     func(string) string { return s.plan.Generator },
	})
}

// uncounted says for each contender of which this end was read why its energy
// may have no value.
func (s *story) uncounted(end meteredEnd) map[string]string {
	tried, counted := map[string]bool{}, map[string]bool{}
	for _, l := range s.lines {
		if l.Type != store.LineTrial || l.Trial == nil {
			continue
		}
		before, after := end.counters(l)
		if before == nil || after == nil {
			continue
		}
		tried[l.Contender] = true
		if before.Joules != nil && after.Joules != nil {
			counted[l.Contender] = true
		}
	}
	out := map[string]string{}
	for _, c := range s.plan.Contenders {
		host := end.host(c.Host)
		switch {
		case !tried[c.Name]:
		case counted[c.Name]:
			out[c.Name] = "a trial used less energy than the counter on " + host +
				" can resolve, or the counter was reset during the trial"
		case len(s.plan.Hosts[host].Meter) > 0:
			out[c.Name] = "the meter of " + host + " gave no reading"
		default:
			out[c.Name] = host + " has no energy counter: RAPL cannot be read, and the lab file names no meter"
		}
	}
	return out
}
