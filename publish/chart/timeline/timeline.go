// Package timeline draws the marks of a boot one below the other: each at its time, with
// the uncertainty of its clock and the time since the mark before it.
package timeline

import (
	"fmt"
	"math"

	"bakeoff/base/unit"
	"bakeoff/publish/chart"
)

// Row is a mark.
type Row struct {
	Label string
	// At is the time in the unit of the figure.
	At float64
	// Error is the greatest error of At; nil means that it is unknown.
	Error *float64
	How   string // how the moment was seen; may be ""
}

// Figure is the marks of one boot.
type Figure struct {
	Of   string
	Rows []Row // in the order of their times
	// Unit is s, instruction or tick.
	Unit string
	// Write writes a duration in the unit, and Moment a time.
	Write, Moment func(float64) string
}

// Doc describes the kind.
func (Figure) Doc() chart.Doc {
	return chart.Doc{
		Name:  "timeline",
		Title: "Timelines",
		Read: "Each row is a mark: a moment that the boot reached. The bar begins at the mark before it, so its length is " +
			"the time between the two marks. The whisker is the uncertainty of the mark's clock relative to the other clocks.",
	}
}

// Title names the figure.
func (f Figure) Title() string { return f.Of + ": marks" + chart.InUnit(f.Unit) }

// Desc says every mark in words.
func (f Figure) Desc() string {
	if len(f.Rows) == 0 {
		return "The recording has no marks."
	}
	i := -1
	return chart.Sentences(f.Rows, func(r Row) (string, string) {
		i++
		return r.Label, " at " + f.reachedText(i)
	})
}

// reachedText says when mark i was reached.
func (f Figure) reachedText(i int) string {
	r := f.Rows[i]
	s := f.Moment(r.At)
	switch {
	case r.Error == nil:
		s += " ± unknown"
	case *r.Error > 0:
		s += " ± " + f.Write(*r.Error)
	}
	return s
}

// sinceText is the time from the mark before.
func (f Figure) sinceText(i int) string {
	if i == 0 {
		return "–"
	}
	return "+" + f.Write(f.Rows[i].At-f.Rows[i-1].At)
}

// Unavailable is what a table has for an unknown uncertainty.
const Unavailable = "unavailable"

// Table holds every mark.
func (f Figure) Table() chart.Table {
	t := chart.Table{Head: []string{"mark", "at", "uncertainty", "since the mark before", "seen by"}}
	for i, r := range f.Rows {
		uncertain := Unavailable
		if chart.Known(r.Error) {
			uncertain = "none: reference clock"
			if *r.Error > 0 {
				uncertain = "± " + f.Write(*r.Error)
			}
		}
		t.Rows = append(t.Rows, []string{r.Label, f.Moment(r.At), uncertain, f.sinceText(i), r.How})
	}
	return t
}

const valueRoom = 270.0

// Draw draws the figure.
func (f Figure) Draw(id string, width float64) string {
	lo, hi := f.axisEnds()
	c := chart.NewLinear(id, width, valueRoom, f.Rows, func(r Row) string { return r.Label }, lo, hi)
	c.Axis(f.Unit, 90)
	from := lo
	for i, r := range f.Rows {
		c.Row(i, r.Label, f.reachedText(i), func(y float64) { drawMark(c, r, from, y) })
		from = r.At
	}
	return c.SVG(c.Bottom+4, f.Title(), f.Desc())
}

// drawMark draws the bar of a mark from the one before it.
func drawMark(c chart.Linear, r Row, from, y float64) {
	at := c.At(r.At)
	c.Span(from, r.At, y, chart.Baseline)
	c.Line(at, y-chart.BarHeight/2-3, at, y+chart.BarHeight/2+3, "estimate")
	if r.Error == nil {
		c.Text(min(at+4, c.X1-8), y+4, chart.Start, "small", "?")
	} else if e := *r.Error; e > 0 {
		c.Whisker(c.At(r.At-e), c.At(r.At+e), y, false, false)
	}
}

// axisEnds are the first and the last time on the axis.
func (f Figure) axisEnds() (lo, hi float64) {
	for i, r := range f.Rows {
		from, to := r.At, r.At
		if chart.Known(r.Error) {
			from, to = from-*r.Error, to+*r.Error
		}
		if i == 0 {
			lo, hi = from, to
		}
		lo, hi = min(lo, from), max(hi, to)
	}
	lo = min(lo, 0)
	if !(hi > lo) || math.IsInf(hi-lo, 0) {
		hi = lo + 1
	}
	return lo, hi
}

// Seconds writes durations in seconds.
func Seconds(v float64) string { return unit.Format(v, "s") }

// Moment writes a time in seconds, to the microsecond.
func Moment(v float64) string { return fmt.Sprintf("%.6f s", v) }
