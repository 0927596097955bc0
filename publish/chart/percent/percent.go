// Package percent draws how far contenders are from the baseline: bars from
// a common zero with whiskers for the interval and a band for the margin.
package percent

import (
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/sample"
	"bakeoff/publish/chart"
	"bakeoff/publish/difference"
)

// Row is one contender against the baseline.
type Row struct {
	Label string
	// Value is the ratio contender / baseline, or the difference where the
	// figure's axis is one of differences; Lo and Hi bound its interval. Nil
	// is not known: a bound that is nil is drawn as an arrow.
	Value, Lo, Hi *float64
	Mark          chart.Mark
	// Note stands next to the value: "inconclusive".
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
		Name:  "percent",
		Title: "Difference charts",
		Read: "Each bar ends at the estimate, and the whisker spans the confidence interval. A whisker inside the shaded " +
			"band means that the two are equivalent within the margin. A whisker that does not touch zero means that " +
			"they differ. Anything else is inconclusive. If differences vary widely in size, the axis is stretched: " +
			"linear near zero, logarithmic further out. The axis labels show the true values. " + difference.Rule,
	}
}

// Title names the figure.
func (f Figure) Title() string {
	return f.Of + ": difference from " + f.Baseline
}

// Desc says every row in words.
func (f Figure) Desc() string {
	s := chart.Sentences(f.Rows, func(r Row) (string, string) { return r.Label, ": " + f.valueText(r, true) })
	if f.Axis.Stretched {
		s += "The axis is stretched near zero. "
	}
	return s + "To the right is " + f.More + "."
}

// notation is how the values of a row are written.
func (f Figure) notation(r Row) difference.Notation {
	scale := sample.Ratio
	if f.Axis.Difference {
		scale = sample.Difference
	}
	return difference.Of(scale, f.Axis.Unit, r.Value, r.Lo, r.Hi)
}

// valueText says the estimate of a row, and its interval where long.
func (f Figure) valueText(r Row, long bool) string {
	n := f.notation(r)
	switch {
	case r.Value != nil:
	case r.Lo != nil && r.Hi == nil, r.Hi != nil && r.Lo == nil:
		return n.Between(r.Lo, r.Hi)
	case r.Note != "":
		return r.Note
	default:
		return "no estimate"
	}
	s := n.Text(*r.Value)
	if long {
		if r.Lo != nil || r.Hi != nil {
			s += ", interval " + n.Between(r.Lo, r.Hi)
		}
		if r.Note != "" {
			s += ", " + r.Note
		}
	}
	return s
}

// Data holds the rows: ratios, or differences in their unit.
func (f Figure) Data() chart.Data {
	what, unitName := "ratio to ", ""
	if f.Axis.Difference {
		what, unitName = "difference from ", f.Axis.Unit
	}
	d := chart.Data{Columns: slices.Concat(chart.Texts("contender"),
		chart.Numbers(unitName, what+f.Baseline, "from", "to"), chart.Texts("verdict"))}
	for _, r := range f.Rows {
		d.Rows = append(d.Rows, []chart.Cell{chart.Word(r.Label), chart.Num(r.Value), chart.Num(r.Lo), chart.Num(r.Hi),
			chart.Word(r.Note)})
	}
	return d
}

// Table holds the rows.
func (f Figure) Table() chart.Table {
	t := chart.Table{Head: []string{"contender", "against " + f.Baseline, "CI from", "CI to", "verdict"}}
	if !f.Axis.Difference {
		t.Head = append(t.Head, "ratio")
	}
	for _, r := range f.Rows {
		n := f.notation(r)
		from, to := n.Bounds(r.Lo, r.Hi)
		row := []string{r.Label, difference.Unavailable, from, to, r.Note}
		if r.Value != nil {
			row[1] = n.Text(*r.Value)
		}
		if !f.Axis.Difference {
			ratio := difference.Unavailable
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
	valueW = 232.0
	signW  = 16.0
)

// Draw draws the figure.
func (f Figure) Draw(id string, width float64) string {
	c := chart.NewRows(id, width, 18, valueW, f.Rows, func(r Row) string { return r.Label })
	row, line := step, step/2 // height of a row, and its bar's place in it
	if c.Narrow {
		row, line = tall, 27
	}
	bottom := head + row*float64(len(f.Rows)) + 6
	at := func(v float64) float64 { return c.X0 + f.Axis.Position(v)*(c.X1-c.X0) }

	if lo, hi, ok := f.Axis.Band(); ok {
		c.Rect(at(lo), head, at(hi)-at(lo), bottom-head, "band")
	}
	f.directions(c, at)
	for _, v := range f.Axis.tickCandidates() {
		c.Tick(at(v), 31, head-4, bottom, f.Axis.tickLabel(v))
	}
	c.Line(at(f.Axis.noDifference()), head-2, at(f.Axis.noDifference()), bottom, "zero")
	for i, r := range f.Rows {
		y := head + row*float64(i) + 2
		c.Begin("row", r.Label+": "+f.valueText(r, true))
		if c.Narrow {
			c.Name(y, row, r.Label, strings.TrimSpace(r.Mark.Sign()+" "+f.besideText(r)))
		} else {
			c.Name(y, row, r.Label, "")
			c.Text(c.X1+18, y+line+4, chart.Start, "sign mark-"+string(r.Mark), r.Mark.Sign())
			c.Label(c.X1+18+signW, y+line+4, valueW-18-signW, chart.Start, "value", f.besideText(r))
		}
		f.drawBar(c, at, r, y+line)
		c.End()
	}
	return c.SVG(bottom+4, f.Title(), f.Desc())
}

// besideText is what stands next to a bar.
func (f Figure) besideText(r Row) string {
	s := f.valueText(r, false)
	if r.Value != nil && (r.Lo != nil || r.Hi != nil) {
		s += " (" + f.notation(r).Between(r.Lo, r.Hi) + ")"
	}
	return s
}

func (f Figure) directions(c chart.Rows, at func(float64) float64) {
	zero := at(f.Axis.noDifference())
	left, right := zero-c.X0+10, c.X1-zero+10
	less, more := "← "+f.Less, f.More+" →"
	switch {
	case f.Neutral:
	case f.MoreIsBetter:
		more = fitting(right, f.More+" (better) →", "better →")
	default:
		less = fitting(left, "← "+f.Less+" (better)", "← better")
	}
	if f.Axis.Difference && chart.Unitless(f.Axis.Unit) {
		more = strings.TrimSuffix(more, " →") + ", " + chart.NoUnit + " →"
	}
	c.Label(min(zero-8, c.X1), 14, left, chart.End, "direction", less)
	c.Label(max(zero+8, c.X0), 14, right, chart.Start, "direction", more)
}

// fitting is whole where there is room for it, else what matters of it.
func fitting(room float64, whole, short string) string {
	if chart.TextWidth(whole) > room {
		return short
	}
	return whole
}

// drawBar draws one row at the height y of its middle.
func (f Figure) drawBar(c chart.Rows, at func(float64) float64, r Row, y float64) {
	if r.Value == nil && r.Lo == nil && r.Hi == nil {
		c.Line(c.X0, y, c.X1, y, "nothing")
		return
	}
	if r.Value != nil {
		zero := at(f.Axis.noDifference())
		c.Bar(zero, y-barH/2, at(*r.Value)-zero, barH, r.Mark)
	}
	if r.Lo != nil || r.Hi != nil {
		lo, hi := c.X0, c.X1
		if r.Lo != nil {
			lo = at(*r.Lo)
		}
		if r.Hi != nil {
			hi = at(*r.Hi)
		}
		c.Whisker(lo, hi, y, r.Lo == nil, r.Hi == nil)
	}
	if r.Value != nil {
		c.Line(at(*r.Value), y-barH/2-2, at(*r.Value), y+barH/2+2, "estimate")
	}
}

// isPlaceable reports whether v can be placed on an axis of ratios (or of
// differences).
func isPlaceable(v *float64, difference bool) bool {
	return chart.Known(v) && (difference || *v > 0)
}
