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

// table is aligned text for eyes. The last column may be long: it is wrapped
// to the width, under its own start.
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

// print writes the table, at most width columns wide where its fields allow.
func (t *table) print(w io.Writer, s style, width int) {
	widths := make([]int, len(t.head))
	for i, h := range t.head {
		widths[i] = utf8.RuneCountInString(h)
	}
	for _, r := range t.rows {
		for i, c := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	var head []cell
	for _, h := range t.head {
		head = append(head, cell{h, bold})
	}
	for _, r := range append([][]cell{head}, t.rows...) {
		printRow(w, s, r, widths, width)
	}
}

func printRow(w io.Writer, s style, row []cell, widths []int, width int) {
	indent := 0
	last := len(widths) - 1
	for i, c := range row {
		if i < last {
			pad := widths[i] - utf8.RuneCountInString(c.text) + 2
			fmt.Fprint(w, s.paint(c.colour, c.text), strings.Repeat(" ", pad))
			indent += widths[i] + 2
			continue
		}
		lines := wrap(c.text, max(width-indent, 24))
		for n, line := range lines {
			if n > 0 {
				fmt.Fprint(w, strings.Repeat(" ", indent))
			}
			fmt.Fprintln(w, s.paint(c.colour, line))
		}
	}
}

// wrap breaks text at spaces into lines of at most width runes; a longer word
// stays whole.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
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
