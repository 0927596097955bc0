package facts

import (
	"encoding/json"
	"maps"
	"math"
	"strings"
	"testing"
)

// is compares a pointer with a value.
func is(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	if got == nil {
		t.Errorf("%s is unavailable, want %g", what, want)
	} else if math.Abs(*got-want) > 1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s is %g, want %g", what, *got, want)
	}
}

func TestSince(t *testing.T) {
	n := func(v float64) *float64 { return &v }
	before := Counters{AtNS: 5, CPU: &CPU{User: 1, Idle: 10}, ContextSwitches: n(7), Joules: n(100), Forks: n(1),
		Pressure: &Pressure{CPU: 1}, Scope: &Scope{CPUSeconds: n(2), MemoryPeak: n(50)}}
	after := Counters{AtNS: 9, CPU: &CPU{User: 3, Idle: 9.99}, ContextSwitches: n(9), Joules: n(3), FrequencyHz: n(2e9),
		Interrupts: n(1),
		Pressure:   &Pressure{CPU: 1.5}, Scope: &Scope{CPUSeconds: n(5), MemoryPeak: n(60)}}
	d := after.Since(before)
	if d.AtNS != 4 || d.CPU.Busy() != 2 || d.CPU.Idle != 0 || d.Pressure.CPU != 0.5 {
		t.Errorf("difference is %+v", d)
	}
	is(t, "context switches", d.ContextSwitches, 2)
	is(t, "frequency", d.FrequencyHz, 2e9)
	is(t, "CPU of the scope", d.Scope.CPUSeconds, 3)
	is(t, "peak of the scope", d.Scope.MemoryPeak, 60)
	for what, v := range map[string]*float64{"a wrapped counter": d.Joules, "known before only": d.Forks,
		"known after only": d.Interrupts} {
		if v != nil {
			t.Errorf("%s became %g", what, *v)
		}
	}
	if *after.Scope.CPUSeconds != 5 {
		t.Error("Since changed its argument")
	}
}

// Two sources, or a count that went back, leave the ticks; so do folders of
// before there were others.
func TestBusy(t *testing.T) {
	ns := func(n int64) *int64 { return &n }
	at := func(user float64, tasks *int64, source string) Counters {
		return Counters{CPU: &CPU{User: user}, TaskNS: tasks, CPUSource: source}
	}
	for what, c := range map[string]struct {
		before, after Counters
		seconds       float64
		source        string
	}{
		"nanoseconds": {at(1, ns(5e6), SourceSchedstat), at(1.02, ns(17e6), SourceSchedstat), 0.012,
			SourceSchedstat},
		"no tick":               {at(1, ns(5e6), SourceCPUAcct), at(1, ns(6e6), SourceCPUAcct), 0.001, SourceCPUAcct},
		"two sources":           {at(1, ns(5e6), SourceSchedstat), at(1.02, ns(17e6), SourceCPUAcct), 0.02, SourceTicks},
		"ticks at the end":      {at(1, ns(5e6), SourceSchedstat), at(1.02, nil, SourceTicks), 0.02, SourceTicks},
		"a count that was set":  {at(1, ns(17e6), SourceCPUAcct), at(1.02, ns(5e6), SourceCPUAcct), 0.02, SourceTicks},
		"no task, and a tick":   {at(1, ns(5e6), SourceCPUAcct), at(1.01, ns(5e6), SourceCPUAcct), 0.01, SourceTicks},
		"ticks":                 {at(1, nil, SourceTicks), at(1.02, nil, SourceTicks), 0.02, SourceTicks},
		"an older run's folder": {at(1, nil, ""), at(1.02, nil, ""), 0.02, SourceTicks},
	} {
		seconds, source, ok := c.after.Since(c.before).Busy()
		if !ok || math.Abs(seconds-c.seconds) > 1e-12 || source != c.source {
			t.Errorf("%s: %g s by %q (%v), and %g s by %q is right", what, seconds, source, ok, c.seconds, c.source)
		}
	}
	if s, source, ok := (Counters{}).Busy(); ok || s != 0 || source != "" {
		t.Errorf("nothing became %g s by %q", s, source)
	}
}

// Every counter that is nil has a reason, in JSON under its own name.
func TestNilCountersHaveReasons(t *testing.T) {
	one := 1.0
	c := Counters{Interrupts: &one, CPU: &CPU{}}
	c.ExplainMissing(map[string]string{"forks": "sysctl x has no value"}, "not read on netbsd")
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	nils := 0
	for name, value := range fields {
		is := string(value) == "null"
		if is {
			nils++
		}
		if is != (c.Unavailable[name] != "") {
			t.Errorf("%s is %s, and unavailable because %q", name, value, c.Unavailable[name])
		}
	}
	if nils < 15 || c.Unavailable["forks"] != "sysctl x has no value" || c.Unavailable["joules"] != "not read on netbsd" {
		t.Errorf("%d nils, %v", nils, c.Unavailable)
	}
}

// A counter of 32 bits wraps. The difference is nil, and says why; the readings
// stay as they were.
func TestCounterThatWrapped(t *testing.T) {
	most, few := float64(math.MaxUint32), 7.0
	before, after := Counters{Interrupts: &most}, Counters{Interrupts: &few}
	after.Explain("forks", "not read")
	d := after.Since(before)
	if d.Interrupts != nil || !strings.Contains(d.Unavailable["interrupts"], "backwards") ||
		d.Unavailable["forks"] != "not read" {
		t.Errorf("%+v", d)
	}
	if !maps.Equal(after.Unavailable, map[string]string{"forks": "not read"}) || *after.Interrupts != few {
		t.Errorf("the reading became %+v", after)
	}
	if d := after.Since(after); d.Interrupts == nil || *d.Interrupts != 0 || d.Unavailable["interrupts"] != "" {
		t.Errorf("%+v", d)
	}
}

func TestEnergyOfOtherCounters(t *testing.T) {
	for what, e := range map[string][2][]Energy{
		"no range":        {{{Zone: "a", Joules: 5}}, {{Zone: "a", Joules: 3}}},
		"other zones":     {{{Zone: "a", Joules: 1}}, {{Zone: "b", Joules: 3}}},
		"one more":        {{{Zone: "a", Joules: 1}}, {{Zone: "a", Joules: 3}, {Zone: "b"}}},
		"above its range": {{{Zone: "a", Joules: 9, Range: 5}}, {{Zone: "a", Joules: 5, Range: 5}}},
	} {
		if v := energySpent(e[0], e[1]); v != nil {
			t.Errorf("%s: %g", what, *v)
		}
	}
}

func TestSameMachine(t *testing.T) {
	const uuid = "4c4c4544-0031-3510-8057-b2c04f333732"
	for name, c := range map[string]struct {
		a, b    Hardware
		by, why string
	}{
		"by UUID":            {Hardware{UUID: uuid, Serial: "a"}, Hardware{UUID: uuid, Serial: "b"}, "uuid", ""},
		"in the other order": {Hardware{UUID: uuid}, Hardware{UUID: "44454c4c-3100-1035-8057-b2c04f333732"}, "uuid", ""},
		"another UUID": {Hardware{UUID: uuid, MACs: []string{"m"}}, Hardware{UUID: "x", MACs: []string{"m"}}, "",
			"UUID"},
		"by serial number":      {Hardware{UUID: uuid, Serial: "s1"}, Hardware{Serial: "s1"}, "serial number s1", ""},
		"another serial number": {Hardware{Serial: "s1"}, Hardware{Serial: "s2"}, "", "serial number is s2"},
		"by a network card": {Hardware{MACs: []string{"a", "b"}}, Hardware{MACs: []string{"b", "c"}},
			"network card b", ""},
		"other network cards":    {Hardware{MACs: []string{"a"}}, Hardware{MACs: []string{"c"}}, "", "network cards c"},
		"nothing to hold on to":  {Hardware{CPU: "x"}, Hardware{CPU: "x"}, "", "neither"},
		"each tells another one": {Hardware{UUID: uuid}, Hardware{Serial: "s"}, "", "neither"},
	} {
		by, why := c.a.Same(c.b)
		if !strings.HasPrefix(by, c.by) || (by == "") != (c.by == "") || !strings.Contains(why, c.why) ||
			(why == "") != (c.why == "") {
			t.Errorf("%s: by %q, why %q", name, by, why)
		}
	}
}

func FuzzSwapped(f *testing.F) {
	f.Add("4c4c4544-0031-3510-8057-b2c04f333732")
	f.Add("")
	f.Add("------------------------------------")
	f.Fuzz(func(t *testing.T, s string) {
		if once := swapped(s); len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && swapped(once) != s {
			t.Errorf("%q is %q, and back %q", s, once, swapped(once))
		}
	})
}
