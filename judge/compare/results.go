package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
)

// Results returns the result in the form of one run whose comparisons are NEW
// against OLD, for exports and for --fail-on. It holds the estimate that gets the
// verdict. NotInterleaved and Change.Withheld become gates that give the reason.
func (r Result) Results() analysis.Results {
	out := analysis.Results{
		Schema: analysis.ResultsSchema, Run: r.Old + " to " + r.New, Baseline: r.Old, Margin: r.Margin,
		Ended: r.ended, Twin: r.twin, Cells: r.cells, Comparisons: []analysis.Comparison{},
		Warnings: append([]string{r.Warning}, r.Warnings...),
	}
	rows := r.Rows
	if r.By == Direct {
		rows = append(append([]Row{}, r.Yardstick...), r.Rows...)
	}
	var without lists.Groups[[2]string, string] // contender and cell → metrics
	for _, row := range rows {
		c := row.Relative
		if r.By == Direct {
			c = row.Direct
		}
		if !row.Primary {
			continue
		}
		if c == nil || c.Verdict == "" {
			at := [2]string{row.Contender, row.Cell}
			without.Add(at, row.Metric)
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
		if c.Withheld != "" {
			name := completeGate
			if c.otherMachine {
				name = machineGate
			}
			x.Gates = append([]analysis.Gate{{Name: name, Reason: c.Withheld}}, x.Gates...)
		}
		if c.Exact && r.By == Direct {
			x.Exact = &analysis.Exact{Contender: *c.New, Baseline: *c.Old, Difference: *c.New - *c.Old,
				Trials: c.Blocks[0] + c.Blocks[1]}
		}
		out.Comparisons = append(out.Comparisons, x)
	}
	for at, metrics := range without.All() {
		out.Missing = append(out.Missing, analysis.Missing{Contender: at[0], Cell: at[1],
			Reason: strings.Join(metrics, ", ") + " cannot be compared: a run has no values for it"})
	}
	for _, x := range r.lost {
		m := analysis.Missing{Contender: cmp.Or(x.contender, "every contender"), Cell: cmp.Or(x.cell, EveryCell),
			Reason: "only OLD has it"}
		if x.metric != "" {
			m.Contender, m.Reason = "primary metric "+x.metric, "it is not a primary metric in NEW"
		}
		out.Missing = append(out.Missing, m)
	}
	return out
}

// EveryCell stands for all cells of a contender that NEW lacks.
const EveryCell = "every cell"

// completeGate is the gate of comparisons of which trials or values were lost.
const completeGate = "complete"

// machineGate is the gate of direct changes between different machines.
const machineGate = "machine"

// endOf is why both runs ended: OLD if it is not complete, otherwise NEW.
func endOf(old, now analysis.Results) string {
	switch old.Ended {
	case "", analysis.EndedInterrupted, analysis.EndedVoid:
		return old.Ended
	}
	return now.Ended
}

// Unplanned says how OLD and NEW differ from what they registered.
func (r Result) Unplanned() []string { return r.unplanned }

// MachinesDiffer reports whether verdicts are withheld because OLD and NEW were made on
// different machines.
func (r Result) MachinesDiffer() bool {
	return slices.ContainsFunc(slices.Concat(r.Yardstick, r.Rows), func(x Row) bool {
		return x.Direct != nil && x.Direct.otherMachine
	})
}

// twinOf returns the twin of both runs: one that differs, otherwise nil if a run has no twin,
// otherwise one that was not tested, otherwise that of NEW.
func twinOf(old, now analysis.Results) *analysis.Twin {
	both := []analysis.Results{old, now}
	run, found := lists.Find(both, func(r analysis.Results) bool { return r.Twin != nil && r.Twin.Different })
	if !found {
		if old.Twin == nil || now.Twin == nil {
			return nil
		}
		if run, found = lists.Find(both, func(r analysis.Results) bool { return !r.Twin.Tested() }); !found {
			run = now
		}
	}
	t := *run.Twin
	t.Name += " in run " + run.Run
	return &t
}

// Failed returns a line for each contender that failed trials at a cell of OLD or NEW.
// Results has no summaries, so that exports do not mix the values of two runs.
func (r Result) Failed() (out []string) {
	for _, row := range slices.Concat(r.Yardstick, r.Rows) {
		for i, n := range row.Failures {
			line := fmt.Sprintf("%s at %s failed in %s of %s", row.Contender, row.Cell, unit.Count(n, "trial"),
				sides[i])
			if n > 0 && !slices.Contains(out, line) {
				out = append(out, line)
			}
		}
	}
	return out
}
