package history

import (
	"cmp"
	"maps"
	"slices"
)

// unavailable stands for what is not known.
const unavailable = "unavailable"

// maxCoincidences bounds the facts that a step lists.
const maxCoincidences = 50

// labelPrefix is in front of the labels of a run, as facts.
const labelPrefix = "label."

// place is a fact of a contender.
type place struct{ contender, fact string }

// coincidences lists what changed at a step or within its range. A fact that changed
// once in all runs is more telling than one that changes in every run. Of those that change often, only what
// changed at the step itself is listed.
func (m *maker) coincidences(c cut) []Coincidence {
	var facts []map[place]string // of each run that counts
	for _, e := range m.out.Estimates {
		facts = append(facts, m.factsOfRun(m.runs[e.Run]))
	}
	names := map[place]bool{}
	for i := c.lo - 1; i <= c.hi; i++ {
		for k := range facts[i] {
			names[k] = true
		}
	}
	type change struct {
		fact, old, new string
		run            int
	}
	at := map[change]int{}
	out := []Coincidence{}
	for _, name := range slices.SortedFunc(maps.Keys(names), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.contender, b.contender), cmp.Compare(a.fact, b.fact))
	}) {
		times := 0
		for i := 1; i < len(facts); i++ {
			if facts[i][name] != facts[i-1][name] {
				times++
			}
		}
		for i := c.lo; i <= c.hi; i++ {
			old, now := facts[i-1][name], facts[i][name]
			if old == now || i != c.at && times > 1 {
				continue
			}
			key := change{name.fact, old, now, i}
			k, ok := at[key]
			if !ok {
				k = len(out)
				at[key] = k
				out = append(out, Coincidence{Fact: name.fact, Where: []string{}, Old: cmp.Or(old, unavailable),
					New: cmp.Or(now, unavailable), Run: m.out.Estimates[i].Run, Exact: i == c.at})
			}
			if name.contender != "" {
				out[k].Where = append(out[k].Where, name.contender)
			}
			out[k].Times = max(out[k].Times, times)
		}
	}
	slices.SortStableFunc(out, func(a, b Coincidence) int {
		return cmp.Or(rankCoincidence(a)-rankCoincidence(b), a.Times-b.Times, cmp.Compare(a.Fact, b.Fact), a.Run-b.Run)
	})
	return out[:min(len(out), maxCoincidences)]
}

func isLabel(fact string) bool {
	return len(fact) > len(labelPrefix) && fact[:len(labelPrefix)] == labelPrefix
}

// rankCoincidence orders what coincides: labels at the step, facts at the step, then the rest.
func rankCoincidence(c Coincidence) int {
	switch {
	case c.Exact && isLabel(c.Fact):
		return 0
	case c.Exact:
		return 1
	case isLabel(c.Fact):
		return 2
	}
	return 3
}

// factsOfRun are those of a run that concern the series: of the run itself, the contender and
// the baseline.
func (m *maker) factsOfRun(r Run) map[place]string {
	out := map[place]string{}
	for name, value := range r.Labels {
		if name == FleetLabel {
			continue // another one each time
		}
		out[place{"", labelPrefix + name}] = value
	}
	for _, who := range []string{"", m.contender, r.Results.Baseline} {
		for fact, value := range r.Facts[who] {
			out[place{who, fact}] = value
		}
	}
	return out
}
