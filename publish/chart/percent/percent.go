// Package percent draws how far contenders are from the baseline: bars from
// a common zero with whiskers for the interval and a band for the margin.
package percent

import (
	"fmt"
	"math"
	"strings"

	"bakeoff/publish/chart"
)

// Row is one contender against the baseline.
type Row struct {
	Label string
	// Value is the ratio contender / baseline, or the difference where the
	// figure's axis is one of differences; Lo and Hi bound its interval. Nil
	// is not known: a bound that is nil is drawn as an arrow.
	Value, Lo, Hi *float64
	Mark          chart.Mark
	// Note is said beside the value: "undecided".
	Note string
}

// Figure is all contenders on one cell and metric.
type Figure struct {
	Of       string // what is compared: "sha256-16k, throughput"
	Baseline string
	Rows     []Row
	// Less and More are the words for the two directions: "slower",
	// "faster". MoreIsBetter tells which of them is wanted.
	Less, More   string
	MoreIsBetter bool
	Neutral      bool // neither direction is better
	Axis         Axis
}

// Doc describes the kind.
func (Figure) Doc() chart.Doc {
	return chart.Doc{
		Name:    "percent",
		Summary: "difference from the baseline in percent, with its interval and the margin",
		Read: "A bar ends at the estimate, and the whisker spans the interval. A whisker inside the shaded band means " +
			"that the two are equivalent within the margin; one that does not touch zero means that they differ; " +
			"anything else is undecided. Where differences are of very different size the axis is stretched: even steps " +
			"near zero, and multiplying ones further out. The numbers on the axis always hold.",
	}
}

// Title names the figure.
func (f Figure) Title() string {
	return f.Of + ": difference from " + f.Baseline
}

// Desc says every row in words.
func (f Figure) Desc() string {
	var b strings.Builder
	for _, r := range f.Rows {
		fmt.Fprintf(&b, "%s: %s. ", chart.Fit(r.Label, 400), f.value(r, true))
	}
	if f.Axis.Stretched {
		b.WriteString("The axis is stretched near zero. ")
	}
	fmt.Fprintf(&b, "To the right is %s.", f.More)
	return b.String()
}

// value says the estimate of a row, and its interval where long.
func (f Figure) value(r Row, long bool) string {
	switch {
	case r.Value != nil:
	case r.Lo != nil && r.Hi == nil:
		return "at least " + f.bound(r.Lo)
	case r.Hi != nil && r.Lo == nil:
		return "at most " + f.bound(r.Hi)
	case r.Note != "":
		return r.Note
	default:
		return "no estimate"
	}
	s := f.Axis.text(*r.Value)
	if long {
		s += fmt.Sprintf(", interval %s to %s", f.bound(r.Lo), f.bound(r.Hi))
		if r.Note != "" {
			s += ", " + r.Note
		}
	}
	return s
}

func (f Figure) bound(v *float64) string {
	if v == nil {
		return "unbounded"
	}
	return f.Axis.text(*v)
}

// Table holds the rows.
func (f Figure) Table() chart.Table {
	t := chart.Table{Head: []string{"contender", "against " + f.Baseline, "from", "to", "verdict"}}
	if !f.Axis.Difference {
		t.Head = append(t.Head, "ratio")
	}
	for _, r := range f.Rows {
		row := []string{r.Label, "–", f.bound(r.Lo), f.bound(r.Hi), r.Note}
		if r.Value != nil {
			row[1] = f.Axis.text(*r.Value)
		} else if r.Lo == nil && r.Hi == nil {
			row[2], row[3] = "–", "–"
		}
		if !f.Axis.Difference {
			ratio := "–"
			if r.Value != nil {
				ratio = fmt.Sprintf("%.4g", *r.Value)
			}
			row = append(row, ratio)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

const (
	head   = 40.0 // directions and tick labels
	step   = 28.0 // a row on a desk
	tall   = 44.0 // a row on a phone: its label stands above its bar
	barH   = 12.0
	valueW = 196.0
)

// layout is where things stand at one width.
type layout struct {
	x0, x1 float64 // of the plot
	row    float64
	narrow bool
}

func (f Figure) layout(width float64) layout {
	if width < 560 {
		return layout{x0: 18, x1: width - 18, row: tall, narrow: true}
	}
	gutter := 60.0
	for _, r := range f.Rows {
		gutter = max(gutter, chart.TextWidth(chart.Fit(r.Label, 180)))
	}
	return layout{x0: gutter + 26, x1: width - valueW - 36, row: step}
}

// Draw draws the figure.
func (f Figure) Draw(id string, width float64) string {
	c := chart.NewCanvas(id, width)
	l := f.layout(c.Width())
	bottom := head + l.row*float64(len(f.Rows)) + 6
	at := func(v float64) float64 { return l.x0 + f.Axis.Position(v)*(l.x1-l.x0) }

	if lo, hi, ok := f.Axis.Band(); ok {
		c.Rect(at(lo), head, at(hi)-at(lo), bottom-head, "band")
	}
	f.directions(c, l, at)
	f.ticks(c, l, at, bottom)
	c.Line(at(f.Axis.zero()), head-2, at(f.Axis.zero()), bottom, "zero")
	for i, r := range f.Rows {
		y := head + l.row*float64(i) + 4
		c.Begin("row", r.Label+": "+f.value(r, true))
		if l.narrow {
			c.Label(l.x0-12, y+12, (l.x1-l.x0)*0.4, chart.Start, "label", r.Label)
			c.Label(l.x1+12, y+12, (l.x1-l.x0)*0.6, chart.End, "value", strings.TrimSpace(sign(r.Mark)+" "+f.beside(r)))
			f.bar(c, l, at, r, y+27)
		} else {
			c.Label(4, y+step/2+1, l.x0-24, chart.Start, "label", r.Label)
			c.Text(l.x1+18, y+step/2+1, chart.Start, "sign mark-"+string(r.Mark), sign(r.Mark))
			c.Label(l.x1+34, y+step/2+1, valueW, chart.Start, "value", f.beside(r))
			f.bar(c, l, at, r, y+step/2-3)
		}
		c.End()
	}
	return c.SVG(bottom+4, f.Title(), f.Desc())
}

// sign is a shape for eyes that colours do not reach.
func sign(m chart.Mark) string {
	switch m {
	case chart.Same:
		return "="
	case chart.Better:
		return "▲"
	case chart.Worse:
		return "▼"
	case chart.Open:
		return "?"
	}
	return ""
}

// beside is what stands beside a bar.
func (f Figure) beside(r Row) string {
	s := f.value(r, false)
	if r.Value != nil && (r.Lo != nil || r.Hi != nil) {
		lo, hi := f.bound(r.Lo), f.bound(r.Hi)
		if strings.HasSuffix(lo, " %") && strings.HasSuffix(hi, " %") {
			lo, hi = strings.TrimSuffix(lo, " %"), strings.TrimSuffix(hi, " %")
		}
		s += fmt.Sprintf(" (%s … %s)", lo, hi)
	}
	return s
}

func (f Figure) directions(c *chart.Canvas, l layout, at func(float64) float64) {
	zero := at(f.Axis.zero())
	left, right := zero-l.x0+10, l.x1-zero+10
	less, more := "← "+f.Less, f.More+" →"
	switch {
	case f.Neutral:
	case f.MoreIsBetter:
		more = fitting(right, f.More+" (better) →", "better →")
	default:
		less = fitting(left, "← "+f.Less+" (better)", "← better")
	}
	c.Label(min(zero-8, l.x1), 14, left, chart.End, "direction", less)
	c.Label(max(zero+8, l.x0), 14, right, chart.Start, "direction", more)
}

// fitting is whole where there is room for it, else what matters of it.
func fitting(room float64, whole, short string) string {
	if chart.TextWidth(whole) > room {
		return short
	}
	return whole
}

// ticks draws the axis; labels that would touch an earlier, more important
// one are left out with their line.
func (f Figure) ticks(c *chart.Canvas, l layout, at func(float64) float64, bottom float64) {
	type span struct{ lo, hi float64 }
	var taken []span
next:
	for _, v := range f.Axis.ticks() {
		text, x := f.Axis.tick(v), at(v)
		half := chart.TextWidth(text)/2 + 5
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
		if v != f.Axis.zero() {
			c.Line(x, head-4, x, bottom, "grid")
		}
		c.Text(x, 31, chart.Middle, "tick", text)
	}
}

// bar draws one row at the height y of its middle.
func (f Figure) bar(c *chart.Canvas, l layout, at func(float64) float64, r Row, y float64) {
	if r.Value == nil && r.Lo == nil && r.Hi == nil {
		c.Line(l.x0, y, l.x1, y, "nothing")
		return
	}
	zero := at(f.Axis.zero())
	v := zero
	if r.Value != nil {
		v = at(*r.Value)
		c.Bar(zero, y-barH/2, v-zero, barH, r.Mark)
	}
	lo, hi := l.x0, l.x1
	if r.Lo != nil {
		lo = at(*r.Lo)
	}
	if r.Hi != nil {
		hi = at(*r.Hi)
	}
	if r.Lo == nil && r.Hi == nil {
		c.Line(v, y-barH/2-2, v, y+barH/2+2, "whisker")
		return
	}
	for _, class := range []string{"halo", "whisker"} {
		c.Line(lo, y, hi, y, class)
		end(c, lo, y, r.Lo == nil, -1, class)
		end(c, hi, y, r.Hi == nil, +1, class)
	}
	if r.Value != nil {
		c.Line(v, y-barH/2-2, v, y+barH/2+2, "estimate")
	}
}

// end draws an end of a whisker: a cap, or an arrow where there is no bound.
func end(c *chart.Canvas, x, y float64, open bool, side float64, class string) {
	if open {
		c.Line(x, y, x-side*6, y-4, class)
		c.Line(x, y, x-side*6, y+4, class)
		return
	}
	c.Line(x, y-4, x, y+4, class)
}

// finite reports whether v can be placed on an axis of ratios (or of
// differences).
func finite(v *float64, difference bool) bool {
	return v != nil && !math.IsNaN(*v) && !math.IsInf(*v, 0) && (difference || *v > 0)
}
