package main

import "testing"

func TestShortNames(t *testing.T) {
	var got tally
	for name, short := range map[string]bool{
		"take": true, "had": true, "settle": true, "x": true,
		"settled": false, "firstProcess": false, "sha256": false, "read_all": false,
		"Open": false, "Parse": false, "ParseURL": false,
	} {
		if got.addName(name) != short {
			t.Errorf("%s: short is %v, want %v", name, !short, short)
		}
	}
	if want := (tally{short: 4, exported: 2, all: 11}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}
