package chart

import "testing"

// No cell of a table is a formula for a spreadsheet, and numbers stay numbers.
func TestPlainCell(t *testing.T) {
	for in, want := range map[string]string{"": "", "=1+1": "'=1+1", "@x": "'@x", "+cmd": "'+cmd", "-": "'-",
		"-3.5": "-3.5",
		"+6 %": "+6 %", "1 ms": "1 ms", "\tx": "'\tx"} {
		if got := plainCell(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}
