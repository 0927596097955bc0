package compare

import (
	"maps"
	"math"
	"slices"

	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
)

// cellMetric identifies a summary of a contender.
type cellMetric struct{ cell, metric string }

func summary(run analysis.Results, contender string, key cellMetric) (analysis.Summary, bool) {
	for _, s := range run.Summaries {
		if s.Contender == contender && s.Cell == key.cell && s.Metric == key.metric {
			return s, true
		}
	}
	return analysis.Summary{}, false
}

func failures(run analysis.Results, contender string, key cellMetric) int {
	s, _ := summary(run, contender, key)
	return s.Failures
}

// typicalSize returns the median size of a contender's values; 0 without values.
func typicalSize(run analysis.Results, contender string, key cellMetric) float64 {
	s, ok := summary(run, contender, key)
	if !ok || s.Median == nil {
		return 0
	}
	return math.Abs(*s.Median)
}

// blockValues returns the value of each block in which a contender has all its trials:
// their mean on the scale on which differences are taken. A block without one of
// its trials would compare other moments than its neighbors.
func blockValues(run analysis.Results, contender string, key cellMetric, scale sample.Scale) map[int]float64 {
	s, _ := summary(run, contender, key)
	sum, n := map[int]float64{}, map[int]int{}
	full := 0
	for _, p := range s.Samples {
		v := p.Value
		if scale != sample.Difference {
			if !(v > 0) {
				continue
			}
			v = math.Log(v)
		}
		if math.IsInf(v, 0) || math.IsNaN(v) {
			continue
		}
		sum[p.Block] += v
		n[p.Block]++
		full = max(full, n[p.Block])
	}
	for b := range sum {
		if n[b] < full {
			delete(sum, b)
			continue
		}
		sum[b] /= float64(full)
	}
	return sum
}

// directValues returns the values of a contender's blocks, in order.
func directValues(run analysis.Results, contender string, key cellMetric, scale sample.Scale) []float64 {
	return inOrder(blockValues(run, contender, key, scale))
}

// relative returns the values of a contender's blocks minus those of the baseline,
// in order.
func relative(run analysis.Results, contender, baseline string, key cellMetric, scale sample.Scale) []float64 {
	own, base := blockValues(run, contender, key, scale), blockValues(run, baseline, key, scale)
	for b := range own {
		if v, ok := base[b]; ok {
			own[b] -= v
		} else {
			delete(own, b)
		}
	}
	return inOrder(own)
}

func inOrder(m map[int]float64) []float64 {
	return lists.Map(slices.Sorted(maps.Keys(m)), func(b int) float64 { return m[b] })
}
