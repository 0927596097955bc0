package report

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/facts"
	"bakeoff/judge/analysis"
	"bakeoff/lab/store"
)

// TestCounters: rates are sums over sums of the time of those trials that had
// the counter; what nobody has is no column, and is named.
func TestCounters(t *testing.T) {
	v := func(f float64) *float64 { return &f }
	var c counted
	c.addTrial(&facts.Counters{AtNS: 0, ContextSwitches: v(10), Joules: v(1)},
		&facts.Counters{AtNS: 1e9, ContextSwitches: v(110), Joules: v(41)})
	c.addTrial(&facts.Counters{AtNS: 5e9, ContextSwitches: v(200)}, &facts.Counters{AtNS: 8e9, ContextSwitches: v(500)})
	// None of these may count: without an end, backwards in time, a counter reset.
	c.addTrial(&facts.Counters{AtNS: 9e9}, nil)
	c.addTrial(&facts.Counters{AtNS: 9e9, ContextSwitches: v(1)}, &facts.Counters{AtNS: 8e9, ContextSwitches: v(900)})
	c.addTrial(&facts.Counters{AtNS: 9e9, ContextSwitches: v(700)}, &facts.Counters{AtNS: 10e9, ContextSwitches: v(3)})
	at := func(name string) *float64 {
		return c.rateAt(slices.IndexFunc(rates, func(r rate) bool { return r.name == name }))
	}
	if got := at("context switches"); got == nil || *got != 100 {
		t.Errorf("context switches a second: %v, and (100+300)/4 s is right", got)
	}
	if got := at("power"); got == nil || *got != 40 {
		t.Errorf("power: %v, and 40 W in the one trial that knew it is right", got)
	}
	if got := at("interrupts"); got != nil {
		t.Errorf("interrupts are %v, but were not counted", *got)
	}
	if got := new(counted).rateAt(0); got != nil {
		t.Errorf("without trials: %v", *got)
	}
}

func TestCountersAreColumns(t *testing.T) {
	d, p := example()
	_, page := written(t, d, p, analysis.Analyse(d))
	for _, want := range []string{"Counters of the host, per second", ">context switches</th>", "12.0 k/s",
		">major faults</th>", "<td>0</td>",
		"Unavailable on this machine: interrupts, new processes"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, ">power</th>") {
		t.Error("a column of a counter that no contender has")
	}
}

// What another host counted that load came from has a table of its own, with
// the host's name; where load came from the same host there is none.
func TestCountersOfTheGeneratorsHost(t *testing.T) {
	d, p := example()
	v := func(f float64) *float64 { return &f }
	trial := func(generator string) store.Line {
		l := store.Line{Type: store.LineTrial, Contender: "crun", Status: store.OK, Trial: &store.Trial{Cell: "http-50",
			Before: &facts.Counters{CPU: &facts.CPU{}, Joules: v(1)},
			After:  &facts.Counters{AtNS: 2e9, CPU: &facts.CPU{User: 1, Idle: 1}, Joules: v(21)}}}
		if generator != "" {
			l.GeneratorBefore = &facts.Counters{CPU: &facts.CPU{}, Joules: v(1), ThrottledSeconds: v(0)}
			l.GeneratorAfter = &facts.Counters{AtNS: 2e9, CPU: &facts.CPU{User: 3, Steal: 1}, Joules: v(51),
				ThrottledSeconds: v(.1)}
		}
		return l
	}
	page := func(generator string) string {
		p.Generator = generator
		e := &contents{base: "run", results: analysis.Analyse(d), plan: p, hasPlan: true,
			lines: []store.Line{trial(generator)}}
		e.strips = e.readSpent(nil)
		e.makeHarmless()
		var b bytes.Buffer
		must(t, renderPage(&b, buildPage(e, Option{}).page))
		sound(t, "", b.String())
		return b.String()
	}
	got := page("client")
	for _, want := range []string{"Counters of client, the load generator", "the load generator runs on another host",
		"10.0 W", "25.0 W", ">75.0\u00a0%<", ">25.0\u00a0%<", "50.0 ms/s",
		"Unavailable on client: context switches"} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	got = page("")
	if !strings.Contains(got, "the whole host, including the load generator") ||
		strings.Contains(got, "Load came from") || strings.Contains(got, "25.0 W") {
		t.Error("load from the same host: the page has counters of another")
	}
}
