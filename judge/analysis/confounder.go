package analysis

import (
	"maps"
	"slices"

	"bakeoff/base/sample"
)

// unavailable stands for a fact that is not known.
const unavailable = "unavailable"

// FactCPUTime is the fact that names the source of CPU times on the host of a
// contender. It is a confounder of costs in CPU time only.
const FactCPUTime = "host.cpu-time"

// confounders returns the facts in which two contenders differ at a metric without
// intention.
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
