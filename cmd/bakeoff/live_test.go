package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"bakeoff/base/sample"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/analysis"
	"bakeoff/lab/store"
	"bakeoff/lab/trial"
)

func comparison(contender, cell string, ratio, lo, hi float64, v analysis.Verdict) analysis.Comparison {
	return analysis.Comparison{
		Contender: contender, Baseline: "host", Cell: cell, Metric: "throughput", Unit: "B/s",
		Better: sample.Higher, Scale: sample.Ratio, Primary: true, Look: 8,
		Ratio: &ratio, CI: analysis.Interval{&lo, &hi}, Verdict: v,
	}
}

func results(n int) *analysis.Results {
	r := &analysis.Results{Baseline: "host", Margin: 0.02}
	for i := range n {
		r.Comparisons = append(r.Comparisons, comparison("microvm", fmt.Sprintf("cell-%d", i), 0.5, 0.45, 0.55,
			analysis.Worse))
	}
	r.Comparisons = append(r.Comparisons, comparison("crun", "sha256-16k", 1.001, 0.99, 1.01, analysis.Inconclusive))
	return r
}

// The view never has a line that is too long or a line too many: both would
// break the drawing in place.
func TestFrameFits(t *testing.T) {
	start := time.Unix(1000, 0)
	for _, columns := range []int{20, 40, 60, 80, 132} {
		for _, rows := range []int{1, 3, 10, 23, 50} {
			for _, n := range []int{0, 1, 12, 60} {
				s := liveState{title: "bakeoff quick  seed 1  runs/20260102T030405Z-quick", at: start, results: results(n),
					event: trial.Event{Kind: trial.TrialEnd, Block: 3, Position: 12, Contender: "microvm", Cell: "http-50",
						Done: 3, Void: 1, Planned: 26, Elapsed: time.Minute, Budget: 8 * time.Minute}}
				lines := frameLines(s, start.Add(time.Second), columns, rows, cli.Style{})
				if len(lines) > rows {
					t.Errorf("%d×%d with %d comparisons: %d lines", columns, rows, n, len(lines))
				}
				for _, l := range lines {
					if w := utf8.RuneCountInString(l); w > columns {
						t.Errorf("%d×%d: a line of %d: %q", columns, rows, w, l)
					}
				}
			}
		}
	}
}

// An interrupted block is never called done.
func TestFrameNamesAnInterruptedBlock(t *testing.T) {
	for status, want := range map[string]string{analysis.EndedInterrupted: "block 3 was interrupted and does not count",
		"no space left on device": "block 3 is void", "": "block 3 is done"} {
		e := trial.Event{Kind: trial.BlockEnd, Block: 2, Text: status, Status: store.Void}
		if status == "" {
			e.Status = store.OK
		}
		got := strings.Join(frameLines(liveState{event: e}, time.Unix(1, 0), 80, 20, cli.Style{}), "\n")
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q: %s", want, got)
		}
	}
}

func TestFrameTells(t *testing.T) {
	start := time.Unix(1000, 0)
	s := liveState{title: "bakeoff quick", at: start, results: results(2),
		event: trial.Event{Kind: trial.Environment, Block: 3, Contender: "microvm",
			Done: 3, Void: 1, Planned: 26, Elapsed: time.Minute, Budget: 8 * time.Minute}}
	text := strings.Join(frameLines(s, start.Add(10*time.Second), 100, 30, cli.Style{}), "\n")
	for _, want := range []string{
		"3 of at most 26, 1 void", "1m10s of 8m0s, at most 6m50s left", "block 4: creating environments (microvm)",
		"crun sha256-16k throughput", "+0.1 % [−1.0 to +1.0 %] inconclusive",
		"microvm cell-0 throughput", "0.500× [0.450–0.550×] worse",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	// The estimate uses the measured rate of blocks where the budget has room for all:
	// 23 blocks of 15 s each, 5 s of which have passed.
	for took, want := range map[time.Duration]string{45 * time.Second: ", about 5m40s left",
		300 * time.Second: ", at most 6m50s left"} {
		s.blocks, s.took, s.ended = 3, took, 65*time.Second
		got := strings.Join(frameLines(s, start.Add(10*time.Second), 100, 30, cli.Style{}), "\n")
		if !strings.Contains(got, want) {
			t.Errorf("three blocks in %v: no %q in\n%s", took, want, got)
		}
	}
	// What is still open comes first.
	if strings.Index(text, "crun sha256-16k") > strings.Index(text, "microvm cell-0") {
		t.Errorf("a decided comparison stands before an open one:\n%s", text)
	}
}

// What scrolls by above the table is folded at words: a terminal would cut
// them anywhere.
func TestRemarksAreFoldedAtWords(t *testing.T) {
	var out bytes.Buffer
	l := newLive(&out, cli.Style{}, func() (int, int) { return 40, 24 }, liveState{title: "t"})
	l.showEvent(trial.Event{Kind: trial.TrialEnd, Status: store.Subject, Contender: "microvm", Cell: "blog", Planned: 8,
		Text: "the server sent no response within the time"})
	l.closeView()
	if !strings.Contains(out.String(), "block 1: microvm failed at blog: the\nserver sent no response within the time\n") {
		t.Errorf("got %q", out.String())
	}
}

// Between the start of a trial and its end nothing is written: the terminal
// would be measured.
func TestNothingIsDrawnDuringATrial(t *testing.T) {
	var out bytes.Buffer
	l := newLive(&out, cli.Style{}, func() (int, int) { return 80, 24 }, liveState{title: "t"})
	l.showEvent(trial.Event{Kind: trial.BlockEnd, Planned: 8})
	l.showEvent(trial.Event{Kind: trial.TrialStart, Contender: "host", Cell: "sha", Planned: 8})
	l.mu.Lock()
	n := out.Len()
	l.mu.Unlock()
	time.Sleep(1200 * time.Millisecond) // longer than the clock's tick
	l.mu.Lock()
	if out.Len() != n {
		t.Errorf("%q was drawn during a trial", out.Bytes()[n:])
	}
	l.mu.Unlock()
	l.showEvent(trial.Event{Kind: trial.TrialEnd, Status: store.Subject, Text: "404\x1b[2J", Contender: "host",
		Cell:    "sha",
		Planned: 8})
	l.closeView()
	text := out.String()
	if !strings.Contains(text, "block 1: host failed at sha: 404") {
		t.Errorf("the failure is not told: %q", text)
	}
	if strings.Contains(text, "404\x1b") {
		t.Errorf("a stranger's escape sequence reached the terminal: %q", text)
	}
	if !strings.HasSuffix(text, "\x1b[?25h") {
		t.Errorf("the cursor stays hidden: %q", text)
	}
}
