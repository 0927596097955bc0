package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"bakeoff/base/unit"
	"bakeoff/judge/compare"
	"bakeoff/judge/history"
	"bakeoff/publish/chart"
	"bakeoff/publish/chart/trend"
)

// HistoryText writes a history for a terminal: for each lab on each machine the steps in
// sentences, and each series as a curve. all shows series that are not primary too.
func HistoryText(w io.Writer, r history.Result, all bool, to Terminal) error {
	t := newTextWriter(nil, to)
	t.history(harmless(r), all)
	_, err := io.WriteString(w, t.out.String())
	return err
}

func (t *textWriter) history(r history.Result, all bool) {
	t.paintText("1", historyTitle(r))
	t.out.WriteString("\n")
	t.wrapped("", historyLead(r))
	for _, l := range r.Labs {
		t.out.WriteString("\n")
		t.paintText("1", l.Lab+" on "+machineText(l.Machine))
		t.out.WriteString("\n")
		t.wrapped("", historyAbout(r.By, l))
		for _, note := range l.Notes {
			t.wrapped("", note)
		}
		for _, caution := range l.Runs[len(l.Runs)-1].Cautions {
			t.wrapped("", "The newest run: "+caution)
		}
		shown := l.Primary()
		if all {
			shown = l.Series
		}
		for _, s := range shown {
			t.historySeries(r.By, l, s)
		}
		if hidden := hiddenSeries(l, shown); hidden != "" {
			t.out.WriteString("\n")
			t.wrapped("", hidden)
		}
	}
	for _, x := range r.Unread {
		t.wrapped("", "Not read: "+x.Folder+": "+x.Reason)
	}
}

func (t *textWriter) historySeries(by compare.By, l history.Lab, s history.Series) {
	t.out.WriteString("\n")
	t.paintText("1", seriesName(s))
	t.out.WriteString(", " + string(s.Better) + " is better\n")
	for _, x := range s.Steps {
		h := stepWords(l, s, x)
		t.wrapped("  ", h.Mark.Sign()+" "+strings.TrimPrefix(h.Claim, seriesName(s)+": ")+" "+h.Where+": "+h.Evidence+".")
		for _, c := range h.Coincides {
			t.wrapped("      ", c)
		}
		t.wrapped("      ", "evidence: "+l.Runs[x.Run].Folder)
	}
	if len(s.Steps) == 0 {
		t.wrapped("  ", "No step was found.")
	}
	t.wrapped("  ", levelText(by, l, s))
	if n := len(s.LeftOut); n > 0 {
		x := s.LeftOut[n-1]
		t.wrapped("  ", unit.Count(n, "run")+" not counted; the newest is "+l.Runs[x.Run].Run+": "+x.Reason)
	}
	t.drawTrend(TrendFigure(by, l, s))
}

// drawTrend draws a series: runs to the right, estimates up.
func (t *textWriter) drawTrend(f trend.Figure) {
	axis := trend.NewAxis(f)
	labels, up := axis.Ticks(4)
	edge := 0
	for _, l := range labels {
		edge = max(edge, utf8.RuneCountInString(l))
	}
	width := min(t.Width-edge-6, max(curveWidest, min(len(f.Names), 100)))
	if width < curveLeast || len(f.Points) == 0 {
		return
	}
	s := t.strokes()
	grid := make([][]rune, curveLines)
	for i := range grid {
		grid[i] = []rune(strings.Repeat(" ", width))
	}
	row := func(v float64) int { return curveLines - 1 - int(math.Round(axis.Up(v)*(curveLines-1))) }
	column := func(run int) int { return (2*run + 1) * width / (2 * max(len(f.Names), 1)) }
	if f.Band != nil {
		for _, v := range *f.Band {
			for x := 0; axis.Has(v) && x < width; x += 2 {
				grid[row(v)][x] = s.level
			}
		}
	}
	for _, x := range f.Steps {
		for y := range grid {
			grid[y][max(column(x.Run)-1, 0)] = s.bar
		}
	}
	for _, p := range f.Points {
		if chart.Known(p.Value) {
			grid[row(*p.Value)][column(p.Run)] = s.dot
		}
	}
	t.out.WriteString("\n")
	legend := fmt.Sprintf("%c run, %c step, %c margin", s.dot, s.bar, s.level)
	if f.Unitless() {
		legend += "; " + chart.NoUnit
	}
	t.wrapped("    ", legend)
	beside := map[int]string{}
	for i, l := range labels {
		beside[curveLines-1-int(math.Round(up[i]*(curveLines-1)))] = l
	}
	for i, line := range grid {
		fmt.Fprintf(&t.out, "    %s %c%s\n", padLeft(t.toTerminal(beside[i]), edge), s.edge,
			strings.TrimRight(string(line), " "))
	}
	fmt.Fprintf(&t.out, "    %s %c%s\n", strings.Repeat(" ", edge), s.corner, strings.Repeat(string(s.floor), width))
	first, last := f.Names[0], f.Names[len(f.Names)-1]
	gap := max(width-len(first)-len(last), 1)
	fmt.Fprintf(&t.out, "    %s  %s%s%s\n", strings.Repeat(" ", edge), first, strings.Repeat(" ", gap), last)
}
