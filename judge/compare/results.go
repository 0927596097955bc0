package compare

import (
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
)

// Results returns the result in the form of one run whose comparisons are NEW
// against OLD, for exports and for --fail-on. It holds the estimate that gets the
// verdict. NotInterleaved becomes inconclusive, with a gate that gives the reason.
func (r Result) Results() analysis.Results {
	out := analysis.Results{
		Schema: analysis.ResultsSchema, Run: r.Old + " to " + r.New, Baseline: r.Old, Margin: r.Margin,
		Comparisons: []analysis.Comparison{}, Warnings: append([]string{r.Warning}, r.Warnings...),
	}
	rows := r.Rows
	if r.By == Direct {
		rows = append(append([]Row{}, r.Yardstick...), r.Rows...)
	}
	for _, row := range rows {
		c := row.Relative
		if r.By == Direct {
			c = row.Direct
		}
		if !row.Primary {
			continue
		}
		if c == nil || c.Verdict == "" {
			out.Missing = append(out.Missing, analysis.Missing{Contender: row.Contender, Cell: row.Cell, Reason: row.Metric +
				" cannot be compared: a run has no values for it"})
			continue
		}
		alpha := 1 - row.Level
		x := analysis.Comparison{
			Contender: row.Contender, Baseline: "OLD", Cell: row.Cell, Workload: row.Workload, Metric: row.Metric,
			Unit: row.Unit, Better: row.Better, Scale: row.Scale, Primary: true, Blocks: min(c.Blocks[0], c.Blocks[1]),
			Alpha: &alpha, Ratio: c.Ratio, CI: c.CI, Verdict: c.Verdict, BeyondMargin: c.BeyondMargin,
			Gates: row.Gates, Warnings: row.Warnings,
		}
		if c.Verdict == NotInterleaved {
			x.Verdict = analysis.Inconclusive
			x.Gates = append([]analysis.Gate{{Name: string(NotInterleaved),
				Reason: "the change from run to run is unavailable"}}, x.Gates...)
		}
		if c.Exact && r.By == Direct {
			x.Exact = &analysis.Exact{Contender: *c.New, Baseline: *c.Old, Difference: *c.New - *c.Old,
				Trials: c.Blocks[0] + c.Blocks[1]}
		}
		out.Comparisons = append(out.Comparisons, x)
	}
	for _, what := range r.OnlyOld {
		m := analysis.Missing{Contender: "every contender", Cell: "every cell", Reason: "only OLD has it"}
		if kind, name, _ := strings.Cut(what, " "); kind == "cell" {
			m.Cell = name
		} else {
			m.Contender = name
		}
		out.Missing = append(out.Missing, m)
	}
	return out
}

// Failed returns a line for each contender that failed trials at a cell of OLD or NEW.
// Results has no summaries, so that exports do not mix the values of two runs.
func (r Result) Failed() (out []string) {
	for _, row := range slices.Concat(r.Yardstick, r.Rows) {
		for i, n := range row.Failures {
			line := fmt.Sprintf("%s at %s failed in %s of %s", row.Contender, row.Cell, unit.Count(n, "trial"),
				[]string{"OLD", "NEW"}[i])
			if n > 0 && !slices.Contains(out, line) {
				out = append(out, line)
			}
		}
	}
	return out
}
