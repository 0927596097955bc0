package analysis

import (
	"maps"
	"slices"

	"bakeoff/base/sample"
)

// unavailable stands for a fact that is not known.
const unavailable = "unavailable"

// FactCPUTime is the fact of what told, on the host of a contender, for how long
// its CPUs were busy: a confounder of costs in CPU time, and of nothing else.
const FactCPUTime = "host.cpu-time"

// confounders are the facts in which two contenders differ at a metric without
// having been meant to. Where nothing at all is known there is nothing to tell.
func (d *Data) confounders(contender, baseline string, m sample.Metric) []Confounder {
	out := []Confounder{}
	us, them := d.Facts[contender], d.Facts[baseline]
	names := map[string]bool{}
	for n := range us {
		names[n] = true
	}
	for n := range them {
		names[n] = true
	}
	for _, n := range slices.Sorted(maps.Keys(names)) {
		if n == FactCPUTime && !m.CPUTime {
			continue
		}
		a, b := fact(them, n), fact(us, n)
		if a != b && !slices.Contains(d.Meant, n) {
			out = append(out, Confounder{Name: n, Baseline: a, Contender: b})
		}
	}
	return out
}

func fact(facts map[string]string, name string) string {
	if v, ok := facts[name]; ok && v != "" {
		return v
	}
	return unavailable
}
