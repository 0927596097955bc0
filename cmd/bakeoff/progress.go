package main

import (
	"fmt"
	"io"
	"time"

	"bakeoff/analysis"
	"bakeoff/store"
	"bakeoff/trial"
)

// watcher shows a person how a run goes on. Its methods are called between
// trials only.
type watcher interface {
	event(trial.Event)
	close()
}

// plain writes a line for each block and for each thing that a person should
// know of: for logs and pipes.
type plain struct {
	out   io.Writer
	style style
}

func (p plain) event(e trial.Event) {
	if line, c := remark(e); line != "" {
		fmt.Fprintln(p.out, p.style.paint(c, printable(line)))
	}
	if e.Kind == trial.BlockEnd {
		fmt.Fprintln(p.out, blockLine(e))
	}
}

func (plain) close() {}

// remark is what is worth a line of its own, in both views: everything that
// is not simply going on.
func remark(e trial.Event) (string, colour) {
	switch e.Kind {
	case trial.Preparing:
		return e.Text, dim
	case trial.Unavailable:
		return fmt.Sprintf("%s cannot run here: %s", e.Contender, e.Text), yellow
	case trial.Environment:
		if e.Status != "" && e.Status != store.OK {
			return fmt.Sprintf("block %d: %s did not come up: %s", e.Block+1, e.Contender, e.Text), yellow
		}
	case trial.TrialEnd:
		switch e.Status {
		case store.Subject:
			return fmt.Sprintf("block %d: %s failed at %s: %s", e.Block+1, e.Contender, e.Cell, e.Text), yellow
		case store.Void:
			return fmt.Sprintf("block %d is void: %s at %s: %s", e.Block+1, e.Contender, e.Cell, e.Text), red
		}
	case trial.End:
		return "ended: " + endText(e.Text), bold
	}
	return "", ""
}

// endText says why a run ended.
func endText(ended string) string {
	switch ended {
	case "decided":
		return "every primary comparison is decided"
	case "blocks":
		return "all planned blocks are done"
	case "budget":
		return "the time budget is used up"
	case "interrupted":
		return "interrupted; this is what there is so far"
	}
	return ended
}

// blockLine is the state of the run after a block.
func blockLine(e trial.Event) string {
	line := fmt.Sprintf("block %d: %d of at most %d done", e.Block+1, e.Done, e.Planned)
	if e.Status == store.Void {
		line = fmt.Sprintf("block %d is void: %d of at most %d done", e.Block+1, e.Done, e.Planned)
	}
	if e.Void > 0 {
		line += fmt.Sprintf(", %d void", e.Void)
	}
	line += ", " + timeText(e.Elapsed, e.Budget)
	if e.Results != nil {
		decided, all := decidedOf(*e.Results)
		line += fmt.Sprintf(", %d of %d comparisons decided", decided, all)
	}
	return line
}

// decidedOf counts the primary comparisons that have a verdict that says
// something, and all.
func decidedOf(r analysis.Results) (decided, all int) {
	for _, c := range r.Comparisons {
		if !c.Primary {
			continue
		}
		all++
		if isDecided(c) {
			decided++
		}
	}
	return decided, all
}

func isDecided(c analysis.Comparison) bool {
	return c.Verdict == analysis.Better || c.Verdict == analysis.Worse || c.Verdict == analysis.Equivalent
}

// timeText is time spent and allowed.
func timeText(elapsed, budget time.Duration) string {
	s := elapsed.Round(time.Second).String()
	if budget > 0 {
		s += " of " + budget.Round(time.Second).String()
	}
	return s
}
