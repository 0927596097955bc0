package analysis

import (
	"cmp"
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
	for _, n := range Names(us, them) {
		if n == FactCPUTime && !m.CPUTime {
			continue
		}
		a, b := factOrUnavailable(them, n), factOrUnavailable(us, n)
		if a != b && !slices.Contains(d.Meant, n) && !slices.Contains(d.MeantFor[contender], n) {
			out = append(out, Confounder{Name: n, Baseline: a, Contender: b})
		}
	}
	return out
}

func factOrUnavailable(facts map[string]string, name string) string {
	return cmp.Or(facts[name], unavailable)
}

// Names returns the names in either of two maps, in order.
func Names[V any](a, b map[string]V) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}
