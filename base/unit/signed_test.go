package unit

import "testing"

func TestSigned(t *testing.T) {
	for _, c := range []struct {
		v        float64
		decimals int
		want     string
	}{
		{-97.2, 0, "−97"}, {1.25, 1, "+1.2"}, {0, 1, "+0.0"}, {-3600.9992, 3, "−3600.999"}, {-0.0000123, -1,
			"−1.23e−05"}, {12345, -1, "+1.23e+04"},
	} {
		if got := Signed(c.v, c.decimals); got != c.want {
			t.Errorf("%v with %d decimals: %s, want %s", c.v, c.decimals, got, c.want)
		}
	}
}
