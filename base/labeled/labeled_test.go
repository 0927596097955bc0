package labeled

import (
	"math"
	"strings"
	"testing"
)

func TestTextFindsOneNumber(t *testing.T) {
	out := Text("  total time:   1.5s\nevents: 7 (3 per second)\ntwice: 1\ntwice: 2\nhex: 0x10\nnan: NaN\nhuge: 1e999\n")
	for _, c := range []struct {
		label, suffix string
		want          float64
		says          string
	}{
		{"total time:", "s", 1.5, ""},
		{"events:", "", 7, ""},
		{"total time:", "", 0, "not a number"},
		{"twice:", "", 0, "two lines begin with"},
		{"none:", "", 0, "no line"},
		{"hex:", "", 0, "not a number"}, {"nan:", "", 0, "not a number"}, {"huge:", "", 0, "not a number"},
	} {
		got, err := out.Number(c.label, c.suffix)
		if got != c.want || (c.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %g, %v; want %g, %q", c.label, got, err, c.want, c.says)
		}
	}
}

// The coarser of two numbers is the one that rounding changed more.
func TestRounding(t *testing.T) {
	for word, want := range map[string]float64{"4.7": 0.05 / 4.7, "0.210629s": 0.5e-6 / 0.210629, "20s": 0.5 / 20,
		"1.00m": 0.005, "-2.0": 0.025, "0.0000s": math.Inf(1), "": math.Inf(1), "x": math.Inf(1)} {
		if got := Rounding(word); got != want && !(math.Abs(got-want) < 1e-12) {
			t.Errorf("%q: %g, want %g", word, got, want)
		}
	}
}
