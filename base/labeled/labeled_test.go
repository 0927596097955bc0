package labeled

import (
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
