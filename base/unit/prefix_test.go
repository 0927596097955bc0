package unit

import "testing"

func TestPrefix(t *testing.T) {
	for _, c := range []struct {
		v       float64
		unit    string
		divisor float64
		name    string
	}{
		{2.5e6, "B/s", 1e6, "MB/s"},
		{-2.5e6, "B/s", 1e6, "MB/s"},
		{12e-6, "s", 1e-6, "µs"},
		{0, "s", 1e-9, "ns"},
		{0.2, "op/s", 1, "op/s"},
		{1234, "%", 1, "%"},
		{1234, "1", 1, ""},
	} {
		if d, n := Prefix(c.v, c.unit); d != c.divisor || n != c.name {
			t.Errorf("Prefix(%v, %q) = %v, %q; want %v, %q", c.v, c.unit, d, n, c.divisor, c.name)
		}
	}
	for v, want := range map[float64]string{1.234e9: "1.23 GB/s", 0: "0 B/s"} {
		if got := Format(v, "B/s"); got != want {
			t.Errorf("Format(%v) = %q, want %q", v, got, want)
		}
	}
}

// Two values next to each other have one prefix, unless that would take many digits.
func TestFormatBoth(t *testing.T) {
	for _, c := range []struct {
		a, b        float64
		u           string
		left, right string
	}{
		{1002, 801, "request/s", "1002 request/s", "801 request/s"},
		{23.8e-3, 24.1e-3, "s", "23.8 ms", "24.1 ms"},
		{1.84e9, 95.5e6, "B/s", "1840 MB/s", "95.5 MB/s"},
		{1.84e9, 95.5e3, "B/s", "1.84 GB/s", "95.5 kB/s"},
		{0, 5e3, "B/s", "0 B/s", "5.00 kB/s"},
		{3, 4, "1", "3.00", "4.00"},
	} {
		if left, right := FormatBoth(c.a, c.b, c.u); left != c.left || right != c.right {
			t.Errorf("%v, %v: %q, %q, want %q, %q", c.a, c.b, left, right, c.left, c.right)
		}
	}
}

func TestInstructionsHaveAllDigits(t *testing.T) {
	for v, want := range map[float64]string{0: "0 instructions", 1: "1 instruction", 999: "999 instructions",
		1421153544: "1,421,153,544 instructions", -1000: "-1,000 instructions"} {
		if got := Format(v, Instruction); got != want {
			t.Errorf("%v: got %q, want %q", v, got, want)
		}
	}
	if a, b := FormatBoth(1000, 2000000, Instruction); a != "1,000 instructions" || b != "2,000,000 instructions" {
		t.Errorf("got %q and %q", a, b)
	}
}
