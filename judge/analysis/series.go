package analysis

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"bakeoff/base/sample"
	"bakeoff/judge/stats"
)

// series are the trials of one contender in one cell by block and position.
type series []*Observation

// table has the series of every contender and cell.
type table struct {
	contenders, cells map[string]int
	series            [][]series // by contender, cell
	blocks            []int      // distinct indexes, ascending
	gates             bool       // some trial failed a gate
}

func indexObservations(d *Data) *table {
	t := &table{contenders: map[string]int{}, cells: map[string]int{}}
	for i, c := range d.Contenders {
		t.contenders[c.Name] = i
	}
	for i, c := range d.Cells {
		t.cells[c.Name] = i
	}
	t.series = make([][]series, len(d.Contenders))
	for i := range t.series {
		t.series[i] = make([]series, len(d.Cells))
	}
	blocks := map[int]bool{}
	last := math.MinInt
	for i := range d.Observations {
		o := &d.Observations[i]
		c, ok := t.contenders[o.Contender]
		k, ok2 := t.cells[o.Cell]
		if !ok || !ok2 {
			continue // not registered
		}
		t.series[c][k] = append(t.series[c][k], o)
		t.gates = t.gates || len(o.Gates) > 0
		if o.Block != last {
			last = o.Block
			blocks[last] = true
		}
	}
	t.blocks = slices.Sorted(maps.Keys(blocks))
	for _, row := range t.series {
		for _, s := range row {
			slices.SortStableFunc(s, func(a, b *Observation) int {
				return cmp.Or(cmp.Compare(a.Block, b.Block), cmp.Compare(a.Position, b.Position))
			})
		}
	}
	return t
}

// through returns the part of s in blocks up to and including last.
func (s series) through(last int) series {
	n, _ := slices.BinarySearchFunc(s, last, func(o *Observation, b int) int {
		if o.Block <= b {
			return -1
		}
		return 1
	})
	return s[:n]
}

// reading is the value of a metric in a trial.
type reading struct {
	value         float64
	failed, lacks bool
}

// readMetric returns the value of a metric in a trial. A value that does not exist on the
// metric's scale (not finite, or not positive for ratios) counts as the worst
// possible value: dropping it would favor the side that failed.
func readMetric(o *Observation, m sample.Metric) reading {
	if o.Failed {
		return reading{failed: true}
	}
	for _, v := range o.Values {
		if v.Metric == m.Name {
			bad := math.IsNaN(v.Value) || math.IsInf(v.Value, 0) || m.Scale != sample.Difference && v.Value <= 0
			return reading{value: v.Value, failed: bad}
		}
	}
	return reading{lacks: true}
}

// block is one block that counts for a comparison.
type block struct {
	index  int
	first  int8 // side of its first trial
	turn   int8 // side whose trials ran earlier, 0 where neither's did
	failed Failures
}

// pairBlocks merges the trials of two sides, block by block, in the order in which they
// ran. A block counts if both sides have all their trials in it and every trial
// gave the metric or failed.
func pairBlocks(us, them series, m sample.Metric, trials int) ([]block, stats.Trials) {
	worst := math.Inf(-1)
	if m.Better == sample.Lower {
		worst = math.Inf(1)
	}
	blocks := make([]block, 0, len(us)/2) // each side has two trials in most blocks
	t := stats.Trials{Value: make([]float64, 0, len(us)+len(them)), Side: make([]int8, 0, len(us)+len(them))}
	for len(us) > 0 && len(them) > 0 {
		at := min(us[0].Block, them[0].Block)
		var a, b series
		a, us = us.cutBlock(at)
		b, them = them.cutBlock(at)
		if len(a) != len(b) || trials > 0 && len(a) != trials {
			continue
		}
		start := len(t.Value)
		x := block{index: at, failed: Failures{Of: len(a)}}
		lacks := false
		for len(a)+len(b) > 0 {
			side, o := int8(1), (*Observation)(nil)
			if len(b) == 0 || len(a) > 0 && a[0].Position <= b[0].Position {
				o, a = a[0], a[1:]
			} else {
				side, o, b = -1, b[0], b[1:]
			}
			r := readMetric(o, m)
			v := r.value
			switch {
			case r.lacks:
				lacks = true
			case r.failed:
				v = worst
				if side > 0 {
					x.failed.Contender++
				} else {
					x.failed.Baseline++
				}
			case m.Scale != sample.Difference:
				v = math.Log(v)
			}
			t.Value = append(t.Value, v)
			t.Side = append(t.Side, side)
		}
		if lacks {
			t.Value, t.Side = t.Value[:start], t.Side[:start]
			continue
		}
		x.first, x.turn = t.Side[start], earlierSide(t.Side[start:])
		t.Start = append(t.Start, start)
		blocks = append(blocks, x)
	}
	return blocks, t
}

// absenceReason is why the trials have no value of a metric; "" if they do not say.
func (s series) absenceReason(metric string) string {
	for _, o := range s {
		if why := o.Absent[metric]; why != "" {
			return why
		}
	}
	return ""
}

// cutBlock splits off the trials of the block at the head of s, if it is block at.
func (s series) cutBlock(at int) (head, rest series) {
	n := 0
	for n < len(s) && s[n].Block == at {
		n++
	}
	return s[:n], s[n:]
}

// medianSize returns the median absolute value of a series.
func (s series) medianSize(m sample.Metric) float64 {
	var all []float64
	for _, o := range s {
		if r := readMetric(o, m); !r.failed && !r.lacks {
			all = append(all, math.Abs(r.value))
		}
	}
	if len(all) == 0 {
		return 0
	}
	return stats.Median(all)
}

// succeeded reports whether any trial has a value for any metric of the cell.
func (s series) succeeded(cell Cell) bool {
	return slices.ContainsFunc(s, func(o *Observation) bool {
		return slices.ContainsFunc(cell.Metrics, func(m sample.Metric) bool {
			r := readMetric(o, m)
			return !r.failed && !r.lacks
		})
	})
}
