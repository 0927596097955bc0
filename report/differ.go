package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"bakeoff/probe"
	"bakeoff/store"
	"bakeoff/unit"
)

// matrix is a table of facts: a row a fact, the baseline's value, then a
// column a contender; "" where a contender has the baseline's value.
type matrix struct {
	Head []string
	Rows []matrixRow
	Same int // facts that are the same everywhere
	Note string
}

type matrixRow struct {
	Fact     string
	Baseline string
	Values   []string
}

// unavailable is what stands where a fact is not known.
const unavailable = "unavailable"

// facts returns the fingerprint of a contender with what its driver knows.
func (b *builder) facts(name string) map[string]string {
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
	// Results of runs whose fingerprints are not here still name what
	// differed.
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
			out[k] = unavailable + ": " + clip(reason, 80)
		}
	}
	return out
}

// differs lists only the facts that differ from the baseline's.
func (b *builder) differs() {
	m := &b.page.Differs
	base := b.facts(b.results.Baseline)
	all := map[string]bool{}
	for k := range base {
		all[k] = true
	}
	m.Head = []string{"fact", b.results.Baseline}
	var sides []map[string]string
	for _, name := range b.names() {
		if name == b.results.Baseline || b.isTwin(name) {
			continue
		}
		f := b.facts(name)
		for k := range f {
			all[k] = true
		}
		m.Head, sides = append(m.Head, name), append(sides, f)
	}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		row := matrixRow{Fact: k, Baseline: known(base[k])}
		different := false
		for _, f := range sides {
			v := known(f[k])
			if v == row.Baseline {
				v = ""
			}
			different = different || v != ""
			row.Values = append(row.Values, v)
		}
		if !different {
			m.Same++
			continue
		}
		m.Rows = append(m.Rows, row)
	}
	m.Rows = cut(b.evidence, "facts that differ", m.Rows, maxList)
	b.page.HasDifferences = len(m.Rows) > 0
}

// rations are the columns of limits that few runs have: of CPU time and of I/O.
type rations struct {
	head []string
	of   []func(*probe.Limits) string
}

// rationsOf are those that an environment of the run is held to.
func rationsOf(all map[string]*probe.Limits) rations {
	var s rations
	rate := func(b *unit.Bytes) string {
		if b == nil {
			return ""
		}
		return unit.Format(float64(*b), "B/s")
	}
	for _, c := range []struct {
		head string
		of   func(*probe.Limits) string
	}{
		{"CPU time", func(l *probe.Limits) string {
			if l.Quota == nil {
				return ""
			}
			return fmt.Sprintf("%g CPUs", *l.Quota)
		}},
		{"reads", func(l *probe.Limits) string { return rate(l.Read) }},
		{"writes", func(l *probe.Limits) string { return rate(l.Write) }},
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

// row are the columns of one environment; nil is one of which nothing is known.
func (s rations) row(l *probe.Limits) []string {
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

func known(v string) string {
	if v == "" {
		return unavailable
	}
	return clip(v, 400)
}

// limits is what was enforced on each environment, as the journal has it,
// and how long it took to create one.
func (b *builder) limits() {
	t := table{Caption: "Limits in force", Head: []string{"contender", "CPUs", "on the host's CPUs", "memory", "environments created", "time to create one (median)"}}
	last, took, made := map[string]*probe.Limits{}, map[string][]time.Duration{}, map[string]int{}
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
	for _, name := range b.names() {
		if made[name] == 0 {
			continue
		}
		row := []string{name, unavailable, unavailable, unavailable, fmt.Sprint(made[name]), unavailable}
		if l := last[name]; l != nil {
			if l.CPUs != nil {
				row[1] = fmt.Sprint(*l.CPUs)
			}
			if len(l.CPUSet) > 0 {
				row[2] = list(l.CPUSet)
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
			row[5] = d[len(d)/2].Round(100 * time.Microsecond).String()
		}
		t.Rows = append(t.Rows, row)
	}
	more := rationsOf(last)
	t.Head = append(t.Head, more.head...)
	for i, row := range t.Rows {
		t.Rows[i] = append(row, more.row(last[row[0]])...)
	}
	b.page.Limits = t
	b.page.HasLimits = len(t.Rows) > 0
}
