package audit

import (
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/base/lists"
)

// redirected is a redirection of a shell command: it does not change the work.
var redirected = lazy.Compile(`\s*[0-9]?>{1,2}\s*&?\S+`)

// workOf is a background job of a shell script without what does not change its amount
// of work: the order of its input, and where its messages go.
func workOf(job string) string {
	job = redirected.ReplaceAllString(strings.TrimSuffix(strings.TrimSpace(job), "&"), "")
	var stages []string
	for stage := range strings.SplitSeq(job, "|") {
		words := strings.Fields(stage)
		if len(words) > 0 && words[0] != "sort" {
			stages = append(stages, strings.Join(words, " "))
		}
	}
	return strings.Join(stages, " | ")
}

// timesDone is how many background jobs of a script do the same work; 1 if all differ.
func timesDone(script string) int {
	count, most := map[string]int{}, 1
	for line := range strings.SplitSeq(script, "\n") {
		code, _, _ := strings.Cut(line, " #")
		code = strings.TrimSpace(code)
		if strings.HasSuffix(code, "&") && !strings.HasSuffix(code, "&&") && !strings.HasPrefix(code, "#") {
			work := workOf(code)
			count[work]++
			most = max(most, count[work])
		}
	}
	return most
}

func repeatedWork(n int) string {
	return fmt.Sprintf("each of the script's %d background jobs does all of the work, in its own order: such a row did "+
		"the work %d times, so a time that is %d times as long is not a loss", n, n, n)
}

var workCheck = Check{
	Name: "work",
	Doc: "If rows did different amounts of work, their times cannot be compared. For example, the script of one row " +
		"starts a command three times in the background, and each command reads all of the input, in a different " +
		"order. Each of the three jobs then does all of the work, not a third of the work.",
	claim: func(t *Table, c *comparison) (out []Reason) {
		for _, s := range t.Experiment.Timing {
			n := timesDone(s.Script)
			if n < 2 || len(s.Rows) == 0 || len(s.Columns) > 0 && !slices.Contains(s.Columns, c.column.Name) {
				continue
			}
			repeated := func(r *Row) bool { return slices.Contains(s.Rows, r.Name) }
			if decisive := c.decisive(); slices.ContainsFunc(decisive, repeated) && !allOf(decisive, repeated) {
				out = append(out, because(Undoes, "%s", repeatedWork(n))...)
			}
		}
		return out
	},
	table: func(t *Table) (out []string) {
		for _, s := range t.Experiment.Timing {
			if n := timesDone(s.Script); n > 1 {
				out = append(out, repeatedWork(n)+t.rowsInBrackets(s.Rows))
			}
		}
		return out
	},
}

func allOf(rows []*Row, is func(*Row) bool) bool {
	return !slices.ContainsFunc(rows, func(r *Row) bool { return !is(r) })
}

// included is the column whose work each operation of col includes; nil if none is known.
func (t *Table) included(col *Column) *Column { return t.columnNamed(col.Includes) }

// isIncluded reports whether col comes from another table, for comparison.
func (t *Table) isIncluded(col *Column) bool {
	return slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Includes == col.Name })
}

// reversal is by how much a row is better in col than in the column whose work col
// includes: the ratio that its digits allow at least; 0 if it is not.
func (t *Table) reversal(col *Column, r *Row) float64 {
	less := t.included(col)
	if less == nil {
		return 0
	}
	more, plain := r.Values[col.Name], r.Values[less.Name]
	if col.Better == "lower" {
		more, plain = plain, more
	}
	if !more.Known() || !plain.Known() || !(plain.Hi > 0) || !(more.Lo > plain.Hi) {
		return 0
	}
	return more.Lo / plain.Hi
}

func (t *Table) reversalText(col *Column, r *Row) string {
	less := t.included(col)
	return fmt.Sprintf("%s: %s (%s) against %s (%s)", r.titleOrName(), valueText(r.Values[col.Name], col.Unit),
		col.titleOrName(), valueText(r.Values[less.Name], less.Unit), less.titleOrName())
}

var reversalCheck = Check{
	Name: "reversal",
	Doc: "An operation cannot be faster than a part of it. For example, a request over TLS includes the work of a " +
		"request without TLS. If a table shows such a reversal, something other than the work changed one of the " +
		"two figures. Differences in the table that are smaller than the reversal therefore show nothing.",
	claim: func(t *Table, c *comparison) (out []Reason) {
		worst, row := 0.0, (*Row)(nil)
		for i := range t.Rows {
			if r := t.reversal(c.column, &t.Rows[i]); r > worst {
				worst, row = r, &t.Rows[i]
			}
		}
		if row == nil {
			return nil
		}
		w := Qualifies
		if slices.Contains(c.decisive(), row) || c.outcome.gap > 0 && c.outcome.gap < worst {
			w = Undoes
		}
		return because(w, "faster with more work: %s; figures of this table moved by %s or more without a cause that the "+
			"article names", t.reversalText(c.column, row), percent(worst-1))
	},
	column: func(t *Table, col *Column) []string {
		var rows []string
		for i := range t.Rows {
			if t.reversal(col, &t.Rows[i]) > 0 {
				rows = append(rows, t.reversalText(col, &t.Rows[i]))
			}
		}
		if len(rows) == 0 {
			return nil
		}
		return oneFinding("faster with more work, which is impossible if nothing else differs: %s", strings.Join(rows, "; "))
	},
}

// spoken are the protocols of tools that speak one only, by the tool's command.
var spoken = map[string]string{"wrk": "HTTP/1.1", "siege": "HTTP/1.1", "ab": "HTTP/1.0"}

var protocolCheck = Check{
	Name: "protocol",
	Doc: "A server may offer a protocol that the load generator does not support. wrk, siege, h2load with --h1 and " +
		"hey without -h2 use only HTTP/1.1; ab uses only HTTP/1.0. A table made with such a generator says nothing " +
		"about the protocol that browsers would use.",
	table: func(t *Table) (out []string) {
		for _, tool := range t.Experiment.Tools {
			used, ok := spoken[tool.Name]
			settings := strings.Fields(tool.Settings)
			if tool.Name == "h2load" && slices.Contains(settings, "--h1") ||
				tool.Name == "hey" && !slices.Contains(settings, "-h2") {
				used, ok = "HTTP/1.1", true
			}
			if !ok {
				continue
			}
			unused := lists.Filter(t.Experiment.Protocols, func(p string) bool { return p != used })
			if len(unused) > 0 {
				out = append(out, fmt.Sprintf("the server offers %s, which %s cannot speak: every request used %s, so the table "+
					"says nothing about %s", strings.Join(unused, " and "), tool.Name, used, strings.Join(unused, " and ")))
			}
		}
		return out
	},
}
