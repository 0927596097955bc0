package main

import (
	"cmp"
	"io"
	"strings"

	"bakeoff/judge/analysis"
	"bakeoff/publish/report"
)

// logWidth is for output that is no terminal: it has no edge.
const logWidth = 110

// printAnswer tells the results to a person.
func (a *app) printAnswer(r analysis.Results, page string) error {
	opt := report.TextOption{Width: logWidth, Colour: a.style(a.stdout).coloured, ASCII: a.ascii(), Page: page}
	if a.terminal(a.stdout) {
		opt.Width, _ = a.size(a.stdout)
	}
	return report.Text(a.stdout, r, opt)
}

// ascii reports whether the locale says that output is not UTF-8 (locale(7)).
// Where nothing is said, as in most containers, terminals are UTF-8 today.
func (a *app) ascii() bool {
	locale := strings.ToLower(cmp.Or(a.env("LC_ALL"), a.env("LC_CTYPE"), a.env("LANG")))
	return locale != "" && !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8")
}

// inert writes lines to a terminal as printable has them: what goes to a file
// or a pipe keeps every byte.
type inert struct{ out io.Writer }

func (i inert) Write(p []byte) (int, error) {
	for line := range strings.SplitAfterSeq(string(p), "\n") {
		text, ended := strings.CutSuffix(line, "\n")
		if ended {
			text = printable(text) + "\n"
		} else {
			text = printable(text)
		}
		if _, err := io.WriteString(i.out, text); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// printable takes control characters out of text that strangers may have
// written, so that it cannot command a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n':
			return ' '
		case r < 0x20 || r >= 0x7f && r < 0xa0:
			return '\uFFFD'
		}
		return r
	}, s)
}
