package report

import (
	"slices"
	"strings"
	"testing"

	"bakeoff/analysis"
	"bakeoff/probe"
)

// TestCounters: rates are sums over sums of the time of those trials that had
// the counter; what nobody has is no column, and is named.
func TestCounters(t *testing.T) {
	v := func(f float64) *float64 { return &f }
	var c counted
	c.add(&probe.Counters{AtNS: 0, ContextSwitches: v(10), Joules: v(1)}, &probe.Counters{AtNS: 1e9, ContextSwitches: v(110), Joules: v(41)})
	c.add(&probe.Counters{AtNS: 5e9, ContextSwitches: v(200)}, &probe.Counters{AtNS: 8e9, ContextSwitches: v(500)})
	// None of these may count: without an end, backwards in time, a counter reset.
	c.add(&probe.Counters{AtNS: 9e9}, nil)
	c.add(&probe.Counters{AtNS: 9e9, ContextSwitches: v(1)}, &probe.Counters{AtNS: 8e9, ContextSwitches: v(900)})
	c.add(&probe.Counters{AtNS: 9e9, ContextSwitches: v(700)}, &probe.Counters{AtNS: 10e9, ContextSwitches: v(3)})
	at := func(name string) *float64 {
		return c.at(slices.IndexFunc(rates, func(r rate) bool { return r.name == name }))
	}
	if got := at("context switches"); got == nil || *got != 100 {
		t.Errorf("context switches a second: %v, and (100+300)/4 s is right", got)
	}
	if got := at("power"); got == nil || *got != 40 {
		t.Errorf("power: %v, and 40 W in the one trial that knew it is right", got)
	}
	if got := at("interrupts"); got != nil {
		t.Errorf("interrupts are %v, and nobody counted them", *got)
	}
	if got := new(counted).at(0); got != nil {
		t.Errorf("without trials: %v", *got)
	}
}

func TestCountersAreColumns(t *testing.T) {
	d, p := example()
	_, page := written(t, d, p, analysis.Analyse(d))
	for _, want := range []string{"What the host counted", ">context switches</th>", "12.0 k/s", ">major faults</th>", "<td>0</td>",
		"Unavailable on this machine: interrupts, new processes"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, ">power</th>") {
		t.Error("a column of a counter that nobody has")
	}
}
