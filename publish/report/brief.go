package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/judge/stats"
	"bakeoff/publish/chart"
	"bakeoff/publish/chart/percent"
	"bakeoff/publish/difference"
)

func writeBrief(w io.Writer, e *contents, opt Option) error {
	t := newTextWriter(newBuilder(e), opt.Terminal)
	t.judgeRun()
	t.writeAlarms()
	if len(t.page.Groups) == 0 {
		t.writeAlone()
	}
	for i, g := range t.page.Groups {
		if i > 0 {
			t.out.WriteString("\n")
		}
		t.drawPanel(g)
		t.explainOpen(g)
		t.writeCurves(g)
	}
	t.writeSentences(t.page.Tolerances)
	if t.results.Ended != analysis.EndedDecided {
		t.wrapped("", "Ended: "+endingText(t.results)+".")
	}
	t.closing()
	_, err := io.WriteString(w, t.out.String())
	return err
}

// briefRow is a line of a panel.
type briefRow struct {
	mark                         chart.Mark
	name, median, change, remark string
	bar                          *percent.Row // nil without an interval
}

// drawPanel draws the contenders of one cell and metric below each other.
func (t *textWriter) drawPanel(g group) {
	t.paintText("1", g.Cell+" "+g.Metric)
	t.out.WriteString(", " + g.Direction + ", " + t.blocksOf(g) + "\n")
	rows := t.panelRows(g)
	var bars []percent.Row
	name, median, change, remark := 0, 0, 0, 0
	for i, r := range rows {
		if t.ASCII {
			r.name, r.median, r.change, r.remark = toASCII(r.name), toASCII(r.median), toASCII(r.change), toASCII(r.remark)
			rows[i] = r
		}
		if r.bar != nil {
			bars = append(bars, *r.bar)
		}
		name, median = max(name, utf8.RuneCountInString(r.name)), max(median, utf8.RuneCountInString(r.median))
		change, remark = max(change, utf8.RuneCountInString(r.change)), max(remark, utf8.RuneCountInString(r.remark))
	}
	if over := name + median + change + remark + 8 - t.Width; over > 0 {
		name = max(name-over, 8)
	}
	narrow := name+median+change+remark+8 > t.Width // differences get a line of their own
	room := min(t.Width-name-median-change-remark-10, 41)
	if len(bars) == 0 || room < 11 || narrow {
		room = -2
	}
	axis := percent.NewAxis(t.results.Margin, bars...)
	if room > 0 {
		t.directions(g, name+median+6, room)
	}
	for _, r := range rows {
		sign := r.mark.Sign()
		if r.remark == baselineRemark {
			sign = " "
		}
		if t.ASCII {
			sign = toASCII(sign)
		}
		t.paintText(colors[r.mark], padTo(sign, 1))
		t.out.WriteString(" " + padTo(keepEnds(r.name, name), name) + "  " +
			strings.Repeat(" ", median-utf8.RuneCountInString(r.median)) +
			r.median + "  ")
		if room > 0 {
			bar := strings.Repeat(" ", room)
			if r.bar != nil {
				bar = t.drawInterval(axis, *r.bar, room)
			}
			t.paintText(colors[r.mark], bar)
			t.out.WriteString("  ")
		}
		if r.change != "" && !narrow {
			t.out.WriteString(padTo(r.change, change) + "  ")
		}
		t.paintText(colors[r.mark], r.remark)
		t.out.WriteString("\n")
		if r.change != "" && narrow {
			t.out.WriteString("    " + r.change + "\n")
		}
	}
}

// blocksOf is the number of blocks of a run, and how many of them decide: a verdict is that
// of a look, and blocks after the last one have none.
func (t *textWriter) blocksOf(g group) string {
	out := unit.Count(t.results.Blocks, "block")
	least, most := math.MaxInt, 0
	for _, c := range t.primary(g.Cell, g.Metric) {
		if c.Look > 0 {
			least, most = min(least, c.Look), max(most, c.Look)
		}
	}
	switch {
	case most == 0, least == most && most >= t.results.Blocks:
		return out
	case least == most:
		return fmt.Sprintf("%s; verdicts from the first %d", out, most)
	}
	return fmt.Sprintf("%s; verdicts from the first %d to %d", out, least, most)
}

// directions writes what the sides of the bars mean above them.
func (t *textWriter) directions(g group, indent, room int) {
	c := t.primary(g.Cell, g.Metric)[0]
	w := difference.Speak(c.Metric, c.Unit, c.Better)
	left, right := "← "+w.Less, w.More+" →"
	if t.ASCII {
		left, right = toASCII(left), toASCII(right)
	}
	gap := max(room-utf8.RuneCountInString(left)-utf8.RuneCountInString(right), 1)
	t.paintText("2", strings.Repeat(" ", indent)+left+strings.Repeat(" ", gap)+right+"\n")
}

// baselineRemark stands where the others have their verdict.
const baselineRemark = "baseline"

// nameWidth is the room for the name of a contender.
const nameWidth = 24

// panelRows are the baseline, the comparisons with it, and the contenders without a
// result.
func (t *textWriter) panelRows(g group) []briefRow {
	median := func(contender, unitName string) string {
		s := t.summaries[[3]string{contender, g.Cell, g.Metric}]
		if s == nil || s.Median == nil {
			return "–"
		}
		return unit.Format(*s.Median, unitName)
	}
	var out []briefRow
	for i, c := range t.primary(g.Cell, g.Metric) {
		if i == 0 {
			out = append(out, briefRow{mark: chart.Plain, name: keepEnds(c.Baseline, nameWidth), median: median(c.Baseline,
				c.Unit),
				remark: baselineRemark})
		}
		r := briefRow{name: keepEnds(c.Contender, nameWidth), median: median(c.Contender, c.Unit), change: changeText(c)}
		r.mark, r.remark = markAndWord(c)
		if bar := percentRow(c); c.Scale != sample.Difference && (bar.Value != nil || bar.Lo != nil || bar.Hi != nil) {
			r.bar = &bar
		}
		if r.remark == checkFailed {
			r.remark = "check failed"
		}
		out = append(out, r)
	}
	for _, s := range t.missingAt(g.Cell) {
		out = append(out, briefRow{mark: s.Mark, name: keepEnds(s.Contender, nameWidth), remark: s.Word})
	}
	return out
}

// changeText is a difference with its interval: "+6.4 % [+5.1 to +7.8 %]".
func changeText(c analysis.Comparison) string {
	v := usableOrNil(c.Ratio, c.Scale)
	lo, hi := boundsToShow(c)
	n := difference.Of(c.Scale, c.Unit, v, lo, hi)
	switch {
	case lo == nil && hi == nil:
		return shortDifference(c)
	case v == nil:
		return n.Between(lo, hi)
	}
	return difference.Speak(c.Metric, c.Unit, c.Better).Change(c.Scale, c.Unit, v, lo, hi)
}

// maxOpen is the number of explanations below a panel; the page has all.
const maxOpen = 6

// explainOpen explains below a panel which comparisons have no verdict, and which failed.
func (t *textWriter) explainOpen(g group) {
	var lines []string
	for _, c := range t.primary(g.Cell, g.Metric) {
		_, word := markAndWord(c)
		var parts []string
		if word == checkFailed {
			for _, gate := range c.Gates {
				parts = append(parts, "check "+gate.Name+" failed"+failureReason(gate))
			}
		}
		if word == "inconclusive" && c.MoreBlocks != nil && *c.MoreBlocks > 0 {
			parts = append(parts, fmt.Sprintf("about %s would decide it with %.0f %% probability",
				unit.Count(*c.MoreBlocks, "more block"), 100*stats.Likely))
		}
		if len(parts) > 0 {
			lines = append(lines, c.Contender+": "+strings.Join(parts, "; ")+".")
		}
		if failed := t.failures(c); failed != "" {
			lines = append(lines, failed+".")
		}
	}
	for _, s := range t.missingAt(g.Cell) {
		lines = append(lines, s.String())
	}
	if g.Contrary != "" {
		lines = append(lines, g.Contrary)
	}
	for i, line := range lines {
		if i == maxOpen {
			t.wrapped("  ", fmt.Sprintf("… and %d more; see the page.", len(lines)-i))
			break
		}
		t.wrapped("  ", line)
	}
}

// writeAlone writes the metrics of a run without comparisons.
func (t *textWriter) writeAlone() {
	for _, k := range t.results.Cells {
		t.paintText("1", t.results.Baseline+" at "+k.Name)
		why := "there is no other contender to compare it with"
		if t.countOthers() > 0 {
			why = "no comparison has a result"
		}
		t.out.WriteString(", " + unit.Count(t.results.Blocks, "block") + "; " + why + "\n")
		for _, m := range k.Metrics {
			s := t.summaries[[3]string{t.results.Baseline, k.Name, m.Name}]
			if s == nil || s.Median == nil {
				continue
			}
			line := padTo(keepEnds(m.Name, nameWidth), 14) + " " + unit.Format(*s.Median, m.Unit)
			if s.CI[0] != nil && s.CI[1] != nil {
				lo, hi := unit.FormatBoth(*s.CI[0], *s.CI[1], m.Unit)
				line += " [" + lo + " to " + hi + "]"
			}
			if t.ASCII {
				line = toASCII(line)
			}
			line += ", " + unit.Count(s.N, "trial")
			if s.Deterministic {
				line += ", deterministic"
			}
			t.out.WriteString("  " + line + "\n")
		}
		for _, s := range t.results.Summaries {
			if s.Contender == t.results.Baseline && s.Cell == k.Name && s.Failures > 0 {
				t.wrapped("  ", fmt.Sprintf("%d of %s failed.", s.Failures, unit.Count(s.N+s.Failures, "trial")))
				break
			}
		}
	}
}
