package difference

import (
	"math"
	"testing"

	"bakeoff/base/sample"
)

func p(v float64) *float64 { return &v }

// An estimate and its interval have one notation, whichever of them is far from the
// baseline.
func TestOneNotation(t *testing.T) {
	for _, c := range []struct {
		v, lo, hi        *float64
		estimate, within string
	}{
		{p(1.012), p(1.005), p(1.019), "+1.2 %", "+0.5 to +1.9 %"},
		{p(1.001), p(0.994), p(1.009), "+0.1 %", "−0.6 to +0.9 %"},
		{p(1.66), p(1.05), p(1.93), "1.66×", "1.05–1.93×"},
		{p(0.98), p(0.95), p(1.6), "0.980×", "0.950–1.60×"},
		{p(1.4), p(1.2), p(1.51), "1.40×", "1.20–1.51×"},
		{p(1.4), p(1.2), p(1.5), "+40.0 %", "+20.0 to +50.0 %"},
		{p(0.7), p(1 / 1.5), p(0.75), "−30.0 %", "−33.3 to −25.0 %"},
		{p(0.052), p(0.05), p(0.054), "0.0520×", "0.0500–0.0540×"},
		{p(102.4), p(99), p(1234), "102×", "99.0–1234×"},
		{p(1.66), p(1.004), nil, "1.66×", "at least 1.004×"},
		{p(0.97), nil, p(0.9996), "−3.0 %", "at most −0.04 %"},
		{p(1), nil, nil, "0 %", "unavailable"},
	} {
		n := Ratios(c.v, c.lo, c.hi)
		if got := n.Text(*c.v); got != c.estimate {
			t.Errorf("estimate %q, want %q", got, c.estimate)
		}
		if got := n.Between(c.lo, c.hi); got != c.within {
			t.Errorf("interval %q, want %q", got, c.within)
		}
	}
	if got := Of(sample.Difference, "s", p(0.003)).Between(p(0.002), p(-0.004)); got != "+2.00 ms to −4.00 ms" {
		t.Errorf("difference %q", got)
	}
}

// An interval that was not computed is not unbounded.
func TestBounds(t *testing.T) {
	for _, c := range []struct {
		lo, hi   *float64
		from, to string
	}{
		{p(1.005), p(1.019), "+0.5 %", "+1.9 %"},
		{p(1.004), nil, "+0.4 %", "unbounded"},
		{nil, p(0.9996), "unbounded", "−0.04 %"},
		{nil, nil, "unavailable", "unavailable"},
	} {
		if from, to := Ratios(c.lo, c.hi).Bounds(c.lo, c.hi); from != c.from || to != c.to {
			t.Errorf("from %q to %q, want %q to %q", from, to, c.from, c.to)
		}
	}
}

func TestFactorShowsThatThereIsADifference(t *testing.T) {
	for v, want := range map[float64]string{1: "1.00", 1.004: "1.004", 0.9996: "0.9996", 1.00001: "1.0000", 2.5: "2.50",
		19.34: "19.3", 5e7: "5e+07", 5e-324: "4.94e-324"} {
		if got := Factor(v); got != want {
			t.Errorf("Factor(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestTick(t *testing.T) {
	for v, want := range map[float64]string{1: "0 %", 1.02: "+2 %", 0.975: "−2.5 %"} {
		if got := Ratios().Tick(v); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for v, want := range map[float64]string{1: "1×", 0.5: "0.5×", 2e6: "2e+06×", 0.98: "0.98×"} {
		if got := (Notation{Factors: true}).Tick(v); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add(1.0, math.Inf(1), math.NaN(), true)
	f.Fuzz(func(t *testing.T, v, lo, hi float64, difference bool) {
		scale := sample.Ratio
		if difference {
			scale = sample.Difference
		}
		n := Of(scale, "s", &v, &lo, &hi)
		for _, s := range []string{n.Text(v), n.Between(&lo, &hi), n.Tick(v)} {
			if s == "" || len(s) > 2000 {
				t.Errorf("%q", s)
			}
		}
	})
}
