package report

import (
	"fmt"
	"strings"
	"time"

	"bakeoff/base/safetext"
)

// citation is how to cite a run: a line for people, and an entry for BibTeX. Nobody
// knows the author.
type citation struct{ Line, BibTeX string }

// makeCitation makes the citation of a run.
func (b *builder) makeCitation() *citation {
	day := b.beginTime()
	if day.IsZero() {
		return nil
	}
	title := b.page.Title + ": " + strings.TrimSuffix(b.page.Lead, ".")
	version := ""
	if b.hasPlan && b.plan.Version != "" {
		version = " " + safetext.Clip(b.plan.Version, 60)
	}
	note := fmt.Sprintf("Run %s, seed %d", b.base, b.results.Seed)
	if b.results.PlanSHA256 != "" {
		note += ", SHA-256 of the plan " + safetext.Clip(b.results.PlanSHA256, 64)
	}
	return &citation{
		Line: fmt.Sprintf("%s. Measured by bakeoff%s, %s. %s.", title, version, day.Format("2 January 2006"), note),
		BibTeX: fmt.Sprintf("@misc{%s,\n  title        = {{%s}},\n  howpublished = {Run folder of bakeoff%s},\n"+
			"  year         = {%d},\n  month        = %s,\n  note         = {%s},\n}",
			Slug("bakeoff "+b.base), escapeTeX(title), escapeTeX(version), day.Year(), strings.ToLower(day.Format("Jan")),
			escapeTeX(note)),
	}
}

// beginTime is when the first line of the journal was written; zero without a journal.
func (b *builder) beginTime() (first time.Time) {
	for _, l := range b.lines {
		if !l.At.IsZero() && (first.IsZero() || l.At.Before(first)) {
			first = l.At.UTC()
		}
	}
	return first
}

// tex escapes text for a field of BibTeX.
var texEscapes = strings.NewReplacer(`\`, `\textbackslash `, "{", `\{`, "}", `\}`, "$", `\$`, "&", `\&`, "#", `\#`,
	"%", `\%`, "_", `\_`, "~", `\textasciitilde `, "^", `\textasciicircum `, "\n", " ")

func escapeTeX(s string) string { return texEscapes.Replace(s) }
