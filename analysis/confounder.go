package analysis

import (
	"maps"
	"slices"
)

// unavailable stands for a fact that is not known.
const unavailable = "unavailable"

// confounders are the facts in which two contenders differ without having
// been meant to. Where nothing at all is known there is nothing to tell.
func (d *Data) confounders(contender, baseline string) []Confounder {
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
