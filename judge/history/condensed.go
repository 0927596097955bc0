package history

import (
	"math"

	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/judge/compare"
	"bakeoff/judge/stats"
)

// Known is the estimate of a contender at a cell and metric against the baseline, on the
// scale on which differences are taken, with how far its 95 % interval reaches.
type Known struct {
	Contender string   `json:"c"`
	Cell      string   `json:"k"`
	Metric    string   `json:"m"`
	Center    float64  `json:"v"`
	Below     *float64 `json:"b"` // null: there is no bound
	Above     *float64 `json:"a"`
	Blocks    int      `json:"n"`
	// Part is the number of blocks in which the contender took part (compare.Part); 0: unknown.
	Part int `json:"p,omitempty"`
}

// Condensed returns the run without samples, and with its primary metrics only if it has
// any: all that Of needs for compare.Relative. It has the same history as the run. It shares
// memory with r.
func (r Run) Condensed() Run {
	out := r.Primary()
	full := out.Results
	out.Results = analysis.Results{Run: full.Run, PlanSHA256: full.PlanSHA256, Baseline: full.Baseline,
		Margin: full.Margin, Ended: full.Ended, Blocks: full.Blocks, Contenders: full.Contenders, Cells: full.Cells}
	if full.Twin != nil {
		out.Results.Twin = &analysis.Twin{Name: full.Twin.Name, Different: full.Twin.Different}
	}
	for _, s := range full.Summaries {
		if s.Failures > 0 || s.Contender == full.Baseline { // its median is what margins are a share of
			out.Results.Summaries = append(out.Results.Summaries, analysis.Summary{Contender: s.Contender, Cell: s.Cell,
				Metric: s.Metric, Failures: s.Failures, Median: s.Median})
		}
	}
	for _, c := range full.Comparisons {
		if len(c.Gates) > 0 {
			out.Results.Comparisons = append(out.Results.Comparisons, analysis.Comparison{Contender: c.Contender,
				Cell: c.Cell, Metric: c.Metric, Gates: c.Gates[:1]})
		}
	}
	out.Known = []Known{}
	for _, cell := range full.Cells {
		for _, m := range cell.Metrics {
			for _, c := range full.Contenders {
				if c.TwinOf != "" || c.Name == full.Baseline {
					continue
				}
				if e := r.estimate(compare.Relative, c.Name, cell.Name, m); e.N > 0 {
					out.Known = append(out.Known, Known{c.Name, cell.Name, m.Name, e.Center, sample.Finite(e.Below),
						sample.Finite(e.Above), e.N, compare.Part(r.Results, c.Name)})
				}
			}
		}
	}
	return out
}

// has reports whether the run has an estimate.
func (r Run) has(by compare.By, contender, cell string, m sample.Metric) bool {
	if r.Known != nil {
		return r.estimate(by, contender, cell, m).N > 0
	}
	return len(compare.Values(r.Results, by, contender, cell, m.Name, m.Scale)) > 0
}

// part is the number of blocks in which a contender took part. If it is not known, it returns
// the number of all blocks that count, and false.
func (r Run) part(contender, cell, metric string) (blocks int, known bool) {
	if r.Known == nil {
		return compare.Part(r.Results, contender), true
	}
	k, ok := r.known(contender, cell, metric)
	if !ok || k.Part == 0 {
		return r.Results.Blocks, false
	}
	return k.Part, true
}

// known returns the estimate of a run without samples.
func (r Run) known(contender, cell, metric string) (Known, bool) {
	return lists.Find(r.Known, func(k Known) bool {
		return k.Contender == contender && k.Cell == cell && k.Metric == metric
	})
}

// estimate is what the run says of a contender; N is 0 if it says nothing.
func (r Run) estimate(by compare.By, contender, cell string, m sample.Metric) stats.Serial {
	if r.Known != nil {
		k, ok := r.known(contender, cell, m.Name)
		if !ok || by != compare.Relative {
			return stats.Serial{}
		}
		reach := func(v *float64) float64 {
			if v == nil {
				return math.Inf(1)
			}
			return *v
		}
		return stats.Serial{N: k.Blocks, Center: k.Center, Below: reach(k.Below), Above: reach(k.Above)}
	}
	values := compare.Values(r.Results, by, contender, cell, m.Name, m.Scale)
	if len(values) == 0 {
		return stats.Serial{}
	}
	s := stats.SerialCenter(values, runLevel)
	if math.IsInf(s.Below, 0) || math.IsInf(s.Above, 0) {
		s.Below, s.Above = fewValues(values), fewValues(values)
	}
	return s
}
