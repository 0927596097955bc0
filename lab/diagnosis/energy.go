package diagnosis

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"bakeoff/base/facts"
	"bakeoff/lab/env"
	"bakeoff/lab/hosts"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/preflight"
)

// What measures energy on a host.
const (
	byMeter = "meter"
	byRAPL  = "rapl"
)

// Energy says what measures the energy of one end of a plan.
type Energy struct {
	Host string `json:"host"`
	// Ends are what is there: "contenders", "generator".
	Ends []string `json:"ends"`
	// Source is "meter" or "rapl"; null: none, or unknown.
	Source *string `json:"source"`
	Text   string  `json:"text"`
}

// EnergyEnds says for every host of a plan what measures its energy, in order of
// their names. It executes no meter: the lab file may be a stranger's.
func EnergyEnds(ctx context.Context, f *hosts.Connected, p *plan.Plan) []Energy {
	ends := map[string][]string{}
	for _, c := range p.Contenders {
		if name := cmp.Or(c.Host, env.LocalHost); len(ends[name]) == 0 {
			ends[name] = []string{"contenders"}
		}
	}
	if p.Generator != "" {
		ends[p.Generator] = append(ends[p.Generator], "generator")
	}
	out := []Energy{}
	for _, name := range slices.Sorted(maps.Keys(ends)) {
		v := Energy{Host: name, Ends: ends[name]}
		v.Source, v.Text = energyOf(ctx, f, name, p.Hosts[name])
		out = append(out, v)
	}
	return out
}

// energyOf says what measures the energy of a host.
func energyOf(ctx context.Context, f *hosts.Connected, name string, h manifest.Host) (source *string, text string) {
	m, err := f.Machine(name)
	if err != nil {
		return nil, "unavailable: " + err.Error()
	}
	if len(h.Switch) > 0 && len(h.Meter) == 0 {
		return nil, "unknown until the host boots its systems"
	}
	ctx, cancel := context.WithTimeout(ctx, CheckTime)
	defer cancel()
	return energySource(ctx, m, &h)
}

// energySource says what measures the energy of a machine: the meter of the lab
// file where there is one. It looks for the meter but does not execute it. h is nil
// where there is no lab file.
func energySource(ctx context.Context, m env.Machine, h *manifest.Host) (source *string, text string) {
	by := func(name, text string) (*string, string) { return &name, text }
	if h != nil && len(h.Meter) > 0 {
		switch have, err := preflight.Has(ctx, m, h.Meter[0]); {
		case err != nil:
			return nil, "unavailable: " + err.Error()
		case !have:
			return nil, "unavailable: its meter " + h.Meter[0] + " does not exist there"
		}
		return by(byMeter, "by its meter "+strings.Join(h.Meter, " "))
	}
	c, err := m.Counters(ctx, nil)
	switch {
	case err != nil:
		return nil, "unavailable: " + err.Error()
	case c.Joules != nil:
		return by(byRAPL, "by RAPL, "+packages(c))
	case h == nil:
		return nil, "unavailable: no readable RAPL counters"
	}
	return nil, "unavailable: no readable RAPL counters, and no meter in the lab file"
}

// packages is the number of CPU packages that count.
func packages(c facts.Counters) string {
	if len(c.Energy) == 1 {
		return "one package"
	}
	return fmt.Sprintf("%d packages", len(c.Energy))
}

// energyFinding says what measures a machine's energy, and whether the machine is
// the load generator of the lab; l is nil where there is no lab file.
func energyFinding(ctx context.Context, name string, m env.Machine, l *manifest.Lab) Finding {
	ctx, cancel := context.WithTimeout(ctx, CheckTime)
	defer cancel()
	if l == nil {
		source, text := energySource(ctx, m, nil)
		return energyState(source, text, manifest.Host{}, name)
	}
	h := l.Hosts[name]
	source, text := energySource(ctx, m, &h)
	if l.Generator == name {
		text += "; this host is the load generator"
	}
	return energyState(source, text, h, name)
}

// energyState is the finding for an energy source: without a source it is a fact,
// and Missing if the lab file names a meter that does not exist.
func energyState(source *string, text string, h manifest.Host, name string) Finding {
	f := Finding{Name: "energy", State: Good, Text: text}
	switch {
	case source == nil && len(h.Meter) > 0:
		f.State = Missing
	case source == nil:
		f.State, f.Fix = Fact, "hosts: {"+name+": {meter: [COMMAND]}} in a lab file sets a meter"
	}
	return f
}
