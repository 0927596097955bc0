package name

import (
	"regexp"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	pattern := regexp.MustCompile(`^(?:` + Pattern + `)$`)
	long := strings.Repeat("x", Max)
	for s, want := range map[string][3]bool{ // in a lab file, in a run folder, a label
		"a":                 {true, true, true},
		"0-1":               {true, true, true},
		"http-50":           {true, true, true},
		"a.b_c":             {true, true, false},
		"host" + TwinSuffix: {false, true, false},
		long:                {true, true, true},
		long + TwinSuffix:   {false, true, false},
		long + "x~twin":     {false, false, false},
		"":                  {},
		"-a":                {},
		".a":                {},
		"~a":                {},
		"A":                 {},
		"a b":               {},
		"a/b":               {},
		"a\n":               {},
		"ä":                 {},
	} {
		if got := [3]bool{pattern.MatchString(s), Valid(s, MaxTwin), ValidLabel(s)}; got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
}
