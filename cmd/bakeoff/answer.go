package main

import (
	"cmp"
	"io"
	"strings"

	"bakeoff/base/safetext"
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

// inert makes foreign text harmless for a terminal. What goes to a file or a
// pipe keeps every byte.
type inert struct{ out io.Writer }

func (i inert) Write(p []byte) (int, error) {
	if _, err := io.WriteString(i.out, safetext.Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
