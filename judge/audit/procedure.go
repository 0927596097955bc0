package audit

import (
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/base/lists"
)

// clock is a command that reads the time.
var clock = lazy.Compile(`(^|[\s(;=` + "`" + `])(date|time|gdate|perf|hyperfine)(\s|$|\))|\$SECONDS|\$EPOCH`)

// waitless reports whether a shell script reads a clock while jobs that it
// sent to the background after reading it before are still running.
func waitless(script string) bool {
	started, running := false, false
	for line := range strings.SplitSeq(script, "\n") {
		code, _, _ := strings.Cut(line, " #")
		code = strings.TrimSpace(code)
		switch {
		case code == "" || strings.HasPrefix(code, "#"):
		case code == "wait" || strings.HasPrefix(code, "wait ") || strings.HasPrefix(code, "wait;"):
			running = false
		case strings.HasSuffix(code, "&") && !strings.HasSuffix(code, "&&"):
			running = running || started
		case clock.MatchString(code):
			if running {
				return true
			}
			started = true
		}
	}
	return false
}

const noWait = "the script has no `wait`: it reads the clock while the background jobs still run, so the printed " +
	"times do not measure the work"

var timingCheck = Check{
	Name: "timing",
	Doc: "A script that starts its work in the background (`&`) and reads the clock without a `wait` does not " +
		"measure the time of that work. Either the printed figures come from another script, or nobody " +
		"knows how much of the work was done when the script stopped the clock.",
	claim: func(t *Table, c *comparison) []Reason {
		for _, s := range t.Experiment.Timing {
			if waitless(s.Script) && c.inScope(s.Rows, s.Columns) {
				return because(Undoes, noWait)
			}
		}
		return nil
	},
	table: func(t *Table) (out []string) {
		for _, s := range t.Experiment.Timing {
			if waitless(s.Script) {
				out = append(out, noWait+t.rowsInBrackets(s.Rows))
			}
		}
		return out
	},
}

// rowsInBrackets names in brackets the rows that a remark is about; "" for all.
func (t *Table) rowsInBrackets(names []string) string {
	if len(names) == 0 {
		return ""
	}
	titles := lists.Map(names, func(name string) string { return t.rowNamed(name).titleOrName() })
	return " (" + shortened(titles) + ")"
}

var orderCheck = Check{
	Name: "order",
	Doc: "Some authors run one contender (compared side) completely before they start the next. Changes over time " +
		"(heat, caches, a filling disk, other users) then look like a difference between the contenders. On a " +
		"machine that serves others at the same time, such an order invalidates any difference below a factor of 2.",
	claim: func(t *Table, c *comparison) []Reason {
		e := t.Experiment
		if e.Order != "sequential" || c.outcome.gap == 0 {
			return nil
		}
		w := Qualifies
		if c.outcome.gap < gross && (e.Live || c.outcome.gap-1 <= 2*plausible) {
			w = Undoes
		}
		return because(w, "%s", sequential(e))
	},
	table: func(t *Table) []string {
		if t.Experiment.Order != "sequential" && !t.Experiment.Live {
			return nil
		}
		return []string{sequential(t.Experiment)}
	},
}

func sequential(e Experiment) string {
	switch {
	case e.Order == "sequential" && e.Live:
		return "all runs had the same order, on a machine that served others meanwhile: the differences include whatever " +
			"changed with time"
	case e.Live:
		return "the machine served others meanwhile"
	}
	return "one contender after the other: the differences include whatever changed with time"
}

// remarks makes a check from remarks of the article about its own method.
func remarks(name, doc string, weight Weight, notes func(Experiment) []Note, format string) Check {
	return Check{
		Name: name, Doc: doc,
		claim: func(t *Table, c *comparison) (out []Reason) {
			for _, n := range notes(t.Experiment) {
				if c.inScope(n.Rows, n.Columns) {
					out = append(out, because(weight, format, n.What)...)
				}
			}
			return out
		},
		table: func(t *Table) (out []string) {
			for _, n := range notes(t.Experiment) {
				if text := fmt.Sprintf(format, n.What) + t.rowsInBrackets(n.Rows); !slices.Contains(out, text) {
					out = append(out, text)
				}
			}
			return out
		},
	}
}

var unstableCheck = remarks("unstable",
	"The authors say that the runs behind a figure differed considerably. Without the spread, such a figure "+
		"supports no comparison.",
	Undoes, func(e Experiment) []Note { return e.Unstable }, "the article says that runs differed: %s")

var selectedCheck = remarks("selected",
	"If the authors repeated runs until the runs looked right, the failures are missing. Failures are results.",
	Undoes, func(e Experiment) []Note { return e.Selected }, "runs were chosen by their outcome: %s")

var confounderCheck = remarks("confounder",
	"Rows may also differ in versions, compilers, libraries, userlands or file systems. Any such difference "+
		"may cause the difference between the figures. More runs do not remove this doubt.",
	Undoes, func(e Experiment) []Note { return e.Confounders }, "something else differs too: %s")
