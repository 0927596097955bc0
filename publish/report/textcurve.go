package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"bakeoff/publish/chart"
	"bakeoff/publish/chart/curve"
)

// The size of a curve in a terminal.
const (
	curveLines  = 10
	curveWidest = 60 // columns
	curveLeast  = 16
)

// writeCurves draws the sweeps of a group.
func (t *textWriter) writeCurves(g group) {
	for _, k := range t.results.Cells {
		for _, m := range k.Metrics {
			if k.Name != g.Cell || m.Name != g.Metric {
				continue
			}
			for _, f := range t.curvesOf(k, m) {
				t.drawCurve(f)
			}
		}
	}
}

// strokes are the characters that curves are drawn with.
type strokes struct{ bar, dot, base, level, corner, edge, floor rune }

func (t *textWriter) strokes() strokes {
	if t.ASCII {
		return strokes{'|', 'o', '#', '.', '+', '|', '-'}
	}
	return strokes{'│', '●', '■', '·', '└', '│', '─'}
}

// drawCurve draws one sweep: values to the right, the metric up.
func (t *textWriter) drawCurve(f curve.Figure) {
	plot := curve.NewPlot(f)
	labels, up, unitName := plot.Ticks(4)
	edge := 0
	for _, l := range labels {
		edge = max(edge, utf8.RuneCountInString(l))
	}
	width := min(t.Width-edge-6, curveWidest)
	if width < curveLeast {
		return // sentences and bars have it
	}
	s := t.strokes()
	grid := make([][]rune, curveLines)
	for i := range grid {
		grid[i] = []rune(strings.Repeat(" ", width))
	}
	row := func(up float64) int { return curveLines - 1 - int(math.Round(up*(curveLines-1))) }
	column := func(across float64) int { return 1 + int(math.Round(across*float64(width-3))) }
	if chart.Known(f.Level) {
		for i := range grid[0] {
			grid[row(plot.Up(*f.Level))][i] = s.level
		}
	}
	for i, l := range f.Lines {
		for _, p := range l.Points {
			drawPoint(grid, s, plot, p, f.Letter(i), row, column(plot.Across(p.Value)))
		}
	}
	t.out.WriteString("\n")
	t.wrapped("    ", t.curveLegend(f, unitName, s))
	beside := map[int]string{}
	for i, l := range labels {
		beside[row(up[i])] = l
	}
	for i, line := range grid {
		text := strings.TrimRight(string(line), " ")
		fmt.Fprintf(&t.out, "    %s %c%s\n", padLeft(t.toTerminal(beside[i]), edge), s.edge, text)
	}
	fmt.Fprintf(&t.out, "    %s %c%s\n", strings.Repeat(" ", edge), s.corner, strings.Repeat(string(s.floor), width))
	fmt.Fprintf(&t.out, "    %s  %s\n", strings.Repeat(" ", edge), t.valuesBelow(plot, column, width))
}

// drawPoint draws one value: its interval, then its median.
func drawPoint(grid [][]rune, s strokes, plot curve.Plot, p curve.Point, letter string, row func(float64) int, x int) {
	if !chart.Known(p.Median) {
		return
	}
	if chart.Known(p.Lo) && chart.Known(p.Hi) {
		for y := row(plot.Up(*p.Hi)); y <= row(plot.Up(*p.Lo)); y++ {
			grid[y][x] = s.bar
		}
	}
	y := row(plot.Up(*p.Median))
	switch {
	case p.Baseline:
		grid[y][x] = s.base
	case letter != "":
		grid[y][x] = []rune(letter)[0]
	default:
		grid[y][x] = s.dot
	}
}

// curveLegend says what a curve shows.
func (t *textWriter) curveLegend(f curve.Figure, unitName string, s strokes) string {
	text := fmt.Sprintf("%s (%s) over %s: ", f.Of, cmp.Or(unitName, chart.NoUnit), f.Name)
	if len(f.Lines) > 1 {
		for i, l := range f.Lines {
			text += f.Letter(i) + " " + l.Label + ", "
		}
	} else {
		text += string(s.dot) + " median, "
	}
	text += string(s.bar) + " interval"
	if chart.Known(f.Level) {
		return text + ", " + string(s.level) + " " + f.Baseline
	}
	if slices.ContainsFunc(f.Lines, func(l curve.Line) bool {
		return slices.ContainsFunc(l.Points, func(p curve.Point) bool { return p.Baseline })
	}) {
		text += ", " + string(s.base) + " baseline"
	}
	return text
}

// valuesBelow writes the values under a curve, the ends first, and leaves out those that
// would touch.
func (t *textWriter) valuesBelow(plot curve.Plot, column func(float64) int, width int) string {
	values, across := plot.Values()
	line := []rune(strings.Repeat(" ", width))
	put := func(i int) {
		text := []rune(t.toTerminal(keepEnds(values[i], 14)))
		from := min(max(column(across[i])-len(text)/2, 0), max(len(line)-len(text), 0))
		for k := max(from-1, 0); k < min(from+len(text)+1, len(line)); k++ {
			if line[k] != ' ' {
				return
			}
		}
		copy(line[from:], text)
	}
	if len(values) > 0 {
		put(0)
		put(len(values) - 1)
	}
	for i := 1; i < len(values)-1; i++ {
		put(i)
	}
	return strings.TrimRight(string(line), " ")
}

// toTerminal is s as the terminal can show it.
func (t *textWriter) toTerminal(s string) string {
	if t.ASCII {
		return toASCII(s)
	}
	return s
}

// padLeft fills s with spaces on its left to n columns.
func padLeft(s string, n int) string {
	return strings.Repeat(" ", max(n-utf8.RuneCountInString(s), 0)) + s
}
