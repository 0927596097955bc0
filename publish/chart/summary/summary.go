// Package summary draws all components of a comparison on one axis: each with
// every contender's ratio to the baseline, turned so that right is better.
package summary

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"bakeoff/publish/chart"
)

// Point is one contender at one component.
type Point struct {
	Contender int // its place in Figure.Contenders
	// Value is how many times as good as the baseline it is, and Lo and Hi
	// bound its interval; nil is not known.
	Value, Lo, Hi *float64
	Mark          chart.Mark
	Note          string // "undecided", "missing"
}

// Row is one component.
type Row struct {
	Label  string
	Points []Point
}

// Figure is all components.
type Figure struct {
	Baseline   string
	Contenders []string
	Rows       []Row
}

// Doc describes the kind.
func (Figure) Doc() chart.Doc {
	return chart.Doc{
		Name:    "summary",
		Summary: "every component of a comparison on one axis, each contender against the baseline",
		Read: "Each row is a component, each letter a contender, and the line through it its interval. Right is better, " +
			"whatever the metric; the axis is logarithmic, so twice and half as good are equally far. The geometric mean " +
			"stands below its components, and only for contenders that have all of them: it weighs a component by how it " +
			"was chosen, and nothing is decided by it.",
	}
}

// Title names the figure.
func (f Figure) Title() string { return "All components against " + f.Baseline }

// letter is the sign of a contender: a to z, then a1.
func letter(i int) string {
	s := string(rune('a' + i%26))
	if i >= 26 {
		s += strconv.Itoa(i / 26)
	}
	return s
}

// usable reports whether v has a place on the axis.
func usable(v *float64) bool {
	return v != nil && !math.IsNaN(*v) && !math.IsInf(*v, 0) && *v > 0
}

// text says how many times as good.
func text(v *float64) string {
	if !usable(v) {
		return "–"
	}
	return "×" + strconv.FormatFloat(*v, 'g', 3, 64)
}

// Mean is the geometric mean of a contender over all components; nil unless
// it has a value at each of at least two.
func (f Figure) Mean(contender int) *float64 {
	sum, n := 0.0, 0
	for _, r := range f.Rows {
		for _, p := range r.Points {
			if p.Contender == contender && usable(p.Value) {
				sum += math.Log(*p.Value)
				n++
			}
		}
	}
	if n < 2 || n != len(f.Rows) {
		return nil
	}
	mean := math.Exp(sum / float64(n))
	return &mean
}

// Desc says every row in words.
func (f Figure) Desc() string {
	var b strings.Builder
	for _, r := range f.Rows {
		fmt.Fprintf(&b, "%s: ", chart.Fit(r.Label, 400))
		for i, p := range r.Points {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(f.say(p))
		}
		b.WriteString(". ")
	}
	b.WriteString("To the right is better.")
	return b.String()
}

func (f Figure) name(contender int) string {
	if contender < 0 || contender >= len(f.Contenders) {
		return "?"
	}
	return chart.Fit(f.Contenders[contender], 400)
}

func (f Figure) say(p Point) string {
	if !usable(p.Value) {
		return f.name(p.Contender) + " has no estimate"
	}
	return f.name(p.Contender) + " " + text(p.Value)
}

// Table holds the components, and below them the mean of those that have all.
func (f Figure) Table() chart.Table {
	t := chart.Table{Head: []string{"component", "contender", "times as good as " + f.Baseline, "from", "to", "verdict"}}
	for _, r := range f.Rows {
		for _, p := range r.Points {
			t.Rows = append(t.Rows, []string{r.Label, f.name(p.Contender), text(p.Value), text(p.Lo), text(p.Hi), p.Note})
		}
	}
	for i := range f.Contenders {
		if m := f.Mean(i); m != nil {
			t.Rows = append(t.Rows, []string{fmt.Sprintf("geometric mean of the %d", len(f.Rows)), f.name(i), text(m), "–", "–", "none is made of it"})
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
	c := chart.NewCanvas(id, width)
	l := f.layout(c.Width())
	rows := f.Rows
	if mean := f.means(); len(mean.Points) > 0 {
		rows = append(rows[:len(rows):len(rows)], mean)
	}
	bottom := l.top
	for _, r := range rows {
		bottom += l.height(r)
	}
	f.key(c, l)
	l.ticks(c, bottom)
	c.Line(l.at(1), l.top-4, l.at(1), bottom, "zero")
	y := l.top
	for i, r := range rows {
		switch i {
		case 0:
		case len(f.Rows): // the mean is no component
			c.Line(4, y, c.Width()-4, y, "zero")
		default:
			c.Line(4, y, c.Width()-4, y, "grid")
		}
		f.row(c, l, r, y)
		y += l.height(r)
	}
	return c.SVG(bottom+6, f.Title(), f.Desc())
}

const meanLabel = "geometric mean"

// means is the row of the geometric means.
func (f Figure) means() Row {
	r := Row{Label: meanLabel}
	for i := range f.Contenders {
		if m := f.Mean(i); m != nil {
			r.Points = append(r.Points, Point{Contender: i, Value: m, Mark: chart.Plain})
		}
	}
	return r
}

// row draws one component with its top at y.
func (f Figure) row(c *chart.Canvas, l layout, r Row, y float64) {
	first := y + pad/2
	if l.narrow {
		c.Label(4, y+14, c.Width()-8, chart.Start, "label", r.Label)
		first += 18
	} else {
		c.Label(4, y+l.height(r)/2+4, l.x0-24, chart.Start, "label", r.Label)
	}
	for i, p := range r.Points {
		middle := first + lane*(float64(i)+0.5)
		c.Begin("row", r.Label+": "+f.say(p))
		if usable(p.Value) {
			if usable(p.Lo) && usable(p.Hi) {
				c.Line(l.at(*p.Lo), middle, l.at(*p.Hi), middle, "whisker")
				for _, end := range []float64{*p.Lo, *p.Hi} {
					c.Line(l.at(end), middle-3, l.at(end), middle+3, "whisker")
				}
			}
			c.Text(l.at(*p.Value), middle+4, chart.Middle, "sign mark-"+string(p.Mark), letter(p.Contender))
		} else {
			c.Label(l.x0, middle+4, l.x1-l.x0, chart.Start, "tick", letter(p.Contender)+" "+p.Note)
		}
		c.End()
	}
}

// layout is where things stand at one width.
type layout struct {
	x0, x1, top float64
	lo, hi      float64 // ends of the axis, as logarithms
	narrow      bool
	perLine     int // contenders in a line of the key
}

func (f Figure) layout(width float64) layout {
	l := layout{x0: 24, x1: width - 24, lo: math.Log(0.8), hi: math.Log(1.25), narrow: width < 560}
	if !l.narrow {
		gutter := chart.TextWidth(meanLabel)
		for _, r := range f.Rows {
			gutter = max(gutter, chart.TextWidth(chart.Fit(r.Label, 200)))
		}
		l.x0 = gutter + 36
	}
	for _, r := range f.Rows {
		for _, p := range r.Points {
			if !usable(p.Value) {
				continue // an interval is drawn with its estimate only
			}
			for _, v := range []*float64{p.Value, p.Lo, p.Hi} {
				if usable(v) {
					l.lo, l.hi = min(l.lo, math.Log(*v)), max(l.hi, math.Log(*v))
				}
			}
		}
	}
	l.perLine = max(1, int((width-16)/keyWidth))
	lines := (len(f.Contenders) + l.perLine - 1) / l.perLine
	l.top = head + 18*float64(lines)
	return l
}

func (l layout) height(r Row) float64 {
	h := pad + lane*float64(max(1, len(r.Points)))
	if l.narrow {
		h += 18
	}
	return h
}

func (l layout) at(v float64) float64 {
	return l.x0 + min(max((math.Log(v)-l.lo)/(l.hi-l.lo), 0), 1)*(l.x1-l.x0)
}

// keyWidth is the room of a contender in the key.
const keyWidth = 132.0

// key says which letter is which contender, and which way is better.
func (f Figure) key(c *chart.Canvas, l layout) {
	for i := range f.Contenders {
		x, y := 8+keyWidth*float64(i%l.perLine), 14+18*float64(i/l.perLine)
		c.Text(x, y, chart.Start, "sign mark-plain", letter(i))
		c.Label(x+20, y, keyWidth-28, chart.Start, "label", f.name(i))
	}
	y := l.top - 26
	c.Label(l.x0, y, (l.x1-l.x0)/2-8, chart.Start, "direction", "← worse")
	c.Label(l.x1, y, (l.x1-l.x0)/2-8, chart.End, "direction", "better →")
}

// ticks draws the axis; labels that would touch an earlier, more important
// one are left out with their line.
func (l layout) ticks(c *chart.Canvas, bottom float64) {
	type span struct{ lo, hi float64 }
	var taken []span
next:
	for _, v := range candidates(l.lo, l.hi) {
		label, x := "×"+strconv.FormatFloat(v, 'g', 4, 64), l.at(v)
		half := chart.TextWidth(label)/2 + 5
		s := span{x - half, x + half}
		if s.lo < 0 || s.hi > c.Width() {
			continue
		}
		for _, t := range taken {
			if s.lo < t.hi && t.lo < s.hi {
				continue next
			}
		}
		taken = append(taken, s)
		if v != 1 {
			c.Line(x, l.top-4, x, bottom, "grid")
		}
		c.Text(x, l.top-9, chart.Middle, "tick", label)
	}
}

// candidates are values for ticks between two logarithms, the most important
// first.
func candidates(lo, hi float64) []float64 {
	all := []float64{1, 0.5, 2, 0.8, 1.25, 0.9, 1.1, 0.95, 1.05}
	for decade := 1; decade <= 9; decade++ {
		p := math.Pow(10, float64(decade))
		all = append(all, p, 1/p, 2*p, 0.5/p, 5*p/10, 2/p)
	}
	var out []float64
	for _, v := range all {
		if math.Log(v) >= lo-1e-9 && math.Log(v) <= hi+1e-9 {
			out = append(out, v)
		}
	}
	return out
}
