package report

import (
	"slices"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/judge/analysis"
	"bakeoff/publish/chart"
)

// absence is results that contenders lack at cells for one reason.
type absence struct {
	contenders, cells []string
	reason            string
}

// joinMissing joins missing cells: first those of a contender with the same reason, then
// contenders that lack the same cells. Otherwise a run that ended early would
// repeat the same sentence for every cell.
func joinMissing(missing []analysis.Missing) []absence {
	var each []absence
	for _, m := range missing {
		i := slices.IndexFunc(each, func(a absence) bool { return a.contenders[0] == m.Contender && a.reason == m.Reason })
		if i < 0 {
			each = append(each, absence{contenders: []string{m.Contender}, reason: m.Reason})
			i = len(each) - 1
		}
		each[i].cells = append(each[i].cells, m.Cell)
	}
	var out []absence
	for _, a := range each {
		i := slices.IndexFunc(out, func(o absence) bool { return o.reason == a.reason && slices.Equal(o.cells, a.cells) })
		if i < 0 {
			out = append(out, a)
			continue
		}
		out[i].contenders = append(out[i].contenders, a.contenders...)
	}
	return out
}

// missingSentences returns sentences for missing results that are not among the verdicts:
// of cells without a primary metric, and of the twin.
func (b *builder) missingSentences() (out []sentence) {
	shown := lists.Set(b.page.Groups, func(g group) string { return g.Cell })
	rest := lists.Filter(b.results.Missing, func(m analysis.Missing) bool {
		return !shown[m.Cell] || !b.compares(m.Contender)
	})
	for _, a := range joinMissing(rest) {
		verb := " has no result"
		if len(a.contenders) > 1 {
			verb = " have no result"
		}
		out = append(out, sentence{Mark: chart.Plain, Word: "missing", Claim: strings.Join(a.contenders, ", ") + verb,
			Where: " at " + strings.Join(a.cells, ", "), Evidence: shortReason(a.reason)})
	}
	return out
}
