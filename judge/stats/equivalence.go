package stats

// Equivalence is the result of two one-sided tests.
type Equivalence struct {
	N      int
	Margin float64
	// P is the larger of the one-sided p-values: at most alpha says that the
	// centre lies inside ±Margin, with an error of at most alpha.
	P        float64
	Exact    bool
	Warnings []string
}

// EquivalenceTest tests whether the centre of symmetry of xs lies strictly
// within ±margin, by a signed-rank test against either edge.
//
// xs are the differences of pairs in one unit, margin ≥ 0 is in that unit;
// both conditions of SignedRankTest hold. The result at alpha agrees with the
// interval of level 1 − 2·alpha lying within the margin.
//
// Source: Schuirmann, J. Pharmacokin. Biopharm. 15 (1987) 657; Wellek,
// Testing Statistical Hypotheses of Equivalence, 5.4.
func EquivalenceTest(xs []float64, margin float64) Equivalence {
	e := Equivalence{N: len(xs), Margin: margin, P: 1, Exact: true}
	if !(margin >= 0) {
		e.Warnings = append(e.Warnings, "the margin is not a number of at least 0: nothing was tested")
		return e
	}
	up, down := make([]float64, len(xs)), make([]float64, len(xs))
	for i, x := range xs {
		up[i], down[i] = x+margin, x-margin
	}
	low, high := SignedRankTest(up), SignedRankTest(down)
	e.P = max(low.Greater, high.Less)
	e.Exact = low.Exact
	e.Warnings = append(e.Warnings, low.Warnings...)
	return e
}
