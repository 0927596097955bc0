package format

import (
	"bytes"
	"math"
	"slices"

	"bakeoff/base/labeled"
	"bakeoff/base/sample"
)

// Part is a part of a text file: what one invocation of a program printed.
type Part struct {
	Line int // of its first line
	labeled.Text
}

// Parts splits a text file before each line that begins a part. It leaves out the text
// before the first one.
func Parts(data []byte, begins func(line []byte) bool) (out []Part) {
	number := 0
	for line := range bytes.Lines(TrimMark(data)) {
		number++
		if begins(bytes.TrimRight(line, "\r\n")) {
			out = append(out, Part{Line: number})
		}
		if len(out) > 0 {
			last := &out[len(out)-1]
			last.Text = append(last.Text, line...)
		}
	}
	return out
}

// Single is the series of one value.
func Single(m sample.Metric, v float64) Series { return Series{Metric: m, Values: []float64{v}} }

// AddNumber appends the number after a label in text, times factor, unless it is 0. A number
// that cannot be read, or that stands in two lines, is left out.
func (p *Problems) AddNumber(r *Record, text labeled.Text, label string, m sample.Metric, factor float64) {
	if !text.Has(label) {
		return
	}
	v, err := text.Number(label, "")
	if err != nil {
		p.LeaveOut(r.Line, "%s: %v", m.Name, err)
	}
	r.AddSingle(m, v*factor, err == nil && v > 0)
}

// AddSingle appends the series of one value if ok, unless r has the metric or the value
// is not finite.
func (r *Record) AddSingle(m sample.Metric, v float64, ok bool) {
	has := slices.ContainsFunc(r.Series, func(s Series) bool { return s.Metric.Name == m.Name })
	if ok && !has && !math.IsNaN(v) && !math.IsInf(v, 0) {
		r.Series = append(r.Series, Single(m, v))
	}
}
