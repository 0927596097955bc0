package report

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/reach/probe"
)

// Limits of CPU time and of I/O have columns if a contender has such limits.
func TestRations(t *testing.T) {
	quota, write := 0.5, unit.Bytes(8_000_000)
	all := map[string]*probe.Limits{"a": {}, "b": {Quota: &quota, Write: &write}}
	s := rationsOf(all)
	if !slices.Equal(s.head, []string{"CPU time", "writes"}) {
		t.Errorf("columns %q", s.head)
	}
	for name, want := range map[string][]string{"a": {"no limit", "no limit"}, "b": {"0.5 CPUs", "8.00 MB/s"},
		"c": {unavailable, unavailable}} {
		if row := s.row(all[name]); !slices.Equal(row, want) {
			t.Errorf("%s: %q, want %q", name, row, want)
		}
	}
	if s := rationsOf(map[string]*probe.Limits{"a": {}}); len(s.head) != 0 {
		t.Errorf("no contender has the limit %q", s.head)
	}
}

// What a technology alone has is told of it alone, and the many are "all others".
func TestFactsAreShort(t *testing.T) {
	for name, want := range map[string][]holding{
		"kernel":         {{"6.18", []string{"all others"}}, {unavailable, []string{"e"}}},
		"driver.runtime": {{"6.18", []string{"a", "b", "c", "d"}}},
	} {
		f := fact{Name: name, Values: []holding{{"6.18", []string{"a", "b", "c", "d"}}, {unavailable, []string{"e"}}}}
		if f.shorten(5); !reflect.DeepEqual(f.Values, want) {
			t.Errorf("%s: %v, want %v", name, f.Values, want)
		}
	}
}

// A fact in which environments differ has each value once, with those who have
// it, the baseline first; one that nobody knows of a contender is unavailable.
func TestFactsThatDiffer(t *testing.T) {
	d, p := example()
	dir, page := written(t, d, p, analysis.Analyse(d))
	doc := sound(t, dir, page)
	got := textOf(doc.ofClass("differs")[0])
	for _, want := range []string{"clocksource tsc host, chroot, crun kvm-clock microvm",
		"governor performance host, chroot, crun unavailable microvm"} {
		if !strings.Contains(strings.ReplaceAll(got, " ,", ","), want) {
			t.Errorf("the table does not say %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "openssl") {
		t.Error("a fact that agrees everywhere is among those that differ")
	}
}
