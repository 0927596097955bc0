package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"bakeoff/analysis"
)

// printAnswer tells the results to a person: the twin first, then the
// verdicts, then what is missing.
func (a *app) printAnswer(r analysis.Results) {
	s := a.style(a.stdout)
	columns, _ := a.size(a.stdout)
	if !a.terminal(a.stdout) {
		columns = 110 // a log has no edge; names need not be cut
	}
	if r.Twin != nil && r.Twin.Different {
		text := "The twin of the baseline came out different from it: this machine was too unquiet for the verdicts below to be believed."
		fmt.Fprintln(a.stdout, s.paint(yellow, strings.Join(wrap(text, columns), "\n")))
	}
	line := fmt.Sprintf("%s: %d blocks", cmp.Or(r.Run, "all"), r.Blocks)
	if r.Void > 0 {
		line += fmt.Sprintf(", %d void", r.Void)
	}
	if r.Unused > 0 {
		line += fmt.Sprintf(", %d unused after the deciding look", r.Unused)
	}
	if r.Ended != "" {
		line += "; " + endText(r.Ended)
	}
	fmt.Fprintln(a.stdout, s.paint(bold, line))
	primary := slices.DeleteFunc(slices.Clone(r.Comparisons), func(c analysis.Comparison) bool { return !c.Primary })
	if len(primary) > 0 {
		l := layoutFor(primary, columns)
		fmt.Fprintln(a.stdout, s.paint(dim, strings.TrimRight(l.head(r.Baseline), " ")))
		for _, c := range primary {
			fmt.Fprintln(a.stdout, l.line(c, r.Margin, s))
		}
	}
	for _, c := range primary {
		a.explain(c)
	}
	for _, m := range r.Missing {
		fmt.Fprintf(a.stdout, "missing: %s at %s: %s\n", m.Contender, m.Cell, printable(m.Reason))
	}
	for _, w := range r.Warnings {
		fmt.Fprintln(a.stdout, "note: "+printable(w))
	}
}

// explain says why a primary comparison has no verdict.
func (a *app) explain(c analysis.Comparison) {
	if isDecided(c) {
		return
	}
	for _, g := range c.Gates {
		fmt.Fprintf(a.stdout, "gated: %s: %s, in %d of %d trials\n", comparisonName(c), printable(g.Reason), g.Trials, g.Of)
	}
	if c.MoreBlocks != nil && len(c.Gates) == 0 {
		fmt.Fprintf(a.stdout, "open: %s: some %d more blocks would decide it\n", comparisonName(c), *c.MoreBlocks)
	}
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
