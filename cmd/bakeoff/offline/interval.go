package offline

import (
	"math"
	"strings"
	"unicode/utf8"

	"bakeoff/base/safetext"
	"bakeoff/base/sample"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/analysis"
	"bakeoff/publish/difference"
)

// Layout is where the parts of a comparison's line stand.
type Layout struct {
	name    int // cells for contender, cell and metric
	medians int // cells for those of both sides; 0: no room
	bar     int // cells for the interval; 0: no room
	width   int
	all     difference.Summaries
}

// numberWidth is the room for "−12.3 % [−10.1 to +15.2 %] inconclusive".
const numberWidth = 40

// LayoutFor returns the layout of lines for comparisons of r. The bar leaves when the
// room is short, and then the medians.
func LayoutFor(r analysis.Results, cs []analysis.Comparison, columns int) Layout {
	l := Layout{width: columns, all: difference.Index(r.Summaries)}
	for _, c := range cs {
		l.name = max(l.name, utf8.RuneCountInString(comparisonName(c)))
		l.medians = max(l.medians, utf8.RuneCountInString(l.medianSides(c)))
	}
	l.name = min(l.name, max(columns-numberWidth-13, 16))
	if l.medians += 1; l.medians == 1 || columns-numberWidth-l.name-l.medians-2 < 0 {
		l.medians = 0
	}
	l.bar = min(columns-numberWidth-l.name-l.medians-2, 33)
	if l.bar < 9 {
		l.bar = 0
	} else if l.bar%2 == 0 {
		l.bar-- // zero has the middle cell
	}
	return l
}

// shownInterval is the interval to show: the one of the deciding look, or before that the
// interim one, which decides nothing.
func shownInterval(c analysis.Comparison) analysis.Interval {
	if c.CI[0] == nil && c.CI[1] == nil {
		return c.Interim
	}
	return c.CI
}

func comparisonName(c analysis.Comparison) string {
	return strings.Join(strings.Fields(c.Contender+" "+c.Cell+" "+c.Metric), " ")
}

// medianSides are the medians of a comparison: "23.8 ms → 24.1 ms".
func (l Layout) medianSides(c analysis.Comparison) string {
	baseline, contender := l.all.Sides(c)
	if baseline == "" {
		return ""
	}
	return strings.ReplaceAll(safetext.Line(baseline+" → "+contender), cli.Nbsp, " ")
}

// Head is the line above the comparisons.
func (l Layout) Head(baseline string) string {
	s := cli.Pad("against "+baseline, l.name)
	if l.medians > 0 {
		s += " " + cli.Pad("medians", l.medians-1)
	}
	if l.bar > 0 {
		axis := []rune(strings.Repeat(" ", l.bar))
		copy(axis, []rune("less"))
		axis[l.bar/2] = '0'
		copy(axis[l.bar-4:], []rune("more"))
		s += " " + string(axis)
	}
	return s + " change [interval]"
}

// Line is one comparison: name, medians, interval, numbers, verdict.
func (l Layout) Line(c analysis.Comparison, margin float64, st cli.Style) string {
	s := cli.Pad(comparisonName(c), l.name)
	if l.medians > 0 {
		s += " " + cli.Pad(l.medianSides(c), l.medians-1)
	}
	if l.bar > 0 {
		s += " " + intervalBar(c, margin, l.bar)
	}
	word, col := verdictText(c)
	ci := shownInterval(c)
	s += " " + difference.Change(c.Scale, c.Unit, c.Ratio, ci[0], ci[1])
	for _, text := range []string{word + analysis.Amount(c.BeyondMargin, margin), word} {
		if utf8.RuneCountInString(s)+1+utf8.RuneCountInString(text) <= l.width {
			return s + " " + st.Paint(col, text)
		}
	}
	return safetext.Clip(s, l.width)
}

// verdictText is the verdict in a word, with its color.
func verdictText(c analysis.Comparison) (string, cli.Color) {
	if IsDecided(c) {
		return verdictOf(c.Verdict)
	}
	if len(c.Gates) > 0 {
		return "inconclusive: " + c.Gates[0].Name, cli.Yellow
	}
	if c.Look == 0 {
		return "inconclusive", cli.Dim
	}
	return "inconclusive", cli.Yellow
}

// far is the change, as a logarithm of the ratio, at the ends of the bar: ten
// times more or less.
var far = math.Log(10)

// intervalBar draws an interval in width cells around zero. Its axis is linear
// near the margin and logarithmic beyond (asinh), so that both 1 % and a factor
// of five are visible. Dots mark the margin.
func intervalBar(c analysis.Comparison, margin float64, width int) string {
	cells := []rune(strings.Repeat(" ", width))
	scale := float64(analysis.RatioRegion(math.Max(margin, 0.001)))
	place := func(l float64) int {
		x := math.Asinh(l/scale) / math.Asinh(far/scale)
		return min(max(int(math.Round((x+1)/2*float64(width-1))), 0), width-1)
	}
	for i := place(-scale); i <= place(scale); i++ {
		cells[i] = '·'
	}
	cells[width/2] = '┊'
	if c.Scale == sample.Difference || c.Ratio == nil || !(*c.Ratio > 0) {
		return string(cells)
	}
	ci := shownInterval(c)
	lo, hi := 0, width-1
	if ci[0] != nil && *ci[0] > 0 {
		lo = place(math.Log(*ci[0]))
	}
	if ci[1] != nil && *ci[1] > 0 {
		hi = place(math.Log(*ci[1]))
	}
	for i := lo; i <= hi; i++ {
		cells[i] = '━'
	}
	cells[place(math.Log(*c.Ratio))] = '●'
	return string(cells)
}

// Decided counts the primary comparisons with a verdict other than
// inconclusive, and all primary comparisons.
func Decided(r analysis.Results) (decided, all int) {
	for _, c := range r.Comparisons {
		if !c.Primary {
			continue
		}
		all++
		if IsDecided(c) {
			decided++
		}
	}
	return decided, all
}

// IsDecided reports whether c has a verdict other than inconclusive.
func IsDecided(c analysis.Comparison) bool {
	return c.Verdict == analysis.Better || c.Verdict == analysis.Worse || c.Verdict == analysis.Equivalent
}
