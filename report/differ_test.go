package report

import (
	"slices"
	"testing"

	"bakeoff/probe"
	"bakeoff/unit"
)

// Limits of CPU time and of I/O have columns where somebody is held to them.
func TestRations(t *testing.T) {
	quota, write := 0.5, unit.Bytes(8_000_000)
	all := map[string]*probe.Limits{"a": {}, "b": {Quota: &quota, Write: &write}}
	s := rationsOf(all)
	if !slices.Equal(s.head, []string{"CPU time", "writes"}) {
		t.Errorf("columns %q", s.head)
	}
	for name, want := range map[string][]string{"a": {"no limit", "no limit"}, "b": {"0.5 CPUs", "8.00 MB/s"}, "c": {unavailable, unavailable}} {
		if row := s.row(all[name]); !slices.Equal(row, want) {
			t.Errorf("%s: %q, want %q", name, row, want)
		}
	}
	if s := rationsOf(map[string]*probe.Limits{"a": {}}); len(s.head) != 0 {
		t.Errorf("nobody is held to %q", s.head)
	}
}
