package probe

import (
	"slices"
	"testing"
)

func FuzzParseCPUs(f *testing.F) {
	for _, s := range []string{"", "0", "0-3,7", "5-1", "0,0", "65535", "0-99999", "-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		cpus, err := ParseCPUs(s)
		if err != nil {
			return
		}
		again, err := ParseCPUs(FormatCPUs(cpus))
		if err != nil || !slices.Equal(again, cpus) {
			t.Errorf("%q is %v, and then %v, %v", s, cpus, again, err)
		}
	})
}

func TestFormatCPUs(t *testing.T) {
	for want, cpus := range map[string][]int{"": nil, "0": {0}, "0-1": {1, 0}, "0,2-4,9": {4, 2, 3, 0, 9, 2}} {
		if got := FormatCPUs(cpus); got != want {
			t.Errorf("%v is %q, want %q", cpus, got, want)
		}
	}
}
