// Package chart is the contract of figures: SVG that a screen reader can name,
// with a table of its numbers. Its colors come from the page, so that it is
// right in light and dark mode and on paper.
//
// Each child package is one kind of figure; package all lists them; package
// charttest is the suite that all of them pass. Figures are pure: the same data
// give the same bytes.
package chart

// Figure is one figure with its data.
type Figure interface {
	Doc() Doc
	// Title names the figure in one line.
	Title() string
	// Desc describes the figure in words, for those who cannot see it.
	Desc() string
	// Draw returns one <svg> element of the given width, at least MinWidth, in
	// user units of one CSS pixel. Every id in it begins with id, which holds
	// [a-z0-9-] only. Everything in it is escaped.
	Draw(id string, width float64) string
	// Table holds the numbers of the figure.
	Table() Table
}

// Doc describes a kind of figure.
type Doc struct {
	Name  string // that of its package
	Title string // for the glossary of a page
	Read  string // how to read it
}

// Table is the data of a figure, as text for eyes.
type Table struct {
	Head []string
	Rows [][]string // each as long as Head
	// Note says what the table omits, and where to find it; "" if nothing.
	Note string
}

// The widths that pages draw at: one for a desk and for paper, one for a
// phone.
const (
	Wide     = 820.0
	Narrow   = 340.0
	MinWidth = 280.0
)

// Mark is the look of a bar or an interval: each has a color and a pattern, so
// that either suffices to tell them apart.
type Mark string

// The marks. Their names are CSS classes (mark-…) and parts of pattern ids.
const (
	Better   Mark = "better"
	Worse    Mark = "worse"
	Same     Mark = "same"
	Open     Mark = "open"     // inconclusive
	Plain    Mark = "plain"    // without a verdict
	Baseline Mark = "baseline" // what others are compared with
)

// Sign is a shape for the mark, for eyes that colors do not reach.
func (m Mark) Sign() string {
	return map[Mark]string{Better: "▲", Worse: "▼", Same: "=", Open: "?", Plain: "∅"}[m]
}
