package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// cell is one field of a table, with the colour of its text.
type cell struct {
	text   string
	colour colour
}

// table is aligned text for eyes. What is wider than the terminal is wrapped,
// each column under its own start: the last one first, then the widest.
type table struct {
	head []string
	rows [][]cell
}

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

// row adds fields without colour.
func (t *table) row(texts ...string) {
	var cells []cell
	for _, s := range texts {
		cells = append(cells, cell{text: s})
	}
	t.add(cells...)
}

// print writes the table, at most width columns wide where its words allow.
func (t *table) print(w io.Writer, s style, width int) {
	var head []cell
	for _, h := range t.head {
		head = append(head, cell{h, bold})
	}
	printRows(w, s, append([][]cell{head}, t.rows...), width)
}

func printRows(w io.Writer, s style, rows [][]cell, width int) {
	widths := columnWidths(rows, width)
	last := len(widths) - 1
	under := last > 0 && sum(widths)+gap*last > width && longest(rows, last) > width-gap*last-sum(widths[:last])
	for _, r := range rows {
		if under {
			printRow(w, s, r[:last], widths)
			printRow(w, s, []cell{{}, r[last]}, []int{underIndent - gap, max(width-underIndent, 24)})
			continue
		}
		printRow(w, s, r, widths)
	}
}

// longest is how wide column i is where nothing of it is wrapped.
func longest(rows [][]cell, i int) (n int) {
	for _, r := range rows {
		n = max(n, utf8.RuneCountInString(r[i].text))
	}
	return n
}

// gap is between two columns, and leastLast what the last one gets, if it has
// so much to say, before others are wrapped as well. Where not even that leaves
// it room, it stands under its row, indented by underIndent.
const (
	gap         = 2
	leastLast   = 28
	underIndent = 6
)

// columnWidths is how wide each column is, so that all fit into width.
func columnWidths(rows [][]cell, width int) []int {
	if len(rows) == 0 {
		return nil
	}
	widths, least := make([]int, len(rows[0])), make([]int, len(rows[0]))
	for _, r := range rows {
		for i, c := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
			for _, p := range pieces(c.text, 0) {
				least[i] = max(least[i], len(indentOf(c.text))+utf8.RuneCountInString(strings.TrimRight(p, " ")))
			}
		}
	}
	last := len(widths) - 1
	room := width - gap*last - min(widths[last], leastLast)
	for over := sum(widths[:last]) - room; over > 0; over-- {
		i := widestAbove(widths[:last], least)
		if i < 0 {
			break
		}
		widths[i]--
	}
	widths[last] = max(width-gap*last-sum(widths[:last]), 24)
	return widths
}

func sum(ns []int) (total int) {
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

func printRow(w io.Writer, s style, row []cell, widths []int) {
	lines := make([][]string, len(row))
	height := 0
	for i, c := range row {
		lines[i] = wrap(c.text, widths[i])
		height = max(height, len(lines[i]))
	}
	for n := range height {
		indent := 0
		for i, c := range row {
			if n < len(lines[i]) && lines[i][n] != "" {
				fmt.Fprint(w, strings.Repeat(" ", indent), s.paint(c.colour, lines[i][n]))
				indent = -utf8.RuneCountInString(lines[i][n])
			}
			indent += widths[i] + gap
		}
		fmt.Fprintln(w)
	}
}

// wrap breaks text into lines of at most width runes: at spaces, within lists
// of choices (a|b), and at hyphens in words that are longer than that. What has
// no such place stays whole. Spaces at the beginning indent all lines.
func wrap(text string, width int) []string {
	indent := indentOf(text)
	var lines []string
	line := ""
	for _, word := range pieces(text, width-len(indent)) {
		if utf8.RuneCountInString(indent+line+strings.TrimRight(word, " ")) > width && line != "" {
			lines = append(lines, indent+strings.TrimRight(line, " "))
			line = ""
		}
		line += word
	}
	lines = append(lines, strings.TrimRight(indent+line, " "))
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], nbsp, " ")
	}
	return lines
}

// nbsp is a space at which no line ends; it is printed as any other.
const nbsp = "\u00a0"

// whole is text within which no line ends.
func whole(text string) string { return strings.ReplaceAll(text, " ", nbsp) }

// isSeam tells at which characters a line may end.
func isSeam(r rune) bool { return r == ' ' || r == '\t' || r == '\n' }

// indentOf is the spaces at the beginning of text.
func indentOf(text string) string { return text[:len(text)-len(strings.TrimLeft(text, " "))] }

// pieces is text at whose seams a line may end; only words longer than width
// runes have seams at their hyphens.
func pieces(text string, width int) (out []string) {
	for _, word := range strings.FieldsFunc(text, isSeam) {
		for _, choice := range strings.SplitAfter(word, "|") {
			if utf8.RuneCountInString(choice) > width {
				out = append(out, strings.SplitAfter(choice, "-")...)
			} else {
				out = append(out, choice)
			}
		}
		out[len(out)-1] += " "
	}
	return out
}

// paragraph writes text, two cells in, folded at the width of the terminal.
func (a *app) paragraph(c colour, text string) {
	width, _ := a.size(a.stdout)
	for _, line := range wrap("  "+text, max(width, 24)) {
		fmt.Fprintln(a.stdout, a.style(a.stdout).paint(c, line))
	}
}

// nameplate writes what is described and, on the same line, what it is, folded
// at the width of the terminal.
func (a *app) nameplate(name, summary string) {
	width, _ := a.size(a.stdout)
	lines := wrap(name+" – "+summary, max(width, 24))
	first := strings.TrimPrefix(lines[0], name)
	fmt.Fprintln(a.stdout, a.style(a.stdout).paint(bold, name)+first)
	for _, line := range lines[1:] {
		fmt.Fprintln(a.stdout, line)
	}
	fmt.Fprintln(a.stdout)
}
