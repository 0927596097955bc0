package audit

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"bakeoff/base/lazy"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
)

// TextOption says how Text writes.
type TextOption struct {
	Width  int  // columns, at least 40
	Colour bool // of a terminal (ECMA-48)
	ASCII  bool // no other characters of ours
}

// mark is what stands before an answer: the symbol repeats what the word says.
type mark struct{ symbol, ascii, colour string }

var marks = map[Support]mark{
	Supported:    {"✓", "+", "32"},
	NotSupported: {"○", "o", "33"},
	Contradicted: {"✗", "x", "31"},
	CannotTell:   {"?", "?", "33"},
}

// bullets stand before reasons: for, against, and limits.
var bullets = map[Weight]mark{
	Agrees:    {"+", "+", ""},
	Qualifies: {"·", "*", ""},
	Undoes:    {"−", "-", ""},
	Blinds:    {"−", "-", ""},
	Refutes:   {"−", "-", ""},
}

// Text writes r for eyes: the claims with their answers and reasons, then
// what was found of the whole table. Control characters in strangers' text
// are replaced.
func Text(w io.Writer, r Report, opt TextOption) error {
	p := &printer{w: bufio.NewWriter(w), TextOption: opt}
	p.Width = max(p.Width, 40)
	p.writeLine(p.paint("1", safetext.Line(r.Title)))
	p.wrapped("  ", "  ", published(r))
	for _, a := range r.Answers {
		m := marks[a.Support]
		p.blank()
		p.wrapped(p.paint(m.colour, p.chooseColour(m)+" "+string(a.Support)+":")+" ", "    ", a.Claim)
		for _, reason := range a.Reasons {
			p.wrapped("    "+p.chooseColour(bullets[reason.Weight])+" "+reason.Check+": ", "      ", reason.Text)
		}
	}
	if len(r.Findings) > 0 {
		p.writeTitle("The table as a whole")
	}
	for _, f := range r.Findings {
		p.wrapped("  ! "+f.Check+": ", "    ", f.Text)
	}
	if len(r.Assumed) > 0 {
		p.writeTitle("Not in the article")
	}
	for _, s := range r.Assumed {
		p.wrapped("  * ", "    ", s)
	}
	p.blank()
	p.writeLine(tallyAnswers(r))
	return p.w.Flush()
}

func published(r Report) string {
	s := r.File + ": " + r.Source.Title
	for _, part := range []string{r.Source.Author, r.Source.Date, r.Source.Part, r.Source.URL} {
		if part != "" {
			s += ", " + part
		}
	}
	return s
}

// tallyAnswers counts answers.
func tallyAnswers(r Report) string {
	var parts []string
	for _, v := range Supports {
		n := lists.Count(r.Answers, func(a Answer) bool { return a.Support == v })
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	if len(parts) == 0 {
		return "no claims"
	}
	return "claims: " + strings.Join(parts, ", ")
}

type printer struct {
	w *bufio.Writer
	TextOption
}

func (p *printer) chooseColour(m mark) string {
	if p.ASCII {
		return m.ascii
	}
	return m.symbol
}

func (p *printer) paint(colour, text string) string {
	if !p.Colour || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func (p *printer) blank() { p.w.WriteByte('\n') }

func (p *printer) writeLine(text string) { p.w.WriteString(text + "\n") }

func (p *printer) writeTitle(text string) { p.writeLine("\n" + p.paint("1", text)) }

// wrapped writes text after first, in lines of at most Width; rest indents
// all but the first. A longer word stays whole.
func (p *printer) wrapped(first, rest, text string) {
	line, used := first, visible(first)
	empty := true
	for _, word := range splitWords(text) {
		n := utf8.RuneCountInString(word)
		if !empty && used+1+n > p.Width {
			p.w.WriteString(line + "\n")
			line, used, empty = rest, visible(rest), true
		}
		if !empty {
			line, used = line+" ", used+1
		}
		line, used, empty = line+word, used+n, false
	}
	p.w.WriteString(line + "\n")
}

// splitWords splits text at spaces, but keeps a % with its number.
func splitWords(text string) (out []string) {
	for _, w := range strings.Fields(safetext.Text(text)) {
		if n := len(out); n > 0 && strings.Trim(w, "%,;:.)") == "" && strings.HasPrefix(w, "%") {
			out[n-1] += " " + w
			continue
		}
		out = append(out, w)
	}
	return out
}

// visible counts the columns of text without its colours.
func visible(s string) int {
	return utf8.RuneCountInString(colours.ReplaceAllString(s, ""))
}

var colours = lazy.Compile("\x1b[^m]*m")
