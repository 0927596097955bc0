package yamltree

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/fault"
)

// Error is one thing that is wrong with a file.
type Error struct {
	File string
	Position
	Problem string
	Fix     string // what to do
}

// Error returns "file:line:column: what is wrong; what to do".
func (e Error) Error() string {
	s := fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Problem)
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

// Errors is everything that is wrong with a file, in the order of the places.
type Errors []Error

// Error returns one error per line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, x := range e {
		lines[i] = x.Error()
	}
	return strings.Join(lines, "\n")
}

// maxErrors bounds the errors that are shown.
const maxErrors = 100

// Reporter collects what is wrong with one file.
type Reporter struct {
	File string
	errs Errors
	seen map[Error]bool
}

// Add reports a problem and what to do. A problem that was reported already is
// dropped.
func (r *Reporter) Add(at Position, fix, format string, args ...any) {
	e := Error{File: r.File, Position: at, Problem: fmt.Sprintf(format, args...), Fix: fix}
	if r.seen[e] || len(r.errs) == maxErrors {
		return
	}
	if r.seen == nil {
		r.seen = map[Error]bool{}
	}
	r.seen[e] = true
	r.errs = append(r.errs, e)
}

// Err returns an error of kind fault.Invalid that holds Errors; nil if nothing
// was reported.
func (r *Reporter) Err() error {
	if len(r.errs) == 0 {
		return nil
	}
	slices.SortStableFunc(r.errs, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return fault.Wrap(fault.Invalid, "", r.errs)
}

// maxKnown is how many names Meant lists.
const maxKnown = 20

// Meant says what to write instead of name: the known name that is nearest to
// it, or else the list of all known names.
func Meant(name string, known []string) string {
	best := nearest(name, known, min(max(2, len(name)/3), len(name)))
	switch {
	case name == MergeKey:
		return "merge keys are not supported; write the keys out"
	case best != "":
		return fmt.Sprintf("did you mean %q?", best)
	case len(known) == 0:
		return "there is none"
	case len(known) > maxKnown:
		return fmt.Sprintf("use %s or one of %d more", strings.Join(known[:maxKnown], ", "), len(known)-maxKnown)
	}
	return "use " + OneOf(known)
}

// MergeKey is the key with which YAML 1.1 takes the keys of another mapping.
const MergeKey = "<<"

// Nearest returns the known name that differs from name by at most a third of its letters,
// as a misspelled one does; "" if there is none.
func Nearest(name string, known []string) string { return nearest(name, known, len(name)/3) }

// nearest returns the first of the known names with the smallest distance, of at most most.
func nearest(name string, known []string, most int) (best string) {
	bestAt := most + 1
	for _, k := range known {
		if d := distance(name, k, bestAt); d < bestAt {
			best, bestAt = k, d
		}
	}
	return best
}

// distance counts the letters to insert, delete, replace or swap with their
// neighbor that turn a into b, up to limit (optimal string alignment; Damerau
// 1964). Names longer than a line are as far apart as possible.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit || max(len(a), len(b)) > 80 {
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

// OneOf returns "a, b or c".
func OneOf(names []string) string {
	switch n := len(names); n {
	case 0:
		return "nothing"
	case 1:
		return names[0]
	default:
		return strings.Join(names[:n-1], ", ") + " or " + names[n-1]
	}
}

// Show quotes a stranger's text for a message, at most 60 bytes of it.
func Show(s string) string {
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return fmt.Sprintf("%q", s)
}
