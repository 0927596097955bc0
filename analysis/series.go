package analysis

import (
	"cmp"
	"math"
	"slices"

	"bakeoff/sample"
)

// series are the trials of one contender in one cell by block and position.
type series []*Observation

// table gives every contender and cell its series.
type table struct {
	contenders, cells map[string]int
	series            [][]series // by contender, cell
	blocks            []int      // distinct indexes, ascending
	gates             bool       // some trial failed a gate
}

func index(d *Data) *table {
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
			continue // not part of what was registered
		}
		t.series[c][k] = append(t.series[c][k], o)
		t.gates = t.gates || len(o.Gates) > 0
		if o.Block != last {
			last = o.Block
			blocks[last] = true
		}
	}
	for b := range blocks {
		t.blocks = append(t.blocks, b)
	}
	slices.Sort(t.blocks)
	for _, row := range t.series {
		for _, s := range row {
			slices.SortStableFunc(s, func(a, b *Observation) int {
				return cmp.Or(cmp.Compare(a.Block, b.Block), cmp.Compare(a.Position, b.Position))
			})
		}
	}
	return t
}

// through is the part of s in blocks up to and including last.
func (s series) through(last int) series {
	n, _ := slices.BinarySearchFunc(s, last, func(o *Observation, b int) int {
		if o.Block <= b {
			return -1
		}
		return 1
	})
	return s[:n]
}

// side is what one contender has in one block for one metric.
type side struct {
	block  int
	trials int
	lacks  int     // trials that did not fail and have no value of the metric
	failed int     // trials that count as the worst possible value
	mean   float64 // of the logarithms, or of the values; ±Inf with a failure
}

// reading is the value of a metric in a trial.
type reading struct {
	value         float64
	failed, lacks bool
}

// read takes a metric from a trial. What cannot be measured on the metric's
// scale (not finite, or not positive on the ratio scale) counts as the worst
// possible value: dropping it would favour whoever failed.
func read(o *Observation, m sample.Metric) reading {
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

// sides folds a series into blocks.
func (s series) sides(m sample.Metric) []side {
	worst := math.Inf(-1)
	if m.Better == sample.Lower {
		worst = math.Inf(1)
	}
	var out []side
	for i := 0; i < len(s); {
		b := side{block: s[i].Block}
		for ; i < len(s) && s[i].Block == b.block; i++ {
			b.trials++
			switch r := read(s[i], m); {
			case r.lacks:
				b.lacks++
			case r.failed:
				b.failed++
				b.mean = worst
			case m.Scale == sample.Difference:
				b.mean += r.value
			default:
				b.mean += math.Log(r.value)
			}
		}
		b.mean /= float64(b.trials)
		out = append(out, b)
	}
	return out
}

// contrast is what one block says of a comparison.
type contrast struct {
	block  int
	d      float64
	trials int // of each side
	failed Failures
}

// contrasts pairs the blocks in which both sides have all their trials.
func contrasts(contender, baseline []side, trials int) []contrast {
	var out []contrast
	for i, j := 0, 0; i < len(contender) && j < len(baseline); {
		c, b := contender[i], baseline[j]
		switch {
		case c.block < b.block:
			i++
			continue
		case c.block > b.block:
			j++
			continue
		}
		i++
		j++
		if c.trials != b.trials || trials > 0 && c.trials != trials || c.lacks+b.lacks > 0 {
			continue
		}
		d := c.mean - b.mean
		if d != d {
			d = 0 // both failed: they did equally badly, a tie
		}
		out = append(out, contrast{c.block, d, c.trials, Failures{c.failed, b.failed, c.trials}})
	}
	return out
}

// succeeded tells whether any trial gave a value for any metric of the cell.
func (s series) succeeded(cell Cell) bool {
	for _, o := range s {
		for _, m := range cell.Metrics {
			if r := read(o, m); !r.failed && !r.lacks {
				return true
			}
		}
	}
	return false
}
