package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"bakeoff/base/lazy"
	"bakeoff/base/safetext"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/cmd/bakeoff/offline"
	"bakeoff/judge/analysis"
	"bakeoff/lab/store"
	"bakeoff/lab/trial"
)

// watcher shows the progress of a run. Its methods are called between trials
// only.
type watcher interface {
	showEvent(trial.Event)
	closeView()
}

// plain writes a line for each block and for each notable event: for logs and
// pipes.
type plain struct {
	out   io.Writer
	style cli.Style
	// title is written before the first event; a refused run has no events.
	title    string
	reported reported
	// boots is the number of boots of boot record, of which booted have ended; the last began
	// at began.
	boots, booted int
	began         time.Time
}

func (p *plain) showEvent(e trial.Event) {
	if p.title != "" {
		fmt.Fprintln(p.out, p.title)
		p.title = ""
	}
	if p.boots > 0 {
		p.printBoot(e)
	}
	if e.Kind == trial.BlockEnd {
		fmt.Fprintln(p.out, blockLine(e))
		if e.Text == analysis.EndedInterrupted {
			return // the line said so
		}
	}
	if line, c := p.reported.remarkOnce(e); line != "" {
		fmt.Fprintln(p.out, p.style.Paint(c, safetext.Line(line)))
	}
}

func (*plain) closeView() {}

// printBoot writes a line when a boot has ended.
func (p *plain) printBoot(e trial.Event) {
	switch e.Kind {
	case trial.TrialStart:
		p.began = e.At
	case trial.TrialEnd:
		p.booted++
		state := "recorded"
		if e.Status != store.OK {
			state = "failed"
		}
		fmt.Fprintf(p.out, "boot %d of %d: %s %s after %.1f s\n", p.booted, max(p.boots, p.booted), e.Contender, state,
			e.At.Sub(p.began).Seconds())
	}
}

// reported remembers the failures that were printed: a contender that fails in each
// of a hundred trials is reported once, and counted at the end.
type reported struct {
	failures map[string]bool
	down     map[string]string // contender: why it did not start, as printed
	making   string            // the last preparation that was printed
	gone     map[string]string // why contenders cannot run, as printed: the first of them
	again    int
	blamed   int    // 1 + the last block whose void trial was printed
	void     string // the reason of the last void block without such a trial
	// words replaces names of the lab file in advice; nil keeps them.
	words *strings.Replacer
}

func (t *reported) remarkOnce(e trial.Event) (string, cli.Color) {
	line, c := remarkOn(e)
	switch {
	case e.Kind == trial.Preparing && t.making == e.Text:
		return "", ""
	case e.Kind == trial.Preparing:
		t.making = e.Text
	case e.Kind == trial.Unavailable && t.gone[e.Text] != "":
		line = fmt.Sprintf("%s cannot run either, for the reason of %s", e.Contender, t.gone[e.Text])
	case e.Kind == trial.Unavailable:
		if t.gone == nil {
			t.gone = map[string]string{}
		}
		t.gone[e.Text] = e.Contender
	case e.Status == store.Void && e.Kind != trial.BlockEnd:
		t.blamed = e.Block + 1
	case e.Status == store.Void && e.Text == analysis.EndedInterrupted:
		return voidText(e), cli.Yellow
	case e.Status == store.Void:
		if t.blamed == e.Block+1 || e.Text == t.void || e.Text == "" {
			return "", ""
		}
		t.void = e.Text
		return fmt.Sprintf("block %d: %s", e.Block+1, e.Text), cli.Red
	case e.Kind == trial.TrialEnd && e.Status == store.Subject:
		what := e.Contender + "\n" + e.Cell + "\n" + instanceName.ReplaceAllString(e.Text, "")
		if why := t.down[e.Contender]; t.failures[what] || why != "" && strings.Contains(e.Text, why) {
			t.again++
			return "", ""
		}
		if t.failures == nil {
			t.failures = map[string]bool{}
		}
		t.failures[what] = true
	case e.Kind == trial.Environment && line != "":
		if t.down == nil {
			t.down = map[string]string{}
		}
		t.down[e.Contender] = e.Text
	case e.Kind == trial.End && t.again > 0:
		trials := "trials"
		if t.again == 1 {
			trials = "trial"
		}
		line += fmt.Sprintf("; %d more %s failed for the same reasons", t.again, trials)
	}
	if t.words != nil {
		line = t.words.Replace(line)
	}
	return safetext.Clip(line, maxRemark), c
}

// instanceName matches the name of an environment, which is part of paths in it and
// differs in each block although the failure is the same.
var instanceName = lazy.Compile(`\b[0-9a-f]{6}-[0-9]+\b`)

// maxRemark bounds what is printed of one event, in characters; the run's
// journal has the full text, such as a kernel's panic.
const maxRemark = 500

// remarkOn returns the line that an event is worth in both views, "" for those
// of the normal course.
func remarkOn(e trial.Event) (string, cli.Color) {
	switch e.Kind {
	case trial.Preparing:
		return e.Text, cli.Dim
	case trial.Unavailable:
		return fmt.Sprintf("%s cannot run: %s", e.Contender, e.Text), cli.Yellow
	case trial.Environment:
		if e.Status != "" && e.Status != store.OK {
			return fmt.Sprintf("block %d: %s did not start: %s", e.Block+1, e.Contender, e.Text), cli.Yellow
		}
	case trial.TrialEnd:
		switch e.Status {
		case store.Subject:
			return fmt.Sprintf("block %d: %s failed at %s: %s", e.Block+1, e.Contender, e.Cell, e.Text), cli.Yellow
		case store.Void:
			return fmt.Sprintf("block %d is void: %s at %s: %s", e.Block+1, e.Contender, e.Cell, e.Text), cli.Red
		}
	case trial.BlockEnd:
		return outlook(e), cli.Yellow
	case trial.End:
		return "ended: " + analysis.EndedText(e.Text), cli.Bold
	}
	return "", ""
}

// outlook warns after the first block if the budget ends before the first look that
// can decide: all the time would be spent without a verdict.
func outlook(e trial.Event) string {
	if e.Done != 1 || e.Status == store.Void || e.Budget <= 0 || e.Results == nil || len(e.Results.Looks) == 0 ||
		len(e.Results.Comparisons) == 0 {
		return ""
	}
	open := func(c analysis.Comparison) bool { return c.Primary && c.Exact == nil }
	if !slices.ContainsFunc(e.Results.Comparisons, open) {
		return "" // exact metrics wait for no look
	}
	look := e.Results.FirstLook()
	if look == 0 {
		return "the looks have too few blocks for so many comparisons, so there will be no verdicts; increase design.looks " +
			"or design.blocks"
	}
	needs := e.Elapsed + e.Took*time.Duration(look-1)
	if look > e.Planned || needs <= e.Budget {
		return ""
	}
	return fmt.Sprintf("the first block took %s: at this speed the budget of %s ends before the first look that "+
		"can decide, at %d blocks, without a verdict; --budget %s reaches it",
		roundEstimate(e.Took), roundEstimate(e.Budget), look,
		roundEstimate((needs+needs/5).Truncate(time.Minute)+time.Minute))
}

// blockLine is the state of a run after a block.
func blockLine(e trial.Event) string {
	line := fmt.Sprintf("block %d: %d of at most %d done", e.Block+1, e.Done, e.Planned)
	if e.Status == store.Void {
		line = fmt.Sprintf("%s: %d of at most %d done", voidText(e), e.Done, e.Planned)
	}
	if e.Void > 0 {
		line += fmt.Sprintf(", %d void", e.Void)
	}
	line += ", " + timeText(e.Elapsed, e.Budget)
	if e.Results != nil {
		decided, all := offline.Decided(*e.Results)
		line += fmt.Sprintf(", %d of %d comparisons decided", decided, all)
	}
	return line
}

// voidText says that a block does not count, and whether it was interrupted.
func voidText(e trial.Event) string {
	if e.Text == analysis.EndedInterrupted {
		return fmt.Sprintf("block %d was interrupted and does not count", e.Block+1)
	}
	return fmt.Sprintf("block %d is void", e.Block+1)
}

// timeText is the time spent and the budget.
func timeText(elapsed, budget time.Duration) string {
	s := elapsed.Round(time.Second).String()
	if budget > 0 {
		s += " of " + budget.Round(time.Second).String()
	}
	return s
}
