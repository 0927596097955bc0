package report

import (
	"fmt"
	"strings"

	"bakeoff/base/facts"
	"bakeoff/base/unit"
)

// A rate is one counter as a column of the page: what the host counted during
// the trials of a contender at a cell, for each second of them.
type rate struct {
	name, key, unit string // key is the name in the journal
	of              func(facts.Counters) *float64
}

// rates are the columns after the states of the CPUs.
var rates = []rate{
	{"context switches", "context_switches", "1/s", func(c facts.Counters) *float64 { return c.ContextSwitches }},
	{"interrupts", "interrupts", "1/s", func(c facts.Counters) *float64 { return c.Interrupts }},
	{"new processes", "forks", "1/s", func(c facts.Counters) *float64 { return c.Forks }},
	{"minor faults", "minor_faults", "1/s", func(c facts.Counters) *float64 { return c.MinorFaults }},
	{"major faults", "major_faults", "1/s", func(c facts.Counters) *float64 { return c.MajorFaults }},
	{"disk reads", "read_ops", "1/s", func(c facts.Counters) *float64 { return c.ReadOps }},
	{"disk writes", "write_ops", "1/s", func(c facts.Counters) *float64 { return c.WriteOps }},
	{"read", "read_bytes", "B/s", func(c facts.Counters) *float64 { return c.ReadBytes }},
	{"written", "write_bytes", "B/s", func(c facts.Counters) *float64 { return c.WriteBytes }},
	{"throttled by quota", "throttled_seconds", "s/s", func(c facts.Counters) *float64 { return c.ThrottledSeconds }},
	{"thermal throttling", "thermal_throttles", "1/s", func(c facts.Counters) *float64 { return c.ThermalThrottles }},
	{"power", "joules", "W", func(c facts.Counters) *float64 { return c.Joules }},
}

// counted sums the counters of some trials. A counter that a trial lacks is
// left out of its sum, and so is that trial's time.
type counted struct {
	sum, seconds []float64 // by rate
}

// addTrial adds one trial.
func (c *counted) addTrial(before, after *facts.Counters) {
	if before == nil || after == nil || after.AtNS <= before.AtNS {
		return
	}
	if c.sum == nil {
		c.sum, c.seconds = make([]float64, len(rates)), make([]float64, len(rates))
	}
	d := after.Since(*before)
	for i, r := range rates {
		// Since omits counters that ran backwards; a foreign journal may hold
		// any other number.
		if v := r.of(d); v != nil && *v >= 0 && *v < 1e18 {
			c.sum[i] += *v
			c.seconds[i] += float64(d.AtNS) / 1e9
		}
	}
}

// rateAt returns rate i; nil where no trial had it.
func (c *counted) rateAt(i int) *float64 {
	if c.seconds == nil || !(c.seconds[i] > 0) {
		return nil
	}
	return new(c.sum[i] / c.seconds[i])
}

// counters makes the tables of the hosts' counters: that of the environments, and
// that of the load generator if it is another host.
func (b *builder) counters() {
	b.page.Counters = b.countersOf("Counters of the host during the trials", "on this machine",
		func(s *spent) *spent { return s })
	from := "the load generator's host"
	if b.plan.Generator != "" {
		from = b.plan.Generator
	}
	b.page.GeneratorHost = from
	b.page.GeneratorCounters = b.countersOf("Counters of "+from+", the load generator, during the trials", "on "+from,
		func(s *spent) *spent { return s.elsewhere })
}

// countersOf makes the table of one host: the states of its CPUs and the rates, with
// a row for each contender at each cell. A note names the counters that the host
// does not have.
func (b *builder) countersOf(caption, where string, end func(*spent) *spent) table {
	t := table{Caption: caption,
		Head: []string{"cell", "contender", "user", "system", "interrupt", "stolen", "waiting for I/O", "idle"}}
	type row struct {
		cell, contender string
		spent           *spent
	}
	var rows []row
	known := make([]bool, len(rates))
	for _, k := range b.results.Cells {
		for _, name := range b.rankedNames() {
			s := b.contents.strips[cellOf{name, k.Name}]
			if s == nil || end(s) == nil {
				continue
			}
			rows = append(rows, row{k.Name, name, end(s)})
			for i := range rates {
				known[i] = known[i] || end(s).counted.rateAt(i) != nil
			}
		}
	}
	var lacking []string
	for i, r := range rates {
		if known[i] {
			t.Head = append(t.Head, r.name)
		} else {
			lacking = append(lacking, r.name)
		}
	}
	for _, r := range rows {
		line := append([]string{r.cell, r.contender}, r.spent.stateShares()...)
		for i, rate := range rates {
			if known[i] {
				line = append(line, perSecond(r.spent.counted.rateAt(i), rate.unit))
			}
		}
		t.Rows = append(t.Rows, line)
	}
	if len(lacking) > 0 && len(rows) > 0 {
		t.Note = "Unavailable " + where + ": " + strings.Join(lacking, ", ") + "."
	}
	return t
}

// perSecond formats a rate.
func perSecond(v *float64, u string) string {
	switch {
	case v == nil:
		return "–"
	case *v == 0:
		return "0"
	case u == "1/s":
		return unit.Format(*v, "/s")
	case u == "s/s":
		return unit.Format(*v, "s") + "/s"
	}
	return unit.Format(*v, u)
}

// stateShares returns the shares of the CPUs' time by state, as text.
func (s *spent) stateShares() []string {
	all := s.cpu.Busy() + s.cpu.Steal + s.cpu.IOWait + s.cpu.Idle
	var out []string
	for _, v := range []float64{s.cpu.User, s.cpu.System, s.cpu.Interrupt, s.cpu.Steal, s.cpu.IOWait, s.cpu.Idle} {
		if s.trials == 0 || !(all > 0) {
			out = append(out, "–")
			continue
		}
		out = append(out, fmt.Sprintf("%.1f %%", 100*v/all))
	}
	return out
}
