package analysis

import (
	"strings"
	"testing"
)

// A comparison across machines is warned of until their equality is declared,
// agrees with what they say of themselves, and was measured.
func TestAcrossHosts(t *testing.T) {
	same := map[string]string{"cpu.model": "X", "memory": "1 B"}
	for name, c := range map[string]struct {
		there   Placement
		facts   map[string]string
		verdict Verdict // of the calibrating contender; "" for none
		want    string  // "" for no warning
	}{
		"on one host": {Placement{Host: "local", Equals: "local"}, same, "", ""},
		"not declared": {Placement{Host: "box", Equals: "box"}, same, Equivalent,
			"includes the difference between the two machines"},
		"declared and unlike": {Placement{Host: "box", Equals: "local"}, map[string]string{"cpu.model": "Y", "memory": "1 B"},
			Equivalent, "differ in cpu.model"},
		"declared alone":     {Placement{Host: "box", Equals: "local"}, same, "", "no contender"},
		"measured unequal":   {Placement{Host: "box", Equals: "local"}, same, Worse, "no contender"},
		"declared and shown": {Placement{Host: "box", Equals: "local"}, same, Equivalent, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := Data{Baseline: "base", Facts: map[string]map[string]string{"base": same, "x": c.facts, "cal": c.facts},
				Hosts: map[string]Placement{"base": {Host: "local", Equals: "local"}, "x": c.there}}
			all := []Comparison{{Contender: "x", Primary: true, Verdict: Better}}
			if c.verdict != "" {
				d.Hosts["cal"] = Placement{Host: c.there.Host, Equals: c.there.Equals, Like: true}
				all = append(all, Comparison{Contender: "cal", Primary: true, Verdict: c.verdict})
			}
			d.warnAcrossHosts(all)
			got := strings.Join(all[0].Warnings, "; ")
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("warned %q, want %q", got, c.want)
			}
		})
	}
	// A run folder that says nothing of hosts is not warned of.
	all := []Comparison{{Contender: "x"}}
	(&Data{Baseline: "base"}).warnAcrossHosts(all)
	if len(all[0].Warnings) > 0 {
		t.Errorf("warned %q", all[0].Warnings)
	}
}
