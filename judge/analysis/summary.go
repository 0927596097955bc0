package analysis

import (
	"math"

	"bakeoff/base/sample"
	"bakeoff/judge/stats"
)

// summarise describes one contender on one metric; false if no trial has a value or
// failed.
//
// The interval is that of the medians of the blocks: trials of one block share
// their environment and are not replicates. It is widened to contain the median of
// all points if necessary.
//
// An exact metric is deterministic if at least the given number of trials agree.
func summarise(s series, contender, cell string, m sample.Metric, repeats int) (Summary, bool) {
	out := Summary{Contender: contender, Cell: cell, Metric: m.Name, Unit: m.Unit, Samples: []Point{}}
	var all, block, medians []float64
	flush := func() {
		if len(block) > 0 {
			medians = append(medians, stats.Median(block))
			block = block[:0]
		}
	}
	out.Samples = make([]Point, 0, len(s))
	all = make([]float64, 0, len(s))
	for i, o := range s {
		if i > 0 && o.Block != s[i-1].Block {
			flush()
		}
		r := readMetric(o, m)
		switch {
		case r.lacks:
			continue
		case r.failed:
			out.Failures++
			out.FailedAt = append(out.FailedAt, Place{Block: o.Block, Position: o.Position, Instance: o.Instance})
			continue
		}
		block = append(block, r.value)
		all = append(all, r.value)
		out.Samples = append(out.Samples, Point{Block: o.Block, Position: o.Position, Instance: o.Instance, Value: r.value})
	}
	flush()
	out.N = len(all)
	if out.N == 0 {
		return out, out.Failures > 0
	}
	_, agreed := s.agreedValue(m, math.MaxInt)
	out.Deterministic = m.Exact && agreed >= repeats
	median := stats.Median(all)
	e := stats.MedianInterval(medians, 0.95)
	out.Median = sample.Finite(median)
	out.CI = Interval{sample.Finite(min(e.Lo, median)), sample.Finite(max(e.Hi, median))}
	if out.CI[0] != nil {
		out.CILevel = &e.Actual
	}
	return out, true
}
