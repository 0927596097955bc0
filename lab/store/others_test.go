package store

import "testing"

func TestOthers(t *testing.T) {
	busy := Others{CPUs: 2, Used: 1.44, Programs: []Program{{"chrome\x1b[31m", .9}, {"make", .32}}}
	if got, want := busy.String(), "other programs used 1.4 of 2 CPUs (chrome�[31m 0.9, make 0.3)"; got != want ||
		!busy.Disturb() {
		t.Errorf("%q, a disturbance: %v; want %q", got, busy.Disturb(), want)
	}
	for _, quiet := range []Others{{}, {CPUs: 2, Used: .2}, {Used: 3}} {
		if quiet.Disturb() {
			t.Errorf("%+v disturbs", quiet)
		}
	}
}
