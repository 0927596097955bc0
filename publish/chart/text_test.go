package chart

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestFit(t *testing.T) {
	if got := Fit("host", 100); got != "host" {
		t.Errorf("Fit cut a text that fits: %q", got)
	}
	for _, s := range []string{strings.Repeat("w", 1<<20), strings.Repeat("界", 500), "a rather long name of a contender"} {
		got := Fit(s, 60)
		if !strings.HasSuffix(got, "…") || TextWidth(got) > 60 {
			t.Errorf("Fit gave %q, %.0f wide", got, TextWidth(got))
		}
	}
}

// Names that differ in their last part only are told apart where there is no
// room for them.
func TestEnds(t *testing.T) {
	if got := Ends("host", 100); got != "host" {
		t.Errorf("Ends cut a text that fits: %q", got)
	}
	a, b := Ends("debian-12-on-zfs-with-compression-lz4", 120), Ends("debian-12-on-zfs-with-compression-zstd", 120)
	if a == b || !strings.HasPrefix(a, "debian") || !strings.HasSuffix(a, "lz4") {
		t.Errorf("%q and %q", a, b)
	}
	for _, s := range []string{strings.Repeat("w", 1<<20), strings.Repeat("界", 500), "a rather long name of a contender",
		strings.Repeat("i", 21)} {
		if got := Ends(s, 60); !strings.Contains(got, "…") || TextWidth(got) > 60 {
			t.Errorf("Ends gave %q, %.0f wide", got, TextWidth(got))
		}
	}
	if got := Ends("界", 1); got != "界…" {
		t.Errorf("without room: %q", got)
	}
}

func TestTicks(t *testing.T) {
	v, step := Ticks(97, 103.2, 4)
	if !slices.Equal(v, []float64{98, 100, 102}) || step != 2 {
		t.Errorf("ticks %v, step %v", v, step)
	}
	labels, name := Labels([]float64{1.998e9, 2e9, 2.002e9}, 2e6, "B/s")
	if !slices.Equal(labels, []string{"1.998", "2.000", "2.002"}) || name != "GB/s" {
		t.Errorf("labels %q %s: neighbours must differ", labels, name)
	}
	for _, r := range [][2]float64{{0, 0}, {5, 1}, {math.NaN(), 1}, {math.Inf(-1), math.Inf(1)}, {1e308, math.MaxFloat64},
		{1, 1 + 1e-16}} {
		if v, _ := Ticks(r[0], r[1], 5); len(v) == 0 || len(v) > 60 {
			t.Errorf("Ticks(%v) = %v", r, v)
		}
	}
}
