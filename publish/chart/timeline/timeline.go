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
	// Unit is s or tick.
	Unit string
	// Write writes a duration in the unit, and Moment a time.
	Write, Moment func(float64) string
}

// Doc describes the kind.
func (Figure) Doc() chart.Doc {
	return chart.Doc{
		Name:  "timeline",
		Title: "Timelines",
		Read: "Each row is a mark: a moment that the boot reached. The bar begins at the mark before it, so that its " +
			"length is the time between the two. The whisker is the uncertainty of the clock that saw the mark, " +
			"compared with the other clocks.",
	}
}

// Title names the figure.
func (f Figure) Title() string { return f.Of + ": marks" }

// Desc says every mark in words.
func (f Figure) Desc() string {
	if len(f.Rows) == 0 {
		return "The recording has no marks."
	}
	i := -1
	return chart.Sentences(f.Rows, func(r Row) (string, string) {
		i++
		return r.Label, " at " + f.value(i)
	})
}

// value says when mark i was reached.
func (f Figure) value(i int) string {
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

// since is the time from the mark before.
func (f Figure) since(i int) string {
	if i == 0 {
		return "–"
	}
	return "+" + f.Write(f.Rows[i].At-f.Rows[i-1].At)
}

// Table holds every mark.
func (f Figure) Table() chart.Table {
	t := chart.Table{Head: []string{"mark", "at", "uncertainty", "since the mark before", "seen by"}}
	for i, r := range f.Rows {
		uncertain := "unavailable"
		if chart.Known(r.Error) {
			uncertain = "none: reference clock"
			if *r.Error > 0 {
				uncertain = "± " + f.Write(*r.Error)
			}
		}
		t.Rows = append(t.Rows, []string{r.Label, f.Moment(r.At), uncertain, f.since(i), r.How})
	}
	return t
}

const (
	head   = 24.0
	step   = 26.0
	tall   = 42.0
	barH   = 11.0
	valueW = 210.0
)

// Draw draws the figure.
func (f Figure) Draw(id string, width float64) string {
	c := chart.NewRows(id, width, 10, valueW, f.Rows, func(r Row) string { return r.Label })
	row, line := step, step/2
	if c.Narrow {
		row, line = tall, 27
	}
	bottom := head + row*float64(len(f.Rows)) + 6
	lo, hi := f.ends()
	at := func(v float64) float64 { return c.X0 + min(max((v-lo)/(hi-lo), 0), 1)*(c.X1-c.X0) }
	values, size := chart.Ticks(lo, hi, int((c.X1-c.X0)/90))
	labels, name := chart.Labels(values, size, f.Unit)
	for i, v := range values {
		c.Tick(at(v), 14, head-4, bottom, labels[i]+" "+name)
	}
	for i, r := range f.Rows {
		y := head + row*float64(i) + 2
		c.Begin("row", r.Label+": "+f.value(i))
		c.Name(y, row, r.Label, f.value(i))
		from := lo
		if i > 0 {
			from = f.Rows[i-1].At
		}
		f.bar(c, at, r, from, y+line)
		c.End()
	}
	return c.SVG(bottom+4, f.Title(), f.Desc())
}

func (f Figure) bar(c chart.Rows, at func(float64) float64, r Row, from, y float64) {
	c.Bar(at(from), y-barH/2, at(r.At)-at(from), barH, chart.Baseline)
	c.Line(at(r.At), y-barH/2-3, at(r.At), y+barH/2+3, "estimate")
	if r.Error == nil {
		c.Text(min(at(r.At)+4, c.X1-8), y+4, chart.Start, "small", "?")
	} else if e := *r.Error; e > 0 {
		c.Whisker(at(r.At-e), at(r.At+e), y, false, false)
	}
}

// ends are the first and the last time on the axis.
func (f Figure) ends() (lo, hi float64) {
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
