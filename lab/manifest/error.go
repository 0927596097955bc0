package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/fault"
)

// Error is one thing that is wrong with a lab file.
type Error struct {
	File         string
	Line, Column int // from 1; 0 where the whole file is meant
	Problem      string
	Fix          string // what would be right
}

// Error returns "file:line:column: what is wrong; what would be right".
func (e Error) Error() string {
	s := fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Problem)
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

// Errors is everything that is wrong with a lab file, in order of the place.
// Parse returns it inside an error of kind fault.Invalid.
type Errors []Error

// Error returns one error a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, x := range e {
		lines[i] = x.Error()
	}
	return strings.Join(lines, "\n")
}

// maxErrors bounds what a person is shown of a file that is no lab at all.
const maxErrors = 100

// reporter collects what is wrong.
type reporter struct {
	file string
	errs Errors
	seen map[Error]bool
}

func (r *reporter) add(at position, fix, format string, args ...any) {
	e := Error{File: r.file, Line: at.line, Column: at.column, Problem: fmt.Sprintf(format, args...), Fix: fix}
	if r.seen[e] || len(r.errs) == maxErrors {
		return
	}
	if r.seen == nil {
		r.seen = map[Error]bool{}
	}
	r.seen[e] = true
	r.errs = append(r.errs, e)
}

// err returns what was collected, or nil.
func (r *reporter) err() error {
	if len(r.errs) == 0 {
		return nil
	}
	slices.SortStableFunc(r.errs, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return fault.Wrap(fault.Invalid, "", r.errs)
}

// meant returns "did you mean X" for the name that is nearest to a mistyped
// one, and otherwise the list of what there is.
func meant(name string, known []string) string {
	best, bestAt := "", max(1, len(name)/3)+1
	for _, k := range known {
		if d := distance(name, k, bestAt); d < bestAt {
			best, bestAt = k, d
		}
	}
	switch {
	case best != "":
		return fmt.Sprintf("did you mean %q?", best)
	case len(known) == 0:
		return "there is none"
	}
	return "there is " + oneOf(known)
}

// distance counts the letters to insert, delete, replace or swap with their
// neighbour that make b of a, up to limit (optimal string alignment; Damerau
// 1964).
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			same := 1
			if a[i-1] == b[j-1] {
				same = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return min(rows[len(a)][len(b)], limit)
}

// oneOf writes "a, b or c".
func oneOf(names []string) string {
	switch n := len(names); n {
	case 0:
		return "nothing"
	case 1:
		return names[0]
	default:
		return strings.Join(names[:n-1], ", ") + " or " + names[n-1]
	}
}

// show quotes a stranger's text for a message, bounded.
func show(s string) string {
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return fmt.Sprintf("%q", s)
}
