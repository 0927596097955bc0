package series

import (
	"cmp"
	"fmt"
	"slices"

	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/judge/format"
)

// Rows returns the values as rows of a table with blocks, for analysis.AnalyseRows;
// none if they are not in blocks. They are in blocks if they come from one file that
// is in the order of measurement and names the block of every result, and if it has
// two contenders. why says what is missing, in a sentence, if only some of that holds.
func Rows(doc format.Doc, sources []Source, opt Option) (rows []analysis.Row, why []string, err error) {
	blocks, records := 0, 0
	for _, s := range sources {
		blocks += s.Blocks()
		records += len(s.Records)
	}
	if blocks == 0 || !doc.InOrder {
		return nil, nil, nil
	}
	sources, opt = ownNames(sources, opt)
	t, err := tabulate(doc, sources, opt)
	switch {
	case err != nil:
		return nil, nil, err
	case len(sources) > 1:
		return nil, []string{"The files name blocks, but their common order is unknown; write all results into one " +
			"file."}, nil
	case blocks < records:
		return nil, []string{fmt.Sprintf("Only %d of %d results have a block; name the block of each.", blocks,
			records)}, nil
	case len(t.contenders) < 2:
		return nil, []string{"The file names blocks; choose with --contender what to compare in them."}, nil
	}
	why = t.recordNotes()
	for _, key := range t.keys {
		m, sides := t.metrics[key], t.sides[key]
		if slices.ContainsFunc(t.contenders, func(who string) bool { return sides[who] != nil && sides[who].ofStats }) {
			why = append(why, fmt.Sprintf("%s of %s gets no verdict: the file has statistics instead of its values.", m.Name,
				key.cell))
			continue
		}
		if m.Better == "" {
			why = append(why, fmt.Sprintf("%s of %s gets no verdict: the file does not say which direction is better. Add a "+
				"line such as \"Unit %s better=lower\".", m.Name, key.cell, m.Name))
			continue
		}
		for _, s := range sides {
			if hasZero(s.values) {
				m.Scale = sample.Difference
			}
		}
		for _, who := range t.contenders {
			if s := sides[who]; s != nil {
				rows = append(rows, s.rowsOfSide(who, cmp.Or(key.cell, doc.Name), m)...)
			}
		}
	}
	return rows, why, nil
}

// rowsOfSide are the values of one side. Each record has one value of a metric.
func (s *side) rowsOfSide(who, workload string, m sample.Metric) (out []analysis.Row) {
	for i, rec := range s.records {
		out = append(out, analysis.Row{Line: rec.Line, Block: *rec.Block, Position: rec.Turn, Contender: who,
			Workload: workload, Metric: m, Value: s.values[i]})
	}
	return out
}

// Results returns r as the results of a run without blocks, for --fail-on:
// NotInterleaved becomes inconclusive, with a gate that gives the reason.
func (r Result) Results() analysis.Results {
	out := analysis.Results{Schema: analysis.ResultsSchema, Missing: r.Missing, Warnings: r.Warnings}
	for _, s := range r.Summaries {
		out.Summaries = append(out.Summaries, analysis.Summary{Contender: s.Contender, Cell: s.Cell, Metric: s.Metric,
			Unit: s.Unit, N: s.N, Failures: s.Failures, Median: s.Median, CI: s.CI})
	}
	for _, c := range r.Comparisons {
		out.Comparisons = append(out.Comparisons, analysis.Comparison{Contender: c.Contender, Baseline: c.Baseline,
			Cell: c.Cell, Metric: c.Metric, Unit: c.Unit, Better: c.Better, Scale: c.Scale, Primary: true, Ratio: c.Ratio,
			CI: c.CI, Verdict: analysis.Inconclusive, Warnings: c.Warnings,
			Gates: []analysis.Gate{{Name: string(NotInterleaved), Reason: "the values were not measured in blocks"}}})
	}
	return out
}
