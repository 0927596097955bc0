package offline

import (
	"fmt"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/judge/series"
	"bakeoff/publish/report"
)

// inlineText makes foreign text harmless in Markdown.
func inlineText(s string) string { return report.Inline(safetext.Line(s)) }

// markdownRow is a row of a table.
func markdownRow(cells []string) string {
	return "| " + strings.Join(lists.Map(cells, inlineText), " | ") + " |\n"
}

// markdownSeries is a comparison of series as tables for an issue or a pull request,
// with all of its warnings.
func markdownSeries(r series.Result, sort string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "**%s**\n\n", inlineText(sourceText(r)))
	if len(r.Comparisons) > 0 {
		fmt.Fprintf(&out, "**No verdict.** %s\n\n", inlineText(firstWarning(r)))
	}
	tables := tablesOf(r)
	for i, metric := range tables {
		head, rows, notes := seriesRows(r, metric, sort)
		fmt.Fprintf(&out, "%s:\n\n", inlineText(metric.tableTitle()))
		out.WriteString(markdownRow(lists.Map(head, strings.ToLower)))
		out.WriteString("|" + strings.Repeat("---|", len(head)) + "\n")
		for _, row := range rows {
			out.WriteString(markdownRow(row))
		}
		out.WriteString("\n")
		for _, n := range notes {
			fmt.Fprintf(&out, "- %s\n", inlineText(n))
		}
		if len(notes) > 0 && i < len(tables)-1 {
			out.WriteString("\n") // otherwise the next title continues the last note
		}
	}
	for _, m := range r.Missing {
		fmt.Fprintf(&out, "- missing: %s at %s: %s\n", inlineText(m.Contender), inlineText(m.Cell), inlineText(m.Reason))
	}
	for _, d := range r.Differences {
		values := lists.Map(d.Values, func(v series.Value) string { return v.Contender + ": " + v.Value })
		fmt.Fprintf(&out, "- differs: %s: %s\n", inlineText(d.Fact), inlineText(strings.Join(values, "; ")))
	}
	for _, text := range append(orderTexts(r), r.Warnings...) {
		fmt.Fprintf(&out, "- %s\n", inlineText(text))
	}
	fmt.Fprintf(&out, "\n%s\n", inlineText(lastNote(r)))
	return strings.ReplaceAll(out.String(), "\u00a0", " ")
}
