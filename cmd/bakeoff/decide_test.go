package main

import (
	"strings"
	"testing"
	"time"

	"bakeoff/judge/analysis"
	"bakeoff/lab/plan"
	"bakeoff/lab/session"
)

// The command that continues a run with an open tolerance measures what may decide it, but
// not more than the plan has.
func TestHowToDecide(t *testing.T) {
	s := &session.Session{Dir: "runs/a", Plan: &plan.Plan{Blocks: make([]plan.Block, 120)}}
	for _, x := range []struct {
		blocks, more int
		want         string
	}{
		{17, 40, "to continue: bakeoff run --resume runs/a --budget 50s"},
		{17, 339, "the run has only 103 more blocks, which may not decide it; start a new run with a larger --budget, or " +
			"continue: bakeoff run --resume runs/a --budget 2m9s"},
		{119, 25, "the run has only 1 more block, which may"},
		{120, 25, "the remaining blocks of this run cannot decide it: start a new run"},
	} {
		r := analysis.Results{Looks: []int{8, 120}, Blocks: x.blocks,
			Limits: []analysis.Limited{{Outcome: analysis.Undecided, MoreBlocks: &x.more}}}
		if got := howToDecide(s, r, time.Second); !strings.HasPrefix(got, x.want) {
			t.Errorf("%+v: %s", x, got)
		}
	}
}
