package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/lab/store"
	"bakeoff/publish/difference"
)

// fact is one in which environments differ, with its values.
type fact struct {
	Name   string
	Values []holding // the baseline's first
}

// holding is a value with the contenders that have it.
type holding struct {
	Value string
	Who   []string
}

// unavailable is what stands where a fact is not known.
const unavailable = difference.Unavailable

// factsOf returns the fingerprint of a contender with the facts of its driver.
func (b *builder) factsOf(name string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, b.prints[name].Facts)
	for _, c := range b.results.Contenders {
		if c.Name != name {
			continue
		}
		if c.Driver != "" {
			out["driver"] = c.Driver
		}
		if c.Host != "" {
			out["host"] = c.Host
		}
		for k, v := range c.Facts {
			if !strings.HasPrefix(k, "driver.") {
				k = "driver." + k
			}
			out[k] = v
		}
	}
	// Without fingerprints, the results still name the confounders.
	for _, c := range b.results.Comparisons {
		for _, f := range c.Confounders {
			switch {
			case c.Contender == name && out[f.Name] == "":
				out[f.Name] = f.Contender
			case c.Baseline == name && out[f.Name] == "":
				out[f.Name] = f.Baseline
			}
		}
	}
	for k, reason := range b.prints[name].Unavailable {
		if out[k] == "" && reason != "" {
			out[k] = unavailable + ": " + safetext.Clip(reason, 80)
		}
	}
	return out
}

// differs lists only the facts that differ between contenders, each value with its
// contenders: with a column for each, a dozen contenders would fit on no screen.
func (b *builder) differs() {
	sides, all := map[string]map[string]string{}, map[string]bool{}
	var names []string
	for _, name := range b.rankedNames() {
		if b.isTwin(name) {
			continue
		}
		names, sides[name] = append(names, name), b.factsOf(name)
		for k := range sides[name] {
			all[k] = true
		}
	}
	p := &b.page
	if len(b.prints) > 0 {
		p.NoFacts = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return len(b.prints[n].Facts) > 0 })
	}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		f := fact{Name: k}
		for _, name := range names {
			if v := sides[name][k]; v != "" || !slices.Contains(p.NoFacts, name) {
				f.addHolder(knownText(v), name)
			}
		}
		if len(f.Values) == 1 {
			p.Alike++
			continue
		}
		f.omitCommonSets()
		f.shorten(len(names))
		p.Differs = append(p.Differs, f)
	}
	p.Differs = cutList(b.contents, "facts that differ", p.Differs, maxList)
}

// omitCommonSets omits from lists of instruction sets what is in all of them: of two
// dozen sets, a reader needs the few that differ.
func (f *fact) omitCommonSets() {
	if !strings.HasPrefix(f.Name, "isa.go") {
		return
	}
	in := map[string]int{}
	lists := 0
	for _, h := range f.Values {
		if !strings.HasPrefix(h.Value, unavailable) {
			lists++
			for _, set := range strings.Fields(h.Value) {
				in[set]++
			}
		}
	}
	for i, h := range f.Values {
		if lists < 2 || strings.HasPrefix(h.Value, unavailable) {
			continue
		}
		own := slices.DeleteFunc(strings.Fields(h.Value), func(set string) bool { return in[set] == lists })
		switch shared := len(strings.Fields(h.Value)) - len(own); {
		case len(own) == 0:
			f.Values[i].Value = fmt.Sprintf("only the %d sets that all use", shared)
		case shared > 0:
			f.Values[i].Value = fmt.Sprintf("%s, and %d sets that all use", strings.Join(own, " "), shared)
		}
	}
}

// shorten omits that other technologies lack a fact of one technology, and the names
// of a majority.
func (f *fact) shorten(contenders int) {
	if strings.HasPrefix(f.Name, "driver.") {
		f.Values = slices.DeleteFunc(f.Values, func(h holding) bool { return h.Value == unavailable })
	}
	for i, h := range f.Values {
		if len(f.Values) > 1 && len(h.Who) > 3 && 2*len(h.Who) > contenders {
			f.Values[i].Who = []string{"all others"}
		}
	}
}

// addHolder notes that a contender has a value.
func (f *fact) addHolder(value, name string) {
	i := slices.IndexFunc(f.Values, func(h holding) bool { return h.Value == value })
	if i < 0 {
		i = len(f.Values)
		f.Values = append(f.Values, holding{Value: value})
	}
	f.Values[i].Who = append(f.Values[i].Who, name)
}

// rations are the columns of limits that few runs have, of CPU time and I/O.
type rations struct {
	head []string
	of   []func(*facts.Limits) string
}

// rationsOf returns the columns that any environment of the run needs.
func rationsOf(all map[string]*facts.Limits) rations {
	var s rations
	rate := func(b *unit.Bytes) string {
		if b == nil {
			return ""
		}
		return unit.Format(float64(*b), "B/s")
	}
	for _, c := range []struct {
		head string
		of   func(*facts.Limits) string
	}{
		{"CPU time", func(l *facts.Limits) string {
			if l.Quota == nil {
				return ""
			}
			return fmt.Sprintf("%g CPUs", *l.Quota)
		}},
		{"reads", func(l *facts.Limits) string { return rate(l.Read) }},
		{"writes", func(l *facts.Limits) string { return rate(l.Write) }},
	} {
		for _, l := range all {
			if c.of(l) != "" {
				s.head, s.of = append(s.head, c.head), append(s.of, c.of)
				break
			}
		}
	}
	return s
}

// rowOf returns the columns of one environment; nil means that nothing is known.
func (s rations) rowOf(l *facts.Limits) []string {
	var out []string
	for _, of := range s.of {
		text := "no limit"
		if l == nil {
			text = unavailable
		} else if t := of(l); t != "" {
			text = t
		}
		out = append(out, text)
	}
	return out
}

func knownText(v string) string {
	if v == "" {
		return unavailable
	}
	return safetext.Clip(v, 400)
}

// listLimits lists the limits that were enforced on each environment, according to the
// journal, and how long its creation took.
func (b *builder) listLimits() {
	t := table{Caption: "Limits in force",
		Head: []string{"contender", "CPUs", "host CPUs", "memory", "environments created", "median creation time"}}
	last, took, made := map[string]*facts.Limits{}, map[string][]time.Duration{}, map[string]int{}
	for _, l := range b.lines {
		if l.Type != store.LineEnvironment {
			continue
		}
		made[l.Contender]++
		if l.Limits != nil {
			last[l.Contender] = l.Limits
		}
		if l.CreateNS > 0 {
			took[l.Contender] = append(took[l.Contender], time.Duration(l.CreateNS))
		}
	}
	for _, name := range b.rankedNames() {
		if made[name] == 0 {
			continue
		}
		row := []string{name, unavailable, unavailable, unavailable, fmt.Sprint(made[name]), unavailable}
		if l := last[name]; l != nil {
			if l.CPUs != nil {
				row[1] = fmt.Sprint(*l.CPUs)
			}
			if len(l.CPUSet) > 0 {
				row[2] = listValues(l.CPUSet)
			}
			if l.Memory != nil {
				row[3] = l.Memory.String()
			}
			for _, what := range slices.Sorted(maps.Keys(l.NotEnforced)) {
				b.page.NotEnforced = append(b.page.NotEnforced, name+": "+what+": "+l.NotEnforced[what])
			}
		}
		if d := took[name]; len(d) > 0 {
			slices.Sort(d)
			row[5] = unit.Format(d[len(d)/2].Seconds(), "s")
		}
		t.Rows = append(t.Rows, row)
	}
	more := rationsOf(last)
	t.Head = append(t.Head, more.head...)
	for i, row := range t.Rows {
		t.Rows[i] = append(row, more.rowOf(last[row[0]])...)
	}
	b.page.Limits = t
	b.page.HasLimits = len(t.Rows) > 0
}
