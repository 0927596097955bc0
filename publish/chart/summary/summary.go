// Package summary draws all cells of a run on one axis: each with every
// contender's ratio to the baseline, turned so that right is better.
package summary

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/publish/chart"
	"bakeoff/publish/difference"
)

// Point is one contender at one cell.
type Point struct {
	Contender int // its place in Figure.Contenders
	// Value is how many times as good as the baseline it is, and Lo and Hi
	// bound its interval; nil is not known.
	Value, Lo, Hi *float64
	Mark          chart.Mark
	Note          string // "inconclusive", "missing"
}

// Row is one cell.
type Row struct {
	Label  string
	Points []Point
}

// Figure is all cells.
type Figure struct {
	Baseline   string
	Contenders []string
	Rows       []Row
}

// Doc describes the kind.
func (Figure) Doc() chart.Doc {
	return chart.Doc{
		Name:  "summary",
		Title: "All cells",
		Read: "Each row is a cell and each letter a contender; the line through the letter is its confidence interval. " +
			"Right is better, whatever the metric. The axis is logarithmic, so twice as good and half as good are " +
			"equally far from the middle. The row of the geometric mean shows contenders with values in all cells. " +
			"The mean depends on the choice of cells, so it gets no verdict.",
	}
}

// Title names the figure.
func (f Figure) Title() string { return "All cells against " + f.Baseline }

// contenderLetter is the sign of a contender: a to z, then a1.
func contenderLetter(i int) string {
	s := string(rune('a' + i%26))
	if i >= 26 {
		s += strconv.Itoa(i / 26)
	}
	return s
}

// isPlaceable reports whether v has a place on the axis.
func isPlaceable(v *float64) bool {
	return chart.Known(v) && *v > 0
}

// times is the notation of the whole figure: one axis has all cells.
var times = difference.Notation{Factors: true}

// knownOrNil is v if it can be shown, otherwise nil.
func knownOrNil(v *float64) *float64 {
	if !isPlaceable(v) {
		return nil
	}
	return v
}

// timesText says how many times as good.
func timesText(v *float64) string {
	if !isPlaceable(v) {
		return difference.Unavailable
	}
	return times.Text(*v)
}

// Mean is the geometric mean of a contender over all cells; nil unless
// it has a value at each of at least two.
func (f Figure) Mean(contender int) *float64 {
	sum, n := 0.0, 0
	for _, r := range f.Rows {
		for _, p := range r.Points {
			if p.Contender == contender && isPlaceable(p.Value) {
				sum += math.Log(*p.Value)
				n++
			}
		}
	}
	if n < 2 || n != len(f.Rows) {
		return nil
	}
	return new(math.Exp(sum / float64(n)))
}

// Desc says every row in words.
func (f Figure) Desc() string {
	return chart.Sentences(f.Rows, func(r Row) (string, string) {
		points := lists.Map(r.Points, f.describePoint)
		return r.Label, ": " + strings.Join(points, ", ")
	}) + "To the right is better."
}

func (f Figure) contenderName(contender int) string {
	if contender < 0 || contender >= len(f.Contenders) {
		return "?"
	}
	return chart.Fit(f.Contenders[contender], 400)
}

func (f Figure) describePoint(p Point) string {
	if !isPlaceable(p.Value) {
		return f.contenderName(p.Contender) + " has no estimate"
	}
	return f.contenderName(p.Contender) + " " + timesText(p.Value)
}

// Data holds the cells, without the mean.
func (f Figure) Data() chart.Data {
	d := chart.Data{Columns: slices.Concat(chart.Texts("cell", "contender"),
		chart.Numbers("", "times as good as "+f.Baseline, "from", "to"), chart.Texts("verdict"))}
	for _, r := range f.Rows {
		for _, p := range r.Points {
			d.Rows = append(d.Rows, []chart.Cell{chart.Word(r.Label), chart.Word(f.contenderName(p.Contender)),
				chart.Num(p.Value),
				chart.Num(p.Lo), chart.Num(p.Hi), chart.Word(p.Note)})
		}
	}
	return d
}

// Table holds the cells, and below them the mean of those that have all.
func (f Figure) Table() chart.Table {
	t := chart.Table{Head: []string{"cell", "contender", "times as good as " + f.Baseline, "CI from", "CI to", "verdict"}}
	for _, r := range f.Rows {
		for _, p := range r.Points {
			from, to := times.Bounds(knownOrNil(p.Lo), knownOrNil(p.Hi))
			t.Rows = append(t.Rows, []string{r.Label, f.contenderName(p.Contender), timesText(p.Value), from, to, p.Note})
		}
	}
	for i := range f.Contenders {
		if m := f.Mean(i); m != nil {
			name := fmt.Sprintf("geometric mean of the %d", len(f.Rows))
			t.Rows = append(t.Rows, []string{name, f.contenderName(i), timesText(m), "–", "–", "–"})
		}
	}
	return t
}

const (
	head = 44.0 // key and tick labels
	lane = 13.0 // of one contender in a row
	pad  = 9.0
)

// Draw draws the figure.
func (f Figure) Draw(id string, width float64) string {
	l := f.layoutFor(id, width)
	rows := f.Rows
	if mean := f.meansRow(); len(mean.Points) > 0 {
		rows = append(rows[:len(rows):len(rows)], mean)
	}
	bottom := l.top
	for _, r := range rows {
		bottom += l.rowHeight(r)
	}
	f.drawKey(l)
	for _, v := range candidates(l.lo, l.hi) {
		l.Tick(l.positionOf(v), l.top-9, l.top-4, bottom, times.Tick(v))
	}
	l.Line(l.positionOf(1), l.top-4, l.positionOf(1), bottom, "zero")
	y := l.top
	for i, r := range rows {
		switch i {
		case 0:
		case len(f.Rows): // the mean is not a cell
			l.Line(4, y, l.Width()-4, y, "zero")
		default:
			l.Line(4, y, l.Width()-4, y, "grid")
		}
		f.drawRow(l, r, y)
		y += l.rowHeight(r)
	}
	return l.SVG(bottom+6, f.Title(), f.Desc())
}

const meanLabel = "geometric mean"

// meansRow is the row of the geometric means.
func (f Figure) meansRow() Row {
	r := Row{Label: meanLabel}
	for i := range f.Contenders {
		if m := f.Mean(i); m != nil {
			r.Points = append(r.Points, Point{Contender: i, Value: m, Mark: chart.Plain})
		}
	}
	return r
}

// drawRow draws one cell with its top at y.
func (f Figure) drawRow(l layout, r Row, y float64) {
	first := y + pad/2
	if l.Narrow {
		first += 18
	}
	l.Name(y+2, l.rowHeight(r)-4, r.Label, "")
	for i, p := range r.Points {
		middle := first + lane*(float64(i)+0.5)
		l.Begin("row", r.Label+": "+f.describePoint(p))
		if isPlaceable(p.Value) {
			if isPlaceable(p.Lo) && isPlaceable(p.Hi) {
				l.Whisker(l.positionOf(*p.Lo), l.positionOf(*p.Hi), middle, false, false)
			}
			l.Text(l.positionOf(*p.Value), middle+4, chart.Middle, "sign letter mark-"+string(p.Mark),
				contenderLetter(p.Contender))
		} else {
			l.Label(l.X0, middle+4, l.X1-l.X0, chart.Start, "tick", contenderLetter(p.Contender)+" "+p.Note)
		}
		l.End()
	}
}

// layout is the canvas with its axis.
type layout struct {
	chart.Rows
	top     float64
	lo, hi  float64 // ends of the axis, as logarithms
	perLine int     // contenders in a line of the key
}

func (f Figure) layoutFor(id string, width float64) layout {
	labels := append(f.Rows[:len(f.Rows):len(f.Rows)], Row{Label: meanLabel})
	l := layout{lo: math.Log(0.8), hi: math.Log(1.25),
		Rows: chart.NewRows(id, width, 24, 24, labels, func(r Row) string { return r.Label })}
	for _, r := range f.Rows {
		for _, p := range r.Points {
			if !isPlaceable(p.Value) {
				continue // an interval is drawn with its estimate only
			}
			for _, v := range []*float64{p.Value, p.Lo, p.Hi} {
				if isPlaceable(v) {
					l.lo, l.hi = min(l.lo, math.Log(*v)), max(l.hi, math.Log(*v))
				}
			}
		}
	}
	l.perLine = max(1, int((l.Width()-16)/keyWidth))
	lines := (len(f.Contenders) + l.perLine - 1) / l.perLine
	l.top = head + 18*float64(lines)
	return l
}

func (l layout) rowHeight(r Row) float64 {
	h := pad + lane*float64(max(1, len(r.Points)))
	if l.Narrow {
		h += 18
	}
	return h
}

func (l layout) positionOf(v float64) float64 {
	return l.X0 + min(max((math.Log(v)-l.lo)/(l.hi-l.lo), 0), 1)*(l.X1-l.X0)
}

// keyWidth is the room of a contender in the key.
const keyWidth = 132.0

// drawKey says which letter is which contender, and which way is better.
func (f Figure) drawKey(l layout) {
	for i := range f.Contenders {
		x, y := 8+keyWidth*float64(i%l.perLine), 14+18*float64(i/l.perLine)
		l.Text(x, y, chart.Start, "sign mark-plain", contenderLetter(i))
		l.Label(x+20, y, keyWidth-28, chart.Start, "label", f.contenderName(i))
	}
	y, room := l.top-26, (l.X1-l.X0)/2-8
	l.Label(l.X0, y, room, chart.Start, "direction", "← worse")
	l.Label(l.X1, y, room, chart.End, "direction", "better →")
}

// candidates are values for ticks between two logarithms, the most important
// first.
func candidates(lo, hi float64) []float64 {
	all := []float64{1, 0.5, 2, 0.8, 1.25, 0.9, 1.1, 0.95, 1.05}
	for decade := 1; decade <= 9; decade++ {
		p := math.Pow(10, float64(decade))
		all = append(all, p, 1/p, 2*p, 0.5/p, 5*p/10, 2/p)
	}
	return lists.Filter(all, func(v float64) bool { return math.Log(v) >= lo-1e-9 && math.Log(v) <= hi+1e-9 })
}
