package main

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"bakeoff/lab/dryrun"
	"bakeoff/lab/plan"
)

func TestPowerIsExplainedInShortSentences(t *testing.T) {
	for n, want := range map[int]string{
		1: "A look detects a difference of the size in DETECTS with power 80 %.",
		6: "A look detects a difference of the size in DETECTS with power 80 % if none of the 6 primary comparisons was " +
			"decided before. Each decision raises the power for the others.",
	} {
		if got := powerText(n); got != want {
			t.Errorf("for %d comparisons: %q, want %q", n, got, want)
		}
	}
}

// A budget in which nothing can be decided is reported in a sentence, with the look that
// could decide: a table of looks that are beyond the budget does not say it.
func TestPlanSaysThatNothingCanBeDecided(t *testing.T) {
	look := func(blocks int, reached, possible bool) dryrun.Look {
		at := int64(time.Duration(blocks) * time.Minute)
		return dryrun.Look{Blocks: blocks, AtNS: at, Reached: reached, Possible: possible}
	}
	for name, x := range map[string]struct {
		looks []dryrun.Look
		want  string
	}{
		"the first look can decide": {[]dryrun.Look{look(8, true, true), look(12, false, true)}, ""},
		"a later look can decide":   {[]dryrun.Look{look(8, true, false), look(12, true, true)}, ""},
		"beyond the budget": {[]dryrun.Look{look(8, false, true), look(12, false, true)},
			"at least the look at 8 blocks, after about 8m0s"},
		"only an impossible look is within the budget": {[]dryrun.Look{look(8, true, false), look(12, false, true)},
			"within its budget: that needs at least the look at 12 blocks, after about 12m0s, for 12 primary comparisons."},
		"too few blocks": {[]dryrun.Look{look(4, true, false)}, "its looks have too few blocks for 12 primary comparisons."},
	} {
		got := cannotDecide(dryrun.Estimate{Looks: x.looks, Blocks: 8}, 12)
		if (x.want == "") != (got == "") || !strings.Contains(got, x.want) {
			t.Errorf("%s: got %q, want %q", name, got, x.want)
		}
	}
}

// With one look at the end, all of the error rate is left for it: fewer blocks decide.
func TestPlanOffersOneLookWhereThatCanDecide(t *testing.T) {
	looks := []dryrun.Look{{Blocks: 12, Possible: true}}
	for _, x := range []struct {
		blocks, comparisons int
		want                bool
	}{{8, 12, false}, {9, 12, true}, {6, 2, false}, {7, 2, true}, {0, 1, false}} {
		got := strings.Contains(cannotDecide(dryrun.Estimate{Looks: looks, Blocks: x.blocks}, x.comparisons),
			fmt.Sprintf("Or look only once, at the end of the budget: design: {looks: [%d]}.", x.blocks))
		p := math.Exp2(float64(1-x.blocks)) * float64(x.comparisons)
		if got != x.want || got != (p <= 0.05) {
			t.Errorf("%d blocks for %d comparisons: offered %v, want %v", x.blocks, x.comparisons, got, x.want)
		}
	}
}

// A run whose primary metrics are exact needs no look, but each side the trials that must
// agree.
func TestPlanOfExactMetrics(t *testing.T) {
	for _, tt := range []struct {
		blocks, demanded int
		mirror           bool
		want             string
	}{
		{1, 0, true, "each side has 2 of them"},
		{1, 0, false, "no verdicts: 2 trials of each side must agree, and it has at most 1."},
		{3, 5, true, "each side has 5 of them"},
		{2, 5, true, "no verdicts: 5 trials of each side must agree, and it has at most 4."},
		{5, 5, false, "each side has 5 of them"},
	} {
		p := &plan.Plan{Blocks: make([]plan.Block, tt.blocks+1), Family: make([]plan.Comparison, 1)}
		p.Design.Mirror, p.Design.ExactTrials = tt.mirror, tt.demanded
		p.Blocks[tt.blocks].Spare = true
		v := dryrun.View{Plan: p, Estimate: dryrun.Estimate{Comparisons: len(p.Family)}}
		if got := exactPlan(v); !strings.Contains(got, tt.want) {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}
