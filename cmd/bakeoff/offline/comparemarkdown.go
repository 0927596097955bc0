package offline

import (
	"fmt"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/judge/analysis"
	"bakeoff/judge/compare"
	"bakeoff/publish/difference"
	"bakeoff/publish/report"
)

// markdownOf is the comparison of two runs as a table for an issue or a pull request: the
// judged changes of primary metrics, and the smallest change that would have been found.
func markdownOf(r compare.Result) string {
	text := func(s string) string { return report.Inline(safetext.Line(s)) }
	var out strings.Builder
	fmt.Fprintf(&out, "**%s → %s**: %s change, margin %.4g %%.\n\n", text(r.Old), text(r.New),
		text(string(r.By)), 100*r.Margin)
	out.WriteString("| contender | cell | metric | old | new | change | verdict | smallest found | smallest " +
		"found beyond the margin |\n" +
		"|---|---|---|--:|--:|--:|---|--:|--:|\n")
	rows, yardstick := shownRows(r, false)
	if r.By == compare.Direct {
		rows = append(yardstick, rows...)
	}
	for _, x := range rows {
		c := x.Relative
		if r.By == compare.Direct {
			c = x.Direct
		}
		if c == nil {
			fmt.Fprintf(&out, "| %s | %s | %s | – | – | – | not compared: a run has no values | – | – |\n",
				text(x.Contender), text(x.Cell),
				text(x.Metric))
			continue
		}
		before, after := "–", "–"
		if r.By == compare.Direct {
			if both := strings.Split(bothValues(c, x.Unit), arrow); len(both) == 2 {
				before, after = both[0], both[1]
			}
		} else if c.Old != nil && c.New != nil {
			before, after = fmt.Sprintf("%.4g×", *c.Old), fmt.Sprintf("%.4g×", *c.New)
		}
		word, _ := changeWord(x, c, r.Margin)
		n := difference.Of(x.Scale, x.Unit, c.Smallest, c.SmallestBeyond)
		number := func(v *float64) string {
			if v == nil {
				return "–"
			}
			return n.Text(*v)
		}
		fmt.Fprintf(&out, "| %s |\n", strings.Join(lists.Map([]string{x.Contender, x.Cell, x.Metric, before, after,
			difference.Change(x.Scale, x.Unit, c.Ratio, c.CI[0], c.CI[1]), word, number(c.Smallest), number(c.SmallestBeyond)},
			text), " | "))
	}
	if out.WriteString("\n"); len(r.OnlyOld) > 0 {
		fmt.Fprintf(&out, "Only in the old run: %s.\n", text(strings.Join(r.OnlyOld, ", ")))
	}
	for _, w := range append([]string{r.Warning}, r.Warnings...) {
		fmt.Fprintf(&out, "- %s\n", text(w))
	}
	fmt.Fprintf(&out, "\nA true change of the size *smallest found* gets the verdict %s in half of such comparisons.\n",
		analysis.Worse)
	return strings.ReplaceAll(out.String(), "\u00a0", " ")
}
