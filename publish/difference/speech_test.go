package difference

import (
	"testing"

	"bakeoff/base/sample"
)

func TestSpeech(t *testing.T) {
	wall := Speak("wall", "s", sample.Lower)
	rate := Speak("throughput", "B/s", sample.Higher)
	cost := Speak("cpu-per-op", "s/op", sample.Lower)
	for _, c := range []struct {
		w                    Speech
		v, lo, hi            float64
		said, column, within string
	}{
		{wall, 0.167, 0.16, 0.17, "5.99 times as fast", "5.99 times as fast", "5.88–6.25 times"},
		{wall, 1.66, 1.05, 1.93, "takes 1.66 times as long", "1.66 times as long", "1.05–1.93 times"},
		{wall, 1.031, 1.025, 1.037, "3.1 % slower", "+3.1 %", "2.5–3.7 %"},
		{wall, 0.5, 0.4, 1.2, "2.00 times as fast", "2.00 times as fast", "0.833–2.50 times"},
		{rate, 6, 5.5, 6.5, "6.00 times the throughput", "6.00 times the throughput", "5.50–6.50 times"},
		{rate, 0.0355, 0.03, 0.04, "3.55 % of the throughput", "3.55 % of the throughput", "3–4 %"},
		{cost, 7.4, 7, 8, "costs 7.40 times as much", "7.40 times as much", "7.00–8.00 times"},
		{cost, 0.25, 0.2, 0.3, "costs 25 % as much", "25 % as much", "20–30 %"},
	} {
		n := Ratios(&c.v, &c.lo, &c.hi)
		if said, column, within := c.w.Say(n, c.v), c.w.Column(n, c.v), c.w.Between(n, &c.lo, &c.hi, c.v); said != c.said ||
			column != c.column || within != c.within {
			t.Errorf("%g: %q, %q, %q; want %q, %q, %q", c.v, said, column, within, c.said, c.column, c.within)
		}
	}
	v := 0.2
	n := Ratios(&v)
	for _, c := range []struct {
		w     Speech
		below bool
		want  string
	}{{wall, true, "at most 5.00 times as fast"}, {wall, false, "at least 5.00 times as fast"},
		{rate, true, "at least 20 % of the throughput"}} {
		if got := c.w.Bound(n, v, c.below); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	for alpha, want := range map[float64]string{0.05: "95 %", 0.047: "95 %", 0.0513: "94 %", 0.01: "99 %", 0.001: "99.9 %",
		0.004: "99.6 %", 0.1: "90 %"} {
		if got := Level(alpha); got != want {
			t.Errorf("Level(%g) = %q, want %q", alpha, got, want)
		}
	}
}
