package report

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"

	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/publish/chart"
)

func writeBadge(w io.Writer, e *contents, _ Option) error {
	b := answered(e)
	text, color := b.badgeText()
	_, err := io.WriteString(w, drawBadge("bakeoff", text, color, b.page.Notice))
	return err
}

// The grounds of badges. White text has a contrast of 4.5 to 1 at least on each.
const (
	badgeName  = "#3d464e"
	badgeAlarm = "#a3120a"
	badgePlain = "#566069"
)

var badgeColors = map[chart.Mark]string{chart.Better: "#1c5690", chart.Worse: "#9c430f", chart.Same: "#32624a"}

// badgeText is what a badge says, and its color: that of the worst verdict that there is.
func (b *builder) badgeText() (text, color string) {
	switch {
	case b.results.Twin != nil && b.results.Twin.Different:
		return "do not trust: the twin differs", badgeAlarm
	case len(b.unplanned) > 0:
		return "not as planned", badgeAlarm
	case len(b.page.Tally) == 0:
		return "no verdict", badgePlain
	}
	var words []string
	color = badgePlain
	has := map[chart.Mark]bool{}
	for _, t := range b.page.Tally {
		words = append(words, fmt.Sprintf("%d %s", t.Count, t.Word))
		has[t.Mark] = true
	}
	for _, m := range []chart.Mark{chart.Better, chart.Same, chart.Worse} {
		if has[m] {
			color = badgeColors[m]
		}
	}
	if b.results.Ended == "" || b.results.Ended == analysis.EndedInterrupted {
		words = append(words, "unfinished")
	}
	if n := len(b.page.Notice.Warnings); n > 0 {
		words = append(words, unit.Count(n, "warning"))
	}
	return strings.Join(words, ", "), color
}

// drawBadge draws a badge.
func drawBadge(name, text, color string, notice Notice) string {
	const height, pad = 20.0, 7.0
	left := math.Ceil(chart.TextWidth(name)) + 2*pad
	width := left + math.Ceil(chart.TextWidth(text)) + 2*pad
	name, text = html.EscapeString(name), html.EscapeString(text)
	about := html.EscapeString(strings.Join(notice.Lines(), " "))
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" viewBox="0 0 %g %g" role="img" `+
		`aria-labelledby="bakeoff-badge"><title id="bakeoff-badge">%s: %s</title>`+
		`<desc>%s</desc>`+
		`<rect width="%g" height="%g" rx="3" fill="%s"/><rect x="%g" width="%g" height="%g" rx="3" fill="%s"/>`+
		`<rect x="%g" width="6" height="%g" fill="%s"/><g fill="#ffffff" font-family="system-ui, sans-serif" `+
		`font-size="12.5"><text x="%g" y="14.5">%s</text><text x="%g" y="14.5">%s</text></g></svg>`+"\n",
		width, height, width, height, name, text, about,
		width, height, badgeName, left, width-left, height, color,
		left, height, color, pad, name, left+pad, text)
}
