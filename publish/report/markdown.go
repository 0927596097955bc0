package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/publish/difference"
)

func writeMarkdown(w io.Writer, e *contents, _ Option) error {
	b := answered(e)
	var out strings.Builder
	fmt.Fprintf(&out, "**%s**: %s Ended: %s.\n\n", escapeInline(b.page.Title), escapeInline(b.page.Lead),
		escapeInline(endingText(e.results)))
	for _, u := range cutList(e, "differences from the plan", e.unplanned, maxUnplanned) {
		fmt.Fprintf(&out, "**"+notAsPlanned+"** %s\n\n", escapeInline(u))
	}
	for _, a := range b.page.Alarm {
		fmt.Fprintf(&out, "**%s** %s\n\n", distrust, escapeInline(a))
	}
	for _, w := range b.page.Notice.Warnings {
		fmt.Fprintf(&out, "- **Warning:** %s\n", escapeInline(w))
	}
	if len(b.page.Notice.Warnings) > 0 {
		out.WriteString("\n")
	}
	if len(b.page.Groups) > 0 {
		fmt.Fprintf(&out, "| %s |\n", strings.Join(lists.Map(b.verdictHead(), escapeInline), " | "))
		out.WriteString("|---|---|---|--:|--:|--:|--:|--:|---|\n")
	}
	for _, g := range b.page.Groups {
		for _, row := range b.verdictRows(g, escapeInline) {
			fmt.Fprintf(&out, "| %s |\n", strings.Join(row, " | "))
		}
	}
	if len(b.page.Groups) == 0 {
		out.WriteString(escapeInline(b.page.NoVerdict) + "\n")
		b.markdownLone(&out)
	}
	for _, items := range [][]sentence{b.page.Tolerances, b.page.Absent} {
		for _, s := range items {
			fmt.Fprintf(&out, "\n- %s %s", s.Mark.Sign(), escapeInline(s.String()))
		}
		if len(items) > 0 {
			out.WriteString("\n")
		}
	}
	for i, line := range b.results.Geomeans {
		if i == 0 {
			out.WriteString("\n")
		}
		fmt.Fprintf(&out, "- %s\n", escapeInline(geomeanSentence(line)))
	}
	out.WriteString("\n" + escapeInline(b.markdownNote()) + "\n")
	b.markdownWork(&out)
	_, err := io.WriteString(w, strings.ReplaceAll(out.String(), "\u00a0", " "))
	return err
}

// verdictHead names the columns of verdictRows.
func (b *builder) verdictHead() []string {
	return []string{"cell", "metric", "contender", b.results.Baseline + " median", "median", "difference",
		b.intervalLevel() + "CI", "blocks", "verdict"}
}

// verdictRows are the comparisons of a group, and its missing results. inline escapes text.
func (b *builder) verdictRows(g group, inline func(string) string) (rows [][]string) {
	cs := b.primary(g.Cell, g.Metric)
	for _, s := range g.Items {
		row := []string{inline(g.Cell), inline(g.Metric), inline(s.Contender), "–", "–", unavailable, unavailable, "–",
			s.Mark.Sign() + " " + s.Word}
		if i := slices.IndexFunc(cs, func(c analysis.Comparison) bool { return c.Contender == s.Contender }); i >= 0 {
			c := cs[i]
			if baseline, contender := b.summaries.Sides(c); baseline != "" {
				row[3], row[4] = inline(baseline), inline(contender)
			}
			row[5], row[6] = comparedWords(c)
			if c.Exact != nil {
				row[6] = inline("exact: " + difference.Amount(c.Exact.Difference, c.Unit))
			}
			if interim(c) && row[6] != unavailable {
				row[6] += " (interim)"
			}
			row[7] = fmt.Sprint(c.Blocks)
			if s.Word == "better" || s.Word == "worse" {
				row[8] += analysis.Amount(c.BeyondMargin, b.results.Margin)
			}
			for _, f := range s.Failed {
				row[8] += ": " + inline(f.Name)
			}
			for _, more := range []string{b.failures(c), c.Caveat} {
				if more != "" {
					row[8] += "; " + inline(more)
				}
			}
		} else if s.Evidence != "" {
			row[8] += ": " + inline(s.Evidence)
		}
		rows = append(rows, row)
	}
	return rows
}

// markdownLone writes the values of the baseline of a run that compares it with nothing.
func (b *builder) markdownLone(out *strings.Builder) {
	var rows [][]string
	for _, k := range b.results.Cells {
		for _, m := range k.Metrics {
			s := b.summaries[[3]string{b.results.Baseline, k.Name, m.Name}]
			if s == nil || s.Median == nil || b.countOthers() > 0 {
				continue
			}
			row := []string{escapeInline(k.Name), escapeInline(m.Name), escapeInline(unit.Format(*s.Median, m.Unit)),
				unavailable, fmt.Sprint(s.N)}
			if s.CI[0] != nil && s.CI[1] != nil {
				lo, hi := unit.FormatBoth(*s.CI[0], *s.CI[1], m.Unit)
				row[3] = escapeInline(lo + " to " + hi)
			}
			if s.Failures > 0 {
				row[4] += fmt.Sprintf(", %d failed", s.Failures)
			}
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(out, "\n| cell | metric | %s median | CI | trials |\n|---|---|--:|--:|--:|\n",
		escapeInline(b.results.Baseline))
	for _, row := range rows {
		fmt.Fprintf(out, "| %s |\n", strings.Join(row, " | "))
	}
}

// maxMarkdownWork bounds the rows of counters: a comment on GitHub has at most 65,536
// characters.
const maxMarkdownWork = 150

// markdownWork writes the counters for each unit of work, folded.
func (b *builder) markdownWork(out *strings.Builder) {
	rows, about := 0, "\n"+escapeInline(workAbout)+"\n"
	for _, k := range b.results.Cells {
		t, _ := b.perWork(k)
		if rows += len(t.Rows); len(t.Rows) == 0 {
			continue
		}
		if rows > maxMarkdownWork {
			fmt.Fprintf(out, "\nThe page has the counters of further cells.\n")
			return
		}
		out.WriteString(about)
		about = ""
		cells := func(row []string) string { return strings.Join(lists.Map(row, escapeInline), " | ") }
		fmt.Fprintf(out, "\n<details><summary>%s</summary>\n\n| %s |\n|---|---|--:|--:|--:|--:|\n", escapeInline(t.Caption),
			cells(t.Head))
		for _, row := range t.Rows {
			fmt.Fprintf(out, "| %s |\n", cells(row))
		}
		fmt.Fprintf(out, "\n%s\n\n</details>\n", escapeInline(t.Note))
	}
}

// markdownNote is what the verdicts mean, what the twin says, and which run this is.
func (b *builder) markdownNote() string {
	r := &b.results
	note := b.promise() + "."
	for _, s := range []string{b.page.Notice.Twin, b.page.Notice.Scope} {
		note += strings.TrimSuffix(" "+s, " ")
	}
	note += " " + difference.Rule + fmt.Sprintf(" Run %s, seed %d", r.Run, r.Seed)
	if r.PlanSHA256 != "" {
		note += ", plan sha256 " + safetext.Clip(r.PlanSHA256, 64)
	}
	return note + "."
}

// inline escapes what has a meaning in a line or in a cell of Markdown, and what would
// notify a person.
var inlineEscapes = strings.NewReplacer(`\`, `\\`, "|", `\|`, "`", "\\`", "*", `\*`, "_", `\_`, "~", `\~`, "[", `\[`,
	"]", `\]`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "#", `\#`, "@", "&#64;", "\n", " ")

// Inline escapes text for a line or a cell of Markdown. It does not replace what is
// harmful to a terminal: use safetext first.
func Inline(s string) string { return escapeInline(s) }

func escapeInline(s string) string { return inlineEscapes.Replace(s) }
