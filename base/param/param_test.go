package param

import "testing"

// Bounds are written as people write them: 16MiB, not 1.6777216e+07.
func TestBoundsAreReadable(t *testing.T) {
	for _, c := range []struct {
		spec      Spec
		text      string
		low, high string
		err       string
	}{
		{Spec{Kind: Size, Min: 128, Max: 16 << 20}, "17MiB", "128B", "16MiB", "17MiB is not between 128B and 16MiB"},
		{Spec{Kind: Int, Min: 1, Max: 1 << 53}, "0", "1", "9007199254740992", "0 is not between 1 and 9007199254740992"},
		{Spec{Kind: Number, Min: 0.01, Max: 0.5}, "0.75", "0.01", "0.5", "0.75 is not between 0.01 and 0.5"},
	} {
		if low, high := c.spec.Bounds(); low != c.low || high != c.high {
			t.Errorf("%s: bounds %s and %s, want %s and %s", c.spec.Kind, low, high, c.low, c.high)
		}
		if _, err := c.spec.Canonical(c.text); err == nil || err.Error() != c.err {
			t.Errorf("%s: %v, want %s", c.spec.Kind, err, c.err)
		}
	}
}
