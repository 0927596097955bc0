package evidence

import (
	"testing"

	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
)

func TestStandings(t *testing.T) {
	contender := func(name, host, driver string) plan.Contender {
		return plan.Contender{Contender: manifest.Contender{Name: name, Host: host, Driver: driver, CPUs: 1}}
	}
	p := &plan.Plan{Baseline: "base", Contenders: []plan.Contender{
		contender("base", "local", "host"), contender("like", "a", "host"), contender("other", "b",
			"chroot"), contender("round", "c", "host"),
	}, Hosts: map[string]manifest.Host{"a": {EqualTo: "local"}, "b": {EqualTo: "a"}, "c": {EqualTo: "d"},
		"d": {EqualTo: "c"}}}
	got := standings(p)
	for name, want := range map[string]struct {
		equals string
		like   bool
	}{"base": {"local", false}, "like": {"local", true}, "other": {"local", false}, "round": {"c", true}} {
		if s := got[name]; s.Equals != want.equals || s.Like != want.like {
			t.Errorf("%s stands as %+v, want %+v", name, s, want)
		}
	}
	if equalHost(p, "d") != equalHost(p, "c") {
		t.Error("two hosts that are declared equal to each other are not")
	}
}
