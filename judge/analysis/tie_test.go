package analysis

import (
	"slices"
	"strings"
	"testing"
)

// tied is a run of contenders of which each has one use of the path in each of three trials.
func tied(uses map[string]PathUse) Data {
	d := Data{Cells: []Cell{{Name: "http"}}, Twin: "a~twin", Observations: []Observation{}}
	names := []string{}
	for name := range uses {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		d.Contenders = append(d.Contenders, Contender{Name: name})
		for block := range 3 {
			u := uses[name]
			d.Observations = append(d.Observations, Observation{Block: block, Contender: name, Cell: "http", Path: &u})
		}
	}
	return d
}

func TestTieWarnings(t *testing.T) {
	at := func(rate, share, busy float64) PathUse { return PathUse{rate, share, busy} }
	for name, c := range map[string]struct {
		uses map[string]PathUse
		want string // "": no warning
	}{
		"three on a link": {map[string]PathUse{
			"a": at(538, .8, .4), "b": at(539, .8, .4), "c": at(540, .8, .4), "d": at(300, .45, .4)},
			"http: 3 contenders are within 0.5 % of each other at 539 responses/s, which is 80 % of what the network path " +
				"carries, with 60 % of their CPUs idle."},
		"busy":          {map[string]PathUse{"a": at(538, .8, .95), "b": at(539, .8, .95)}, ""},
		"one is busy":   {map[string]PathUse{"a": at(538, .8, .4), "b": at(539, .8, .95)}, ""},
		"apart":         {map[string]PathUse{"a": at(538, .8, .4), "b": at(545, .8, .4)}, ""},
		"path is idle":  {map[string]PathUse{"a": at(538, .2, .4), "b": at(539, .2, .4)}, ""},
		"with its twin": {map[string]PathUse{"a": at(538, .8, .4), "a~twin": at(538, .8, .4)}, ""},
		"alone":         {map[string]PathUse{"a": at(538, .8, .4)}, ""},
	} {
		d := tied(c.uses)
		got := d.tieWarnings()
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.want)) {
			t.Errorf("%s: %q", name, got)
		}
	}
	d := tied(map[string]PathUse{"a": at(538, .8, .4), "b": at(539, .8, .4)})
	if r := Analyse(d); !slices.ContainsFunc(
		r.Warnings,
		func(w string) bool { return strings.Contains(w, "2 contenders are within") },
	) {
		t.Errorf("the results do not say it: %q", r.Warnings)
	}
	for i := range d.Observations {
		d.Observations[i].Path = nil
	}
	if got := d.tieWarnings(); len(got) > 0 {
		t.Errorf("without a path: %q", got)
	}
}
