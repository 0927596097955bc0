// Package cli is what the commands of bakeoff share: streams, colors, tables,
// usage errors and exit codes.
package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"bakeoff/base/safetext"
)

// Streams are the standard streams and the environment of one command line.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) string
}

// NewStreams returns streams that remember the first failed write; Finish
// reports it.
func NewStreams(in io.Reader, out, err io.Writer, env func(string) string) *Streams {
	return &Streams{In: in, Out: &output{w: out}, Err: &output{w: err}, Env: env}
}

// PrintJSON writes v as one line of JSON.
func (s *Streams) PrintJSON(v any) error {
	enc := json.NewEncoder(s.Out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// LogWidth is the width of text if the output is not a terminal, which would have a width.
const LogWidth = 110

// TextWidth is the width of running text on standard output.
func (s *Streams) TextWidth() int {
	if s.Terminal(s.Out) {
		columns, _ := s.Size(s.Out)
		return columns
	}
	return LogWidth
}

// ASCII reports whether the locale is not UTF-8 (locale(7)). Where no locale is
// set, as in most containers, terminals are UTF-8 today.
func (s *Streams) ASCII() bool {
	locale := strings.ToLower(cmp.Or(s.Env("LC_ALL"), s.Env("LC_CTYPE"), s.Env("LANG")))
	return locale != "" && !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8")
}

// Fold writes text, folded at the width of running text. Spaces at its beginning indent all
// lines.
func (s *Streams) Fold(c Color, text string) {
	for _, line := range Wrap(text, s.TextWidth()) {
		fmt.Fprintln(s.Out, s.Style(s.Out).Paint(c, line))
	}
}

// PrintText writes a table with its head, folded at the width of running text.
func (s *Streams) PrintText(t Table) { t.Print(s.Out, s.Style(s.Out), s.TextWidth()) }

// Heading writes a heading after an empty line.
func (s *Streams) Heading(text string) {
	fmt.Fprintln(s.Out, "\n"+s.Style(s.Out).Paint(Bold, text))
}

// Print writes a table with its head, folded at the width of the terminal.
func (s *Streams) Print(t Table) {
	columns, _ := s.Size(s.Out)
	t.Print(s.Out, s.Style(s.Out), columns)
}

// unfolded is wider than any table.
const unfolded = 1 << 20

// PrintWide writes a table, whose head may be absent, without folding it: its fields are
// copied into command lines.
func (s *Streams) PrintWide(t Table) {
	if t.Head == nil {
		printRows(s.Out, s.Style(s.Out), t.Rows, unfolded, false)
		return
	}
	t.Print(s.Out, s.Style(s.Out), unfolded)
}

// PrintBody writes a table without its head, and without rows whose last cell
// is empty.
func (s *Streams) PrintBody(t Table) {
	columns, _ := s.Size(s.Out)
	t.printBody(s.Out, s.Style(s.Out), columns)
}

// Paragraph writes text, two cells in, folded at the width of the terminal.
func (s *Streams) Paragraph(c Color, text string) {
	columns, _ := s.Size(s.Out)
	for _, line := range Wrap("  "+text, max(columns, leastWidth)) {
		fmt.Fprintln(s.Out, s.Style(s.Out).Paint(c, line))
	}
}

// Nameplate writes a name and, on the same line, a summary of it, folded at the
// width of the terminal.
func (s *Streams) Nameplate(name, summary string) {
	columns, _ := s.Size(s.Out)
	lines := Wrap(name+" – "+summary, max(columns, leastWidth))
	first := strings.TrimPrefix(lines[0], name)
	fmt.Fprintln(s.Out, s.Style(s.Out).Paint(Bold, name)+first)
	for _, line := range lines[1:] {
		fmt.Fprintln(s.Out, line)
	}
	fmt.Fprintln(s.Out)
}

// Pad returns s with exactly n cells.
func Pad(s string, n int) string {
	s = safetext.Clip(s, n)
	return s + strings.Repeat(" ", n-countCells(s))
}
