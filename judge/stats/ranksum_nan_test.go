package stats

import (
	"math"
	"slices"
	"testing"
)

// Every entrance refuses NaN, and ranking one ends.
func TestRanksOfNaN(t *testing.T) {
	nan := math.NaN()
	if got := midranks([]float64{2, nan, 1, nan, 2}); !slices.Equal(got, []int{9, 3, 6, 3, 9}) {
		t.Errorf("doubled midranks %v", got)
	}
	for _, xs := range [][]float64{{nan}, {1, nan, 2}, {nan, nan, nan, nan}} {
		if r := RankSum(xs, []float64{1, 2}); r.P != 1 || len(r.Warnings) != 1 {
			t.Errorf("rank sum of %v: %+v", xs, r)
		}
		if r := RankSum([]float64{1, 2}, xs); r.P != 1 || len(r.Warnings) != 1 {
			t.Errorf("rank sum against %v: %+v", xs, r)
		}
		if c := ScanPoint(xs); c != (ChangePoint{}) {
			t.Errorf("change in %v: %+v", xs, c)
		}
		if r := SignedRankTest(xs); r.P != 1 || len(r.Warnings) == 0 {
			t.Errorf("signed rank of %v: %+v", xs, r)
		}
	}
}
