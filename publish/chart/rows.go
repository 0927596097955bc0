package chart

import (
	"math"
	"strings"
)

// phone is the width below which a figure is narrow.
const phone = 560

// labelRoom bounds the labels of a wide figure, and nameRoom the names in a
// description.
const (
	labelRoom = 190.0
	nameRoom  = 400.0
)

// Rows is the canvas of a figure that has a row for each contender or cell. On
// a wide canvas labels stand before the plot and values behind it; on a narrow
// one both stand above it.
type Rows struct {
	*Canvas
	Narrow bool
	X0, X1 float64 // ends of the plot
}

// NewRows begins a figure. edge is the room on each side of a narrow plot;
// value is the room behind a wide one.
func NewRows[R any](id string, width, edge, value float64, rows []R, label func(R) string) Rows {
	r := Rows{Canvas: NewCanvas(id, width)}
	r.Narrow = r.width < phone
	r.X0, r.X1 = edge, r.width-edge
	if !r.Narrow {
		gutter := 60.0
		for _, row := range rows {
			gutter = max(gutter, TextWidth(Fit(label(row), labelRoom)))
		}
		r.X0, r.X1 = gutter+24, r.width-value
	}
	return r
}

// Name writes the label and the value of the row between y and y+height.
func (r Rows) Name(y, height float64, label, value string) {
	if !r.Narrow {
		r.Label(4, y+height/2+4, r.X0-16, Start, "label", label)
		r.Label(r.X1+14, y+height/2+4, r.width-r.X1-14, Start, "value", value)
		return
	}
	room := r.width - 4
	// A tenth more for the value: digits are wider in some fonts than TextWidth says.
	taken := min(TextWidth(value), 0.6*room)
	r.Label(2, y+12, room-1.1*taken-8, Start, "label", label)
	r.Label(r.width-2, y+12, taken, End, "value", value)
}

// Tick writes a label of an axis, centered at x, and draws its grid line from
// top to bottom. It does neither where the label would touch an edge or a tick
// before it, so that callers begin with the most important ones.
func (c *Canvas) Tick(x, y, top, bottom float64, label string) {
	half := TextWidth(label)/2 + 5
	if x-half < 0 || x+half > c.width {
		return
	}
	for _, t := range c.ticks {
		if x-half < t[1] && t[0] < x+half {
			return
		}
	}
	c.ticks = append(c.ticks, [2]float64{x - half, x + half})
	c.Line(x, top, x, bottom, "grid")
	c.Text(x, y, Middle, "tick", label)
}

// Whisker draws an interval from lo to hi, with a cap at each end, or with an
// arrow at an end that is open.
func (c *Canvas) Whisker(lo, hi, y float64, openLo, openHi bool) {
	for _, class := range []string{"halo", "whisker"} {
		c.Line(lo, y, hi, y, class)
		for _, end := range []struct {
			x, back float64
			open    bool
		}{{lo, 6, openLo}, {hi, -6, openHi}} {
			if end.open {
				c.Line(end.x, y, end.x+end.back, y-4, class)
				c.Line(end.x, y, end.x+end.back, y+4, class)
			} else {
				c.Line(end.x, y-4, end.x, y+4, class)
			}
		}
	}
}

// Known reports whether v is a finite number.
func Known(v *float64) bool { return v != nil && !math.IsNaN(*v) && !math.IsInf(*v, 0) }

// Sentences describes rows in words: the name of each and what say adds to it.
func Sentences[R any](rows []R, say func(R) (name, text string)) string {
	var b strings.Builder
	for _, r := range rows {
		name, text := say(r)
		b.WriteString(Fit(name, nameRoom) + text + ". ")
	}
	return b.String()
}
