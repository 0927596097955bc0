package main

import (
	"io"

	"golang.org/x/term"
)

// colour is an ANSI SGR code. Colours only ever repeat what a word says.
type colour string

const (
	bold   colour = "1"
	dim    colour = "2"
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
)

// style writes for one output.
type style struct{ coloured bool }

// style returns how to write to w: with colours on a terminal only, and
// never when NO_COLOR is set (https://no-color.org).
func (a *app) style(w io.Writer) style {
	return style{coloured: a.terminal(w) && a.env("NO_COLOR") == "" && a.env("TERM") != "dumb"}
}

func (s style) paint(c colour, text string) string {
	if !s.coloured || c == "" || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// terminal reports whether w is a terminal.
func (a *app) terminal(w io.Writer) bool {
	f, ok := file(w)
	return ok && term.IsTerminal(int(f.Fd()))
}

// width returns how many columns w has, 80 where that is not known.
func (a *app) size(w io.Writer) (columns, rows int) {
	if f, ok := file(w); ok {
		if c, r, err := term.GetSize(int(f.Fd())); err == nil && c > 0 && r > 0 {
			return c, r
		}
	}
	return 80, 24
}
