package analysis

import "testing"

// What the numbers of a cell do not describe is in each of its comparisons.
func TestCaveats(t *testing.T) {
	d := Data{Baseline: "host", Observations: []Observation{
		{Contender: "host", Cell: "same", Caveat: "fits in memory"}, {Contender: "vm",
			Cell: "same", Caveat: "fits in memory"},
		{Contender: "vm", Cell: "same", Caveat: "fits in memory"},
		{Contender: "host", Cell: "one"}, {Contender: "vm", Cell: "one", Caveat: "fits in memory"},
		{Contender: "host", Cell: "two", Caveat: "b"}, {Contender: "host", Cell: "two", Caveat: "a"},
		{Contender: "vm", Cell: "two", Caveat: "c"},
	}}
	for cell, want := range map[string]string{"same": "fits in memory", "one": "vm: fits in memory",
		"two": "vm: c; host: a; b", "none": ""} {
		c := []Comparison{{Contender: "vm", Baseline: "host", Cell: cell}}
		if d.caveats(c); c[0].Caveat != want {
			t.Errorf("%s: %q, want %q", cell, c[0].Caveat, want)
		}
	}
}
