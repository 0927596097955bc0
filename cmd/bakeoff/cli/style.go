package cli

import (
	"io"

	"golang.org/x/term"
)

// Color is an ANSI SGR code. Colors only repeat a word.
type Color string

// The colors that are used.
const (
	Bold   Color = "1"
	Dim    Color = "2"
	Red    Color = "31"
	Green  Color = "32"
	Yellow Color = "33"
)

// Style is how text is written to one output.
type Style struct{ Colored bool }

// Style returns how to write to w: with colors on a terminal only, and never
// when NO_COLOR is set (https://no-color.org).
func (s *Streams) Style(w io.Writer) Style {
	return Style{Colored: s.Terminal(w) && s.Env("NO_COLOR") == "" && s.Env("TERM") != "dumb"}
}

// Paint returns text in a color, "" for none.
func (s Style) Paint(c Color, text string) string {
	if !s.Colored || c == "" || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// Terminal reports whether w is a terminal.
func (*Streams) Terminal(w io.Writer) bool {
	f, ok := fileOf(w)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Size returns how many columns and rows w has, 80 and 24 where that is not
// known.
func (*Streams) Size(w io.Writer) (columns, rows int) {
	if f, ok := fileOf(w); ok {
		if c, r, err := term.GetSize(int(f.Fd())); err == nil && c > 0 && r > 0 {
			return c, r
		}
	}
	return 80, 24
}
