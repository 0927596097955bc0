package analysis

import (
	"math"
	"testing"

	"bakeoff/base/sample"
)

func TestVerdictOfAnInterval(t *testing.T) {
	region := RatioRegion(0.02)
	edge := math.Log1p(0.02)
	for _, x := range []struct {
		lo, hi float64
		better sample.Better
		want   Verdict
	}{
		{0.03, 0.05, sample.Higher, Better},
		{0.03, 0.05, sample.Lower, Worse},
		{-0.05, -0.03, sample.Higher, Worse},
		{-0.05, -0.03, sample.Lower, Better},
		{0.001, 0.01, sample.Higher, Equivalent},
		{-edge, edge, sample.Lower, Equivalent},
		{-math.Nextafter(edge, 1), edge, sample.Lower, Inconclusive},
		{-edge, math.Nextafter(edge, 1), sample.Higher, Inconclusive},
		{-0.05, 0.01, sample.Higher, Inconclusive},
		{-0.05, 0.01, sample.Lower, Inconclusive},
		{0, 0.05, sample.Higher, Inconclusive},
		{math.Inf(-1), math.Inf(1), sample.Lower, Inconclusive},
	} {
		if got := region.Verdict(x.lo, x.hi, x.better); got != x.want {
			t.Errorf("[%v, %v] %s: %s, want %s", x.lo, x.hi, x.better, got, x.want)
		}
	}
}

// A verdict of a difference says whether the whole interval is beyond the margin:
// 1.8 to 4.0 % is worse, but possibly by less than 3 %.
func TestBeyondTheMargin(t *testing.T) {
	region := RatioRegion(0.03)
	edge := math.Log1p(0.03)
	for _, x := range []struct {
		lo, hi float64
		better sample.Better
		want   string
	}{
		{math.Log(1.018), math.Log(1.04), sample.Lower, "worse, possibly by less than 3 %"},
		{math.Log(1.031), math.Log(1.04), sample.Lower, "worse by more than 3 %"},
		{-math.Log(1.04), -math.Log(1.018), sample.Higher, "worse, possibly by less than 3 %"},
		{-math.Log(1.04), -math.Log(1.031), sample.Higher, "worse by more than 3 %"},
		{edge, 2 * edge, sample.Higher, "better, possibly by less than 3 %"},
		{math.Nextafter(edge, 1), 2 * edge, sample.Higher, "better by more than 3 %"},
		{-2 * edge, math.Nextafter(-edge, -1), sample.Lower, "better by more than 3 %"},
		{0.001, 0.002, sample.Lower, "equivalent"},
		{-1, 1, sample.Lower, "inconclusive"},
	} {
		v := region.Verdict(x.lo, x.hi, x.better)
		if got := string(v) + Amount(region.Beyond(v, x.lo, x.hi), 0.03); got != x.want {
			t.Errorf("[%v, %v] %s: %q, want %q", x.lo, x.hi, x.better, got, x.want)
		}
	}
	yes := true
	if got := Amount(&yes, 0); got != "" {
		t.Errorf("without a margin: %q", got)
	}
}

// Exchanging the two sides exchanges better and worse and nothing else.
func TestRegion(t *testing.T) {
	for _, margin := range []float64{0.0001, DefaultMargin, MaxMargin} {
		r := RatioRegion(margin)
		lo, hi := r.Ratios()
		if math.Abs(lo-1/(1+margin)) > 1e-15 || math.Abs(hi-(1+margin)) > 1e-15 || math.Abs(r.Margin()-margin) > 1e-15 {
			t.Errorf("margin %v: [%v, %v], back %v", margin, lo, hi, r.Margin())
		}
	}
	if r := NewRegion(0.02, sample.Difference, 50); r != 1 {
		t.Errorf("2 %% of 50 is %v", r)
	}
}
