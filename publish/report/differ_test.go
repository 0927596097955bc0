package report

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/facts"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
)

// Limits of CPU time and of I/O have columns if a contender has such limits.
func TestRations(t *testing.T) {
	quota, write := 0.5, unit.Bytes(8_000_000)
	all := map[string]*facts.Limits{"a": {}, "b": {Quota: &quota, Write: &write}}
	s := rationsOf(all)
	if !slices.Equal(s.head, []string{"CPU time", "writes"}) {
		t.Errorf("columns %q", s.head)
	}
	for name, want := range map[string][]string{"a": {"no limit", "no limit"}, "b": {"0.5 CPUs", "8.00 MB/s"},
		"c": {unavailable, unavailable}} {
		if row := s.rowOf(all[name]); !slices.Equal(row, want) {
			t.Errorf("%s: %q, want %q", name, row, want)
		}
	}
	if s := rationsOf(map[string]*facts.Limits{"a": {}}); len(s.head) != 0 {
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

// Instruction sets in use: a guest whose kernel saves no AVX registers uses fewer
// than the host, although the processor is the same. The page shows the difference.
func TestInstructionSetsThatDiffer(t *testing.T) {
	const few, more = "aes cx16 popcnt sse2 sse3 sse41 sse42 ssse3", " avx avx2 fma osxsave"
	f := fact{Name: "isa.go", Values: []holding{{few + more, []string{"host"}}, {few, []string{"noxsave"}},
		{unavailable + ": old agent", []string{"old"}}}}
	f.omitCommonSets()
	want := []holding{{"avx avx2 fma osxsave, and 8 sets that all use", []string{"host"}},
		{"only the 8 sets that all use", []string{"noxsave"}}, {unavailable + ": old agent", []string{"old"}}}
	if !reflect.DeepEqual(f.Values, want) {
		t.Errorf("%v, want %v", f.Values, want)
	}
	for _, alone := range []fact{
		{Name: "isa.go", Values: []holding{{few, []string{"host"}}, {unavailable, []string{"old"}}}},
		{Name: "isa.go", Values: []holding{{"asimd", []string{"arm"}}, {"sse2", []string{"x86"}}}},
		{Name: "cmdline", Values: []holding{{"ro quiet", []string{"a"}}, {"ro", []string{"b"}}}},
	} {
		before := slices.Clone(alone.Values)
		if alone.omitCommonSets(); !reflect.DeepEqual(alone.Values, before) {
			t.Errorf("%s: %v became %v", alone.Name, before, alone.Values)
		}
	}

	d, p := example()
	for name, facts := range d.Facts {
		facts["isa.go"], facts["isa.openssl"] = few+more, "OPENSSL_ia32cap=0xfffa3203078bffff:0x405fc6f1bf07ab"
		facts["cpu.flags"] = "0123456789ab (120 flags)"
		if name == "microvm" {
			facts["isa.go"], facts["isa.openssl"] = few, "OPENSSL_ia32cap=0xc2da2203078bffff:0x405fc6f1bf0788"
		}
	}
	dir, page := written(t, d, p, analysis.Analyse(d))
	got := textOf(sound(t, dir, page).ofClass("differs")[0])
	for _, want := range []string{"isa.go avx avx2 fma osxsave, and 8 sets that all use",
		"only the 8 sets that all use microvm",
		"isa.openssl OPENSSL_ia32cap=0xfffa3203078bffff:0x405fc6f1bf07ab", "0xc2da2203078bffff:0x405fc6f1bf0788 microvm"} {
		if !strings.Contains(got, want) {
			t.Errorf("the table does not say %q:\n%s", want, got)
		}
	}
	for _, c := range analysis.Analyse(d).Comparisons {
		named := slices.ContainsFunc(c.Confounders, func(c analysis.Confounder) bool { return c.Name == "isa.go" })
		if named != (c.Contender == "microvm") {
			t.Errorf("%s: the confounders are %v", c.Contender, c.Confounders)
		}
	}
	if strings.Contains(got, "cpu.flags") {
		t.Errorf("flags that agree are among those that differ:\n%s", got)
	}
}
