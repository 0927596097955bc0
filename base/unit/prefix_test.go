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
