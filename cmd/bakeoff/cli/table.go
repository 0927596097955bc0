package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"bakeoff/base/lists"
)

// Cell is one field of a table, with the color of its text.
type Cell struct {
	Text  string
	Color Color
}

// Plain is a cell without color.
func Plain(text string) Cell { return Cell{Text: text} }

// PlainRow is a row without color.
func PlainRow(texts ...string) []Cell {
	return lists.Map(texts, Plain)
}

// Colored is a cell with a color.
func Colored(text string, c Color) Cell { return Cell{text, c} }

// Table is aligned text for eyes. What is wider than the terminal is wrapped,
// each column under its own start: the last one first, then the widest.
type Table struct {
	Head []string
	Rows [][]Cell
}

// NewTable returns a table with a head.
func NewTable(head ...string) Table { return Table{Head: head} }

// Add adds a row.
func (t *Table) Add(row ...Cell) { t.Rows = append(t.Rows, row) }

// Row adds a row without color.
func (t *Table) Row(texts ...string) { t.Add(PlainRow(texts...)...) }

// Print writes the table, at most width columns wide where its words allow.
func (t *Table) Print(w io.Writer, s Style, width int) {
	head := lists.Map(t.Head, func(h string) Cell { return Cell{h, Bold} })
	printRows(w, s, append([][]Cell{head}, t.Rows...), width, true)
}

// printBody writes the table without its head, and without rows whose last cell
// is empty.
func (t *Table) printBody(w io.Writer, s Style, width int) {
	rows := slices.DeleteFunc(slices.Clone(t.Rows), func(r []Cell) bool { return r[len(r)-1].Text == "" })
	printRows(w, s, rows, width, false)
}

// printRows prints rows, of which the first may be a head. Where the last cells stand
// under their rows, that of a head stays beside the others if there is room for it.
func printRows(w io.Writer, s Style, rows [][]Cell, width int, head bool) {
	widths := columnWidths(rows, width)
	last := len(widths) - 1
	under := last > 0 && sumOf(widths)+gap*last > width && longest(rows, last) > roomForLast(widths, width)
	for i, r := range rows {
		if under && !(i == 0 && head && roomForLast(widths, width) >= countCells(r[last].Text)) {
			printRow(w, s, r[:last], widths)
			printRow(w, s, []Cell{{}, r[last]}, []int{underIndent - gap, max(width-underIndent, leastWidth)})
			continue
		}
		printRow(w, s, r, widths)
	}
}

// roomForLast is what the other columns leave to the last one.
func roomForLast(widths []int, width int) int {
	last := len(widths) - 1
	return width - gap*last - sumOf(widths[:last])
}

// longest is how wide column i is where nothing of it is wrapped.
func longest(rows [][]Cell, i int) (n int) {
	for _, r := range rows {
		n = max(n, countCells(r[i].Text))
	}
	return n
}

// leastWidth is the narrowest that text is wrapped to.
const leastWidth = 24

// gap is between two columns, and leastLast what the last one gets, if it has
// so much to say, before others are wrapped as well. Where not even that leaves
// it room, it stands under its row, indented by underIndent.
const (
	gap         = 2
	leastLast   = 28
	underIndent = 6
)

// columnWidths is how wide each column is, so that all fit into width.
func columnWidths(rows [][]Cell, width int) []int {
	if len(rows) == 0 {
		return nil
	}
	widths, least := make([]int, len(rows[0])), make([]int, len(rows[0]))
	for _, r := range rows {
		for i, c := range r {
			widths[i] = max(widths[i], countCells(c.Text))
			for _, p := range breakPieces(c.Text, 0) {
				least[i] = max(least[i], len(indentOf(c.Text))+countCells(strings.TrimRight(p, " ")))
			}
		}
	}
	last := len(widths) - 1
	others := width - gap*last - min(widths[last], leastLast)
	for over := sumOf(widths[:last]) - others; over > 0; over-- {
		i := widestAbove(widths[:last], least)
		if i < 0 {
			break
		}
		widths[i]--
	}
	widths[last] = max(width-gap*last-sumOf(widths[:last]), leastWidth)
	return widths
}

func sumOf(ns []int) (total int) {
	for _, n := range ns {
		total += n
	}
	return total
}

// widestAbove is the widest column that can be narrower, or -1.
func widestAbove(widths, least []int) int {
	widest := -1
	for i, n := range widths {
		if n > least[i] && (widest < 0 || n > widths[widest]) {
			widest = i
		}
	}
	return widest
}

func printRow(w io.Writer, s Style, row []Cell, widths []int) {
	lines := make([][]string, len(row))
	height := 0
	for i, c := range row {
		lines[i] = Wrap(c.Text, widths[i])
		height = max(height, len(lines[i]))
	}
	for n := range height {
		indent := 0
		for i, c := range row {
			if n < len(lines[i]) && lines[i][n] != "" {
				fmt.Fprint(w, strings.Repeat(" ", indent), s.Paint(c.Color, lines[i][n]))
				indent = -countCells(lines[i][n])
			}
			indent += widths[i] + gap
		}
		fmt.Fprintln(w)
	}
}

// Wrap breaks text into lines of at most width runes: at spaces, within lists
// of choices (a|b), and at hyphens in words that are longer than that. What has
// no such place stays whole. Spaces at the beginning indent all lines.
func Wrap(text string, width int) []string {
	indent := indentOf(text)
	var lines []string
	line := ""
	for _, word := range breakPieces(text, width-len(indent)) {
		if countCells(indent+line+strings.TrimRight(word, " ")) > width && line != "" {
			lines = append(lines, indent+strings.TrimRight(line, " "))
			line = ""
		}
		line += word
	}
	lines = append(lines, strings.TrimRight(indent+line, " "))
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], Nbsp, " ")
	}
	return lines
}

// Nbsp is a space at which no line ends; it is printed as any other.
const Nbsp = "\u00a0"

// Whole is text within which no line ends.
func Whole(text string) string { return strings.ReplaceAll(text, " ", Nbsp) }

// isSeam tells at which characters a line may end.
func isSeam(r rune) bool { return r == ' ' || r == '\t' || r == '\n' }

// indentOf is the spaces at the beginning of text.
func indentOf(text string) string { return text[:len(text)-len(strings.TrimLeft(text, " "))] }

// breakPieces is text at whose seams a line may end; only words longer than width
// runes have seams at their hyphens.
func breakPieces(text string, width int) (out []string) {
	for _, word := range strings.FieldsFunc(text, isSeam) {
		for _, choice := range strings.SplitAfter(word, "|") {
			if countCells(choice) > width {
				out = append(out, strings.SplitAfter(choice, "-")...)
			} else {
				out = append(out, choice)
			}
		}
		out[len(out)-1] += " "
	}
	return out
}

// countCells is how many cells of a terminal s takes.
func countCells(s string) int { return utf8.RuneCountInString(s) }
