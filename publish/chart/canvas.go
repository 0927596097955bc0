package chart

import (
	"html"
	"math"
	"strconv"
	"strings"
)

// Canvas writes one SVG element. It escapes all text, and draws numbers that are
// not finite at 0, because browsers drop an element that has NaN in an
// attribute.
type Canvas struct {
	id    string
	width float64
	body  strings.Builder
	used  map[Mark]bool
	ticks [][2]float64 // where labels of the axis stand
}

// NewCanvas begins an element of the given width.
func NewCanvas(id string, width float64) *Canvas {
	return &Canvas{id: id, width: max(width, MinWidth), used: map[Mark]bool{}}
}

// Width is the width in user units.
func (c *Canvas) Width() float64 { return c.width }

// formatNumber writes v with at most one decimal.
func formatNumber(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		v = 0
	}
	v = math.Round(v*10) / 10
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// openElement writes the start of an element with attributes in pairs of name and
// value.
func (c *Canvas) openElement(name, class string, attrs ...string) {
	c.body.WriteString("<" + name)
	if class != "" {
		c.body.WriteString(` class="` + html.EscapeString(class) + `"`)
	}
	for i := 0; i+1 < len(attrs); i += 2 {
		c.body.WriteString(" " + attrs[i] + `="` + html.EscapeString(attrs[i+1]) + `"`)
	}
}

// Rect draws a rectangle; a negative width is drawn to the left.
func (c *Canvas) Rect(x, y, w, h float64, class string) {
	if w < 0 {
		x, w = x+w, -w
	}
	c.openElement("rect", class, "x", formatNumber(x), "y", formatNumber(y), "width", formatNumber(w), "height",
		formatNumber(h))
	c.body.WriteString("/>")
}

// Bar draws a rectangle in the color and the pattern of m.
func (c *Canvas) Bar(x, y, w, h float64, m Mark) {
	if w < 0 {
		x, w = x+w, -w
	}
	c.Rect(x, y, w, h, "bar mark-"+string(m))
	if _, ok := patterns[m]; !ok {
		return
	}
	c.used[m] = true
	c.openElement("rect", "", "x", formatNumber(x), "y", formatNumber(y), "width", formatNumber(w), "height",
		formatNumber(h),
		"fill", "url(#"+c.id+"-"+string(m)+")")
	c.body.WriteString("/>")
}

// Line draws a straight line.
func (c *Canvas) Line(x1, y1, x2, y2 float64, class string) {
	c.openElement("line", class, "x1", formatNumber(x1), "y1", formatNumber(y1), "x2", formatNumber(x2), "y2",
		formatNumber(y2))
	c.body.WriteString("/>")
}

// Path draws a path from its data, which is made of numbers and letters of
// the caller's own.
func (c *Canvas) Path(d, class string) {
	c.openElement("path", class, "d", d)
	c.body.WriteString("/>")
}

// Anchor is where a text begins: start, middle or end.
type Anchor string

// The anchors.
const (
	Start  Anchor = "start"
	Middle Anchor = "middle"
	End    Anchor = "end"
)

// Text writes s with its baseline at y.
func (c *Canvas) Text(x, y float64, a Anchor, class, s string) { c.writeText(x, y, a, class, "", s) }

// Label writes s, cut to the room that there is. A title then has the whole of
// it, which browsers show under the pointer.
func (c *Canvas) Label(x, y, room float64, a Anchor, class, s string) {
	title := ""
	short := Ends(s, room)
	if short != s {
		title = s
	}
	c.writeText(x, y, a, class, title, short)
}

func (c *Canvas) writeText(x, y float64, a Anchor, class, title, s string) {
	if s == "" {
		return
	}
	attrs := []string{"x", formatNumber(x), "y", formatNumber(y)}
	if a != Start {
		attrs = append(attrs, "text-anchor", string(a))
	}
	c.openElement("text", class, attrs...)
	c.writeTitle(title)
	c.body.WriteString(html.EscapeString(s) + "</text>")
}

// writeTitle ends the start of an element, and gives it a title.
func (c *Canvas) writeTitle(s string) {
	c.body.WriteString(">")
	if s != "" {
		c.body.WriteString("<title>" + html.EscapeString(s) + "</title>")
	}
}

// crowd is the number of dots from which on they are placed on whole units.
const crowd = 3000

// Points draws the dots of a row, the baseline's in its own color, as a single path, so that thousands stay
// cheap. Dots on the same tenth of a unit are drawn once; in a crowd, dots on
// the same unit are, since each is several units wide.
func (c *Canvas) Points(xs, ys []float64, baseline bool) {
	class := "points"
	if baseline {
		class += " base"
	}
	grid := 10.0
	if len(xs) > crowd {
		grid = 1
	}
	var d strings.Builder
	seen := map[[2]int]bool{}
	for i := range xs {
		x, y := math.Round(xs[i]*grid), math.Round(ys[i]*grid)
		at := [2]int{int(x), int(y)}
		if seen[at] {
			continue
		}
		seen[at] = true
		d.WriteString("M" + formatNumber(x/grid) + " " + formatNumber(y/grid) + "h0")
	}
	if d.Len() > 0 {
		c.Path(d.String(), class)
	}
}

// Begin opens a group with a title of its own, which browsers show under the
// pointer; End closes it.
func (c *Canvas) Begin(class, title string) {
	c.openElement("g", class)
	c.writeTitle(title)
}

// Box is a rectangle with a title and a name.
type Box struct {
	X, Y, W, H   float64
	Class, Title string
	// Data is for the script of a page: it becomes the attribute data-t.
	Data string
	// Name is written into the rectangle, and is short enough for it; "" for none.
	Name string
}

// Box draws a group of a rectangle and its name.
func (c *Canvas) Box(b Box) {
	c.BeginData(b.Class, b.Data, b.Title)
	c.Rect(b.X, b.Y, b.W, b.H, "")
	if b.Name != "" {
		c.Text(b.X+3, b.Y+b.H-5, Start, "", b.Name)
	}
	c.End()
}

// BeginData is Begin with the attribute data-t, for the script of a page.
func (c *Canvas) BeginData(class, data, title string) {
	c.openElement("g", class, "data-t", data)
	c.writeTitle(title)
}

// End closes a group.
func (c *Canvas) End() { c.body.WriteString("</g>") }

// patterns are drawn over a bar's color. Lines differ in direction and density,
// so that a photocopy keeps them apart.
var patterns = map[Mark]string{
	Worse: `width="6" height="6" patternTransform="rotate(45)"><path class="ink" d="M0 0V6"/>`,
	Same:  `width="5" height="5"><circle class="dot" cx="2.5" cy="2.5" r="1"/>`,
	Open:  `width="5" height="5" patternTransform="rotate(-45)"><path class="ink" d="M0 0V5M0 0H5"/>`,
}

// SVG ends the element at the given height.
func (c *Canvas) SVG(height float64, title, desc string) string {
	var b strings.Builder
	id := html.EscapeString(c.id)
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" class="figure" role="img" id="` + id +
		`" viewBox="0 0 ` + formatNumber(c.width) + " " + formatNumber(height) +
		`" width="` + formatNumber(c.width) + `" height="` + formatNumber(height) +
		`" aria-labelledby="` + id + `-title ` + id + `-desc">`)
	b.WriteString(`<title id="` + id + `-title">` + html.EscapeString(title) + `</title>`)
	b.WriteString(`<desc id="` + id + `-desc">` + html.EscapeString(desc) + `</desc>`)
	if len(c.used) > 0 {
		b.WriteString("<defs>")
		for _, m := range []Mark{Worse, Same, Open} {
			if c.used[m] {
				b.WriteString(`<pattern id="` + id + "-" + string(m) + `" patternUnits="userSpaceOnUse" ` +
					patterns[m] + `</pattern>`)
			}
		}
		b.WriteString("</defs>")
	}
	b.WriteString(c.body.String())
	b.WriteString("</svg>")
	return b.String()
}
