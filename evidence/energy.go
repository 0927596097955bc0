package evidence

import (
	"cmp"

	"bakeoff/store"
)

// noEnergy says for each contender why a metric of energy has no value, as far
// as the counters in the journal tell.
func (s *story) noEnergy() map[string]string {
	tried, counted := map[string]bool{}, map[string]bool{}
	for _, l := range s.lines {
		if l.Type != store.LineTrial || l.Trial == nil || l.Before == nil || l.After == nil {
			continue
		}
		tried[l.Contender] = true
		if l.Before.Joules != nil && l.After.Joules != nil {
			counted[l.Contender] = true
		}
	}
	out := map[string]string{}
	for _, c := range s.plan.Contenders {
		host := cmp.Or(c.Host, "local")
		switch {
		case !tried[c.Name]:
		case counted[c.Name]:
			out[c.Name] = "a trial took less energy than the grain of the counter on " + host + ", or it was set back in it"
		case len(s.plan.Hosts[host].Meter) > 0:
			out[c.Name] = "the meter of " + host + " gave no reading"
		default:
			out[c.Name] = host + " has no counter of energy: no RAPL that can be read, and no meter in the lab file"
		}
	}
	return out
}
