package analysis

import (
	"math"
	"slices"

	"bakeoff/base/sample"
	"bakeoff/judge/stats"
)

// Geomean is the geometric mean of the ratios of a contender to the baseline over the
// cells that both sides have. It is a summary without a verdict.
type Geomean struct {
	Contender string        `json:"contender"`
	Baseline  string        `json:"baseline"`
	Group     string        `json:"group,omitempty"`
	Metric    string        `json:"metric"`
	Better    sample.Better `json:"better"`
	// Cells is how many cells have a ratio. LeftOut is how many others both sides have:
	// a cell with a value of 0 or less, or with a failed trial, has no ratio.
	Cells   int `json:"cells"`
	LeftOut int `json:"left_out"`
	// Blocks is how many blocks have all of the cells; absent for values without blocks.
	Blocks int      `json:"blocks,omitempty"`
	Ratio  *float64 `json:"ratio"`
	// CI is null if the data give no interval.
	CI Interval `json:"ci"`
}

// GeomeanLevel is the coverage of the interval of a Geomean.
const GeomeanLevel = 0.95

// geomeans returns the means of all contenders and metrics with two cells or more. Each
// block that has all of the cells gives one value, the mean of the logarithms of their
// ratios. The center and the interval are the Hodges–Lehmann estimate of these values,
// so noise that the cells of a block share is in the interval. It uses all blocks, and
// belongs to no family of comparisons.
func geomeans(d *Data) (out []Geomean) {
	t := indexObservations(d)
	base, ok := t.contenders[d.Baseline]
	if !ok {
		return nil
	}
	for who, c := range d.Contenders {
		if who == base {
			continue
		}
		for _, m := range ratioMetrics(d.Cells) {
			g := Geomean{Contender: c.Name, Baseline: d.Baseline, Metric: m.Name, Better: m.Better}
			var cells []map[int]float64
			for k, cell := range d.Cells {
				if !slices.ContainsFunc(cell.Metrics, func(x sample.Metric) bool { return sameDirection(x, m) }) {
					continue
				}
				switch values, whole := blockRatios(t.series[who][k], t.series[base][k], m); {
				case whole && len(values) > 0:
					cells = append(cells, values)
				case !whole:
					g.LeftOut++
				}
			}
			g.Cells = len(cells)
			if g.Cells < 2 {
				continue
			}
			var means []float64
			for _, b := range t.blocks {
				sum, n := 0.0, 0
				for _, values := range cells {
					if v, ok := values[b]; ok {
						sum += v
						n++
					}
				}
				if n == len(cells) {
					means = append(means, sum/float64(n))
				}
			}
			g.Blocks = len(means)
			e := stats.HodgesLehmann(means, GeomeanLevel)
			g.Ratio = Shown(e.Value, sample.Ratio)
			g.CI = Interval{Shown(e.Lo, sample.Ratio), Shown(e.Hi, sample.Ratio)}
			out = append(out, g)
		}
	}
	return out
}

// ratioMetrics are the metrics of scale ratio, one for each name and direction.
func ratioMetrics(cells []Cell) (out []sample.Metric) {
	for _, c := range cells {
		for _, m := range c.Metrics {
			if m.Scale != sample.Difference && !slices.ContainsFunc(out, func(x sample.Metric) bool {
				return sameDirection(x, m)
			}) {
				out = append(out, m)
			}
		}
	}
	return out
}

func sameDirection(a, b sample.Metric) bool {
	return a.Name == b.Name && a.Better == b.Better && (a.Scale == sample.Difference) == (b.Scale == sample.Difference)
}

// blockRatios returns the logarithm of the ratio of two sides in each block; not whole
// if a trial failed.
func blockRatios(us, them series, m sample.Metric) (out map[int]float64, whole bool) {
	blocks, trials := pairBlocks(us, them, m, 0)
	out = map[int]float64{}
	for i, b := range blocks {
		end := len(trials.Value)
		if i+1 < len(blocks) {
			end = trials.Start[i+1]
		}
		var sum [2]float64
		var n [2]float64
		for j := trials.Start[i]; j < end; j++ {
			side := 0
			if trials.Side[j] < 0 {
				side = 1
			}
			sum[side] += trials.Value[j]
			n[side]++
		}
		v := sum[0]/n[0] - sum[1]/n[1]
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return nil, false
		}
		out[b.index] = v
	}
	return out, true
}
