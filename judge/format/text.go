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

// Parts splits a text file before each line that begins a part. What stands before the
// first one is no part.
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

// AddSingle appends the series of one value if ok, unless r has the metric or the value
// is not finite.
func (r *Record) AddSingle(m sample.Metric, v float64, ok bool) {
	has := slices.ContainsFunc(r.Series, func(s Series) bool { return s.Metric.Name == m.Name })
	if ok && !has && !math.IsNaN(v) && !math.IsInf(v, 0) {
		r.Series = append(r.Series, Single(m, v))
	}
}
