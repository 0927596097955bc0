package diagnosis

import (
	"context"
	"strings"
	"testing"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/lab/env"
	"bakeoff/lab/hosts"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/reach/conn/local"
)

// counting is this machine with other counters of energy.
type counting struct {
	env.Here
	energy []facts.Energy
	fail   error
}

func (c counting) Counters(context.Context, []int) (facts.Counters, error) {
	out := facts.Counters{Energy: c.energy}
	if len(c.energy) > 0 {
		out.Joules = &c.energy[0].Joules
	}
	return out, c.fail
}

// A meter comes before RAPL; it is looked for but not executed. Without a source
// the text gives the reason.
func TestEnergySource(t *testing.T) {
	rapl := []facts.Energy{{Zone: "intel-rapl:0", Joules: 7}, {Zone: "intel-rapl:1"}}
	meter := func(argv ...string) *manifest.Host { return &manifest.Host{Meter: argv} }
	for name, c := range map[string]struct {
		m      counting
		h      *manifest.Host
		source string // "" is null
		says   string
	}{
		"RAPL":                {counting{energy: rapl}, &manifest.Host{}, "rapl", "by RAPL, 2 packages"},
		"one package, no lab": {counting{energy: rapl[:1]}, nil, "rapl", "by RAPL, one package"},
		"a meter before RAPL": {counting{energy: rapl}, meter("false", "-x"), "meter", "by its meter false -x"},
		"a meter that is none": {counting{energy: rapl}, meter("/no/such/meter"), "",
			"its meter /no/such/meter does not exist there"},
		"nothing": {counting{}, &manifest.Host{}, "",
			"no readable RAPL counters, and no meter in the lab file"},
		"nothing, and no lab":   {counting{}, nil, "", "no readable RAPL counters"},
		"a machine that is out": {counting{fail: fault.New(fault.Lab, "it is out")}, nil, "", "it is out"},
	} {
		c.m.Here = env.Here{Conn: local.Conn{}}
		source, text := energySource(t.Context(), c.m, c.h)
		if (source == nil) != (c.source == "") || source != nil && *source != c.source || !strings.Contains(text, c.says) {
			t.Errorf("%s: %v, %q", name, source, text)
		}
	}
}

// A machine without a counter is a fact; a meter of the lab file that does not
// exist is missing.
func TestEnergyFinding(t *testing.T) {
	m := counting{Here: env.Here{Conn: local.Conn{}}}
	lab := &manifest.Lab{Generator: "client",
		Hosts: map[string]manifest.Host{"client": {Meter: []string{"/no/such/meter"}}, "server": {}}}
	for host, want := range map[string]string{"client": Missing, "server": Fact} {
		f := energyFinding(t.Context(), host, m, lab)
		if f.State != want || (host == "client") != strings.Contains(f.Text, "this host is the load generator") ||
			(f.Fix != "") != (host == "server") {
			t.Errorf("%s: %+v", host, f)
		}
	}
	if f := energyFinding(t.Context(), "local", m, nil); f.State != Fact || strings.Contains(f.Text, "lab file") {
		t.Errorf("without a lab file: %+v", f)
	}
}

// Every host of a plan is listed once with its ends; the source of a host that was
// not reached is unknown.
func TestEnergyEnds(t *testing.T) {
	f := hosts.Controller{Getenv: func(string) string { return "" }}.Reach(t.Context(), &plan.Plan{}, 0, nil)
	p := &plan.Plan{Generator: "local", Hosts: map[string]manifest.Host{"local": {Meter: []string{"true"}}}}
	for _, host := range []string{"server", "server"} {
		p.Contenders = append(p.Contenders, plan.Contender{Contender: manifest.Contender{Host: host}})
	}
	got := EnergyEnds(t.Context(), f, p)
	if len(got) != 2 || got[0].Host != "local" || strings.Join(got[0].Ends, " ") != "generator" || got[0].Source == nil ||
		*got[0].Source != "meter" {
		t.Fatalf("%+v", got)
	}
	if got[1].Host != "server" || strings.Join(got[1].Ends, " ") != "contenders" || got[1].Source != nil ||
		!strings.Contains(got[1].Text, "was not reached") {
		t.Errorf("%+v", got[1])
	}
}
