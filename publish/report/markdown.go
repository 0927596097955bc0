package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/lab/store"
	"bakeoff/publish/difference"
)

// Markdown writes the answer of a run as a table for an issue or a pull request: the
// medians of both sides, the difference with its interval, the verdict, and which run it
// is. unplanned is how it differs from what it registered. It makes foreign text harmless.
func Markdown(w io.Writer, r analysis.Results, unplanned []string) error {
	e := &contents{results: r, unplanned: unplanned}
	e.own()
	e.tidy()
	return markdown(w, e)
}

// MarkdownOf writes the answer of the run in a folder as Markdown does. Errors are those of
// Write.
func MarkdownOf(w io.Writer, runDir string) error {
	run, err := store.Open(runDir)
	if err != nil {
		return fault.Op("report", err)
	}
	defer run.Close()
	e, err := load(run)
	if err != nil {
		return fault.Op("report", err)
	}
	return markdown(w, e)
}

func markdown(w io.Writer, e *contents) error {
	b := newBuilder(e)
	b.answer()
	var out strings.Builder
	fmt.Fprintf(&out, "**%s**: %s Ended: %s.\n\n", inline(b.page.Title), inline(b.page.Lead), inline(ending(e.results)))
	for _, u := range cut(e, "differences from the plan", e.unplanned, maxUnplanned) {
		fmt.Fprintf(&out, "**"+notAsPlanned+"** %s\n\n", inline(u))
	}
	for _, a := range b.page.Alarm {
		fmt.Fprintf(&out, "**%s** %s\n\n", distrust, inline(a))
	}
	for _, w := range b.page.Notice.Warnings {
		fmt.Fprintf(&out, "- **Warning:** %s\n", inline(w))
	}
	if len(b.page.Notice.Warnings) > 0 {
		out.WriteString("\n")
	}
	if len(b.page.Groups) > 0 {
		fmt.Fprintf(&out, "| %s |\n", strings.Join(lists.Map(b.verdictHead(), inline), " | "))
		out.WriteString("|---|---|---|--:|--:|--:|--:|--:|---|\n")
	}
	for _, g := range b.page.Groups {
		for _, row := range b.verdictRows(g, inline) {
			fmt.Fprintf(&out, "| %s |\n", strings.Join(row, " | "))
		}
	}
	if len(b.page.Groups) == 0 {
		out.WriteString(inline(b.page.NoVerdict) + "\n")
		b.markdownLone(&out)
	}
	for _, l := range e.results.Limits {
		fmt.Fprintf(&out, "\n- Tolerance %s, %s at %s, %s: %s%s", inline(l.Condition), inline(l.Contender), inline(l.Cell),
			inline(l.Metric), inline(string(l.Outcome)), inline(limitInterval(e.results, l)))
	}
	if len(e.results.Limits) > 0 {
		out.WriteString("\n")
	}
	for _, line := range b.markdownAbsent() {
		fmt.Fprintf(&out, "\n- %s", line)
	}
	if len(b.page.Absent) > 0 {
		out.WriteString("\n")
	}
	out.WriteString("\n" + inline(b.markdownNote()) + "\n")
	b.markdownWork(&out)
	_, err := io.WriteString(w, strings.ReplaceAll(out.String(), "\u00a0", " "))
	return err
}

// verdictHead names the columns of verdictRows.
func (b *builder) verdictHead() []string {
	return []string{"cell", "metric", "contender", b.results.Baseline + " median", "median", "difference",
		b.level() + "CI", "blocks", "verdict"}
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
			if s == nil || s.Median == nil || b.others() > 0 {
				continue
			}
			row := []string{inline(k.Name), inline(m.Name), inline(unit.Format(*s.Median, m.Unit)), unavailable, fmt.Sprint(s.N)}
			if s.CI[0] != nil && s.CI[1] != nil {
				lo, hi := unit.FormatBoth(*s.CI[0], *s.CI[1], m.Unit)
				row[3] = inline(lo + " to " + hi)
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
	fmt.Fprintf(out, "\n| cell | metric | %s median | CI | trials |\n|---|---|--:|--:|--:|\n", inline(b.results.Baseline))
	for _, row := range rows {
		fmt.Fprintf(out, "| %s |\n", strings.Join(row, " | "))
	}
}

// maxMarkdownWork bounds the rows of counters: a comment on GitHub has at most 65,536
// characters.
const maxMarkdownWork = 150

// markdownWork writes the counters for each unit of work, folded.
func (b *builder) markdownWork(out *strings.Builder) {
	rows, about := 0, "\n"+inline(workAbout)+"\n"
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
		cells := func(row []string) string { return strings.Join(lists.Map(row, inline), " | ") }
		fmt.Fprintf(out, "\n<details><summary>%s</summary>\n\n| %s |\n|---|---|--:|--:|--:|--:|\n", inline(t.Caption),
			cells(t.Head))
		for _, row := range t.Rows {
			fmt.Fprintf(out, "| %s |\n", cells(row))
		}
		fmt.Fprintf(out, "\n%s\n\n</details>\n", inline(t.Note))
	}
}

// markdownAbsent are the results that are missing outside of the table.
func (b *builder) markdownAbsent() []string {
	return lists.Map(b.page.Absent, func(s sentence) string { return s.Mark.Sign() + " " + inline(s.String()) })
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
func Inline(s string) string { return inline(s) }

func inline(s string) string { return inlineEscapes.Replace(s) }

// limitInterval is the interval from which the answer to a tolerance is read, and why it is
// not decided.
func limitInterval(r analysis.Results, l analysis.Limited) (out string) {
	for _, k := range r.Cells {
		for _, m := range k.Metrics {
			if k.Name == l.Cell && m.Name == l.Metric && (l.CI[0] != nil || l.CI[1] != nil) {
				out = " (" + difference.Of(m.Scale, m.Unit, l.CI[0], l.CI[1]).Between(l.CI[0], l.CI[1]) + ")"
			}
		}
	}
	if l.Reason != "" {
		out += "; " + l.Reason
	}
	return out
}
