package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/lab/store"
	"bakeoff/lab/trial"
)

// Without a terminal there is one line for each block and each notable event.
func TestPlainLines(t *testing.T) {
	var out strings.Builder
	p := plain{out: &out, title: "seed 7, runs/a"}
	for _, e := range []trial.Event{
		{Kind: trial.Preparing, Text: "preparing the image debian:bookworm"},
		{Kind: trial.Unavailable, Contender: "crun", Text: "crun is not installed; apt-get install crun"},
		{Kind: trial.Preparing, Text: "preparing the image debian:bookworm"},
		{Kind: trial.Unavailable, Contender: "crun2", Text: "crun is not installed; apt-get install crun"},
		{Kind: trial.Environment, Contender: "host", Status: store.OK},
		{Kind: trial.Environment, Contender: "microvm", Status: store.Subject, Text: "kernel panic\x1b[31m"},
		{Kind: trial.TrialEnd, Contender: "microvm", Cell: "sha", Status: store.Subject,
			Text: "its environment did not start: kernel panic\x1b[31m"},
		{Kind: trial.TrialStart, Contender: "host", Cell: "sha"},
		{Kind: trial.TrialEnd, Contender: "host", Cell: "sha", Status: store.OK},
		{Kind: trial.TrialEnd, Contender: "chroot", Cell: "http", Status: store.Subject, Text: "status 404"},
		{Kind: trial.TrialEnd, Contender: "chroot", Cell: "http", Status: store.Subject, Text: "status 404"},
		{Kind: trial.TrialEnd, Contender: "chroot", Cell: "http", Status: store.Subject, Text: "status 500"},
		{Kind: trial.TrialEnd, Contender: "crun", Cell: "sha", Status: store.Subject, Text: "no /env/f726a3-5/tmp/job"},
		{Kind: trial.TrialEnd, Contender: "crun", Cell: "sha", Status: store.Subject, Text: "no /env/f726a3-12/tmp/job"},
		{Kind: trial.BlockEnd, Done: 1, Planned: 26, Elapsed: 41 * time.Second, Budget: 8 * time.Minute, Results: results(2)},
		{Kind: trial.BlockEnd, Block: 1, Status: store.Void, Done: 1, Void: 1, Planned: 26, Elapsed: 80 * time.Second},
		{Kind: trial.TrialEnd, Block: 2, Contender: "crun", Cell: "http", Status: store.Void, Text: "no counters"},
		{Kind: trial.BlockEnd, Block: 2, Status: store.Void, Text: "crun at http: no counters", Done: 1, Void: 2,
			Planned: 26, Elapsed: 90 * time.Second},
		{Kind: trial.BlockEnd, Block: 3, Status: store.Void, Text: "write: no space left on device", Done: 1, Void: 3,
			Planned: 26, Elapsed: 91 * time.Second},
		{Kind: trial.BlockEnd, Block: 4, Status: store.Void, Text: "write: no space left on device", Done: 1, Void: 4,
			Planned: 26, Elapsed: 92 * time.Second},
		{Kind: trial.BlockEnd, Block: 5, Status: store.Void, Text: "interrupted", Done: 1, Void: 5, Planned: 26,
			Elapsed: 93 * time.Second},
		{Kind: trial.End, Text: "budget"},
	} {
		p.showEvent(e)
	}
	const want = `seed 7, runs/a
preparing the image debian:bookworm
crun cannot run: crun is not installed; apt-get install crun
crun2 cannot run either, for the reason of crun
block 1: microvm did not start: kernel panic` + "\uFFFD" + `[31m
block 1: chroot failed at http: status 404
block 1: chroot failed at http: status 500
block 1: crun failed at sha: no /env/f726a3-5/tmp/job
block 1: 1 of at most 26 done, 41s of 8m0s, 2 of 3 comparisons decided
block 2 is void: 1 of at most 26 done, 1 void, 1m20s
block 3 is void: crun at http: no counters
block 3 is void: 1 of at most 26 done, 2 void, 1m30s
block 4 is void: 1 of at most 26 done, 3 void, 1m31s
block 4: write: no space left on device
block 5 is void: 1 of at most 26 done, 4 void, 1m32s
block 6 was interrupted and does not count: 1 of at most 26 done, 5 void, 1m33s
ended: the time limit is reached: the budget has no room for another block; 3 more trials failed for the same reasons
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// A budget that is too short is reported after the first block, not at its end.
func TestShortBudgetIsReportedEarly(t *testing.T) {
	looked := results(1)
	looked.Looks, looked.Alphas = []int{8, 12, 18, 26}, []float64{.01, .01, .015, .015}
	many := *looked // comparisons: the look at 8 blocks cannot decide
	for i := range 5 {
		many.Contenders = append(many.Contenders, analysis.Contender{Name: fmt.Sprint(i)})
	}
	many.Cells = []analysis.Cell{{Metrics: []sample.Metric{{Primary: true}}}}
	alone := *looked // the baseline has no other contender
	alone.Comparisons = nil
	never := many
	never.Looks, never.Alphas = []int{4}, []float64{.05}
	for _, c := range []struct {
		name  string
		event trial.Event
		want  string
	}{
		{"it ends before the first look", trial.Event{Done: 1, Planned: 26, Elapsed: 50 * time.Second,
			Took: 50 * time.Second, Budget: 4 * time.Minute, Results: looked},
			"the first block took 50s: at this speed the budget of 4m0s ends before the first look that " +
				"can decide, at 8 blocks, without a verdict; --budget 9m0s reaches it"},
		{"it ends before the first look that can decide", trial.Event{Done: 1, Planned: 26, Elapsed: 24 * time.Second,
			Took: 24 * time.Second, Budget: 4 * time.Minute, Results: &many},
			"the first block took 24s: at this speed the budget of 4m0s ends before the first look that " +
				"can decide, at 12 blocks, without a verdict; --budget 6m0s reaches it"},
		{"no look can decide", trial.Event{Done: 1, Planned: 4, Elapsed: time.Second, Took: time.Second,
			Budget: 4 * time.Minute, Results: &never},
			"the looks have too few blocks for so many comparisons, so there will be no verdicts; increase design.looks " +
				"or design.blocks"},
		{"nothing is compared", trial.Event{Done: 1, Planned: 26, Elapsed: 50 * time.Second, Took: 50 * time.Second,
			Budget: 4 * time.Minute, Results: &alone}, ""},
		{"making what stays took most of it", trial.Event{Done: 1, Planned: 26, Elapsed: 70 * time.Second,
			Took: 20 * time.Second, Budget: 4 * time.Minute, Results: looked}, ""},
		{"it reaches the first look", trial.Event{Done: 1, Planned: 26, Elapsed: 20 * time.Second, Took: 20 * time.Second,
			Budget: 4 * time.Minute, Results: looked}, ""},
		{"later blocks", trial.Event{Done: 2, Planned: 26, Elapsed: 100 * time.Second, Took: 100 * time.Second,
			Budget: 4 * time.Minute, Results: looked}, ""},
		{"there is no budget", trial.Event{Done: 1, Planned: 26, Elapsed: 50 * time.Second, Took: 50 * time.Second,
			Results: looked}, ""},
		{"no look was planned", trial.Event{Done: 1, Planned: 2, Elapsed: 50 * time.Second, Took: 50 * time.Second,
			Budget: time.Minute, Results: looked}, ""},
	} {
		c.event.Kind = trial.BlockEnd
		if got, _ := remarkOn(c.event); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// boot record says when each boot has ended, and advises its own flags.
func TestEveryBootIsALine(t *testing.T) {
	var out strings.Builder
	p := plain{out: &out, boots: 3, reported: reported{words: recordWords}}
	at := time.Unix(1_700_000_000, 0)
	for i, name := range []string{"microvm", "microvm-tests"} {
		p.showEvent(trial.Event{Kind: trial.TrialStart, Contender: name, At: at})
		status := []store.Status{store.OK, store.Void}[i]
		p.showEvent(trial.Event{Kind: trial.TrialEnd, Contender: name, At: at.Add(2400 * time.Millisecond), Status: status,
			Text: "no boot"})
	}
	r := results(1)
	r.Looks = []int{1}
	p.showEvent(trial.Event{Kind: trial.BlockEnd, Done: 1, Planned: 1, Budget: time.Minute, Results: r})
	for _, want := range []string{"boot 1 of 3: microvm recorded after 2.4 s\n",
		"boot 2 of 3: microvm-tests failed after 2.4 s\n", "; increase --boots\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}
