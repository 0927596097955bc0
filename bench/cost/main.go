// Command cost compares CPU time in nanoseconds with CPU time in ticks, on the
// trials of an existing run. For both it prints how many trials have a cost, the
// median cost and its scatter. It also prints the error of the ticks of a trial, and
// the CPU time of the environment's own control group. On a machine that other
// programs use, their work is part of the costs; the last two figures still show how
// exact ticks are.
//
//	bakeoff run bench/cost --out /tmp/runs
//	go run ./bench/cost /tmp/runs/…-low-rate
//
// bench/cost/bakeoff.yaml runs a server at 20 and 100 requests a second for half a
// second. It needs root, nginx and crun, and takes four minutes. Any run folder works
// if its cells measure a cost in CPU time on a host that has more than ticks.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"text/tabwriter"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/stats"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/all"
	"bakeoff/reach/wire"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "cost: give one run folder, made by `bakeoff run bench/cost`")
		os.Exit(2)
	}
	if err := reportCosts(os.Stdout, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "cost:", err)
		os.Exit(1)
	}
}

func reportCosts(w io.Writer, dir string) error {
	run, err := store.Open(dir)
	if err != nil {
		return err
	}
	defer run.Close()
	rows, err := readTrials(run)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(rows, func(r *row) bool { return r.source != facts.SourceTicks }) {
		return fault.New(fault.Unsupported, "%s has no cost from a source finer than ticks", dir)
	}
	return writeTable(w, rows)
}

// row holds the costs of a contender at a cell, for one metric.
type row struct {
	cell, contender string
	metric          sample.Metric
	source          string    // of the finer time
	fine, ticks     []float64 // by trial; NaN if it has none
	off, own        []float64 // seconds of a trial: ticks minus nanoseconds, and the environment's own
}

// readTrials parses every successful trial twice: with everything its host counted, and
// with ticks only.
func readTrials(run *store.Run) (rows []*row, err error) {
	text, err := run.Plan()
	if err != nil {
		return nil, err
	}
	p, err := plan.Decode(text)
	if err != nil {
		return nil, err
	}
	lines, err := run.Journal()
	if err != nil {
		return nil, err
	}
	for _, l := range lines {
		if l.Trial == nil || l.Status != store.OK || l.Before == nil || l.After == nil {
			continue
		}
		cell, _ := p.CellOf(l.Contender, l.Cell)
		w := parserNamed(cell.Workload)
		if w == nil {
			return nil, fault.New(fault.Unsupported, "unknown workload %q of cell %q", cell.Workload, l.Cell)
		}
		fine, ticks, err := parseTwice(run, l, w, cell)
		if err != nil {
			return nil, err
		}
		for _, m := range w.Doc().Metrics {
			if m.CPUTime && strings.HasPrefix(m.Name, "cpu-per-") {
				r := rowOf(&rows, l, m)
				r.fine, r.ticks = append(r.fine, valueOf(fine, m)), append(r.ticks, valueOf(ticks, m))
				r.addHostTime(l.After.Since(*l.Before))
			}
		}
	}
	return rows, nil
}

func parserNamed(name string) workload.Parser {
	list := all.Parsers()
	i := slices.IndexFunc(list, func(w workload.Parser) bool { return w.Doc().Name == name })
	if i < 0 {
		return nil
	}
	return list[i]
}

// rowOf finds the row of a trial and metric, or adds it.
func rowOf(rows *[]*row, l store.Line, m sample.Metric) *row {
	i := slices.IndexFunc(*rows, func(r *row) bool {
		return r.cell == l.Cell && r.contender == l.Contender && r.metric.Name == m.Name
	})
	if i < 0 {
		i = len(*rows)
		*rows = append(*rows, &row{cell: l.Cell, contender: l.Contender, metric: m,
			source: l.After.Since(*l.Before).CPUSource})
	}
	return (*rows)[i]
}

// valueOf returns the value of a metric, NaN if there is none.
func valueOf(values []sample.Value, m sample.Metric) float64 {
	for _, v := range values {
		if v.Metric == m.Name {
			return v.Value
		}
	}
	return math.NaN()
}

// addHostTime records what the host counted in a trial.
func (r *row) addHostTime(d facts.Counters) {
	if d.TaskNS != nil && d.CPU != nil {
		r.off = append(r.off, d.CPU.Busy()-float64(*d.TaskNS)/1e9)
	}
	if d.Scope != nil && d.Scope.CPUSeconds != nil {
		r.own = append(r.own, *d.Scope.CPUSeconds)
	}
}

// parseTwice parses a trial with everything its host counted, and without the
// nanoseconds.
func parseTwice(run *store.Run, l store.Line, w workload.Parser, cell plan.Cell) (fine, ticks []sample.Value,
	err error) {
	raw := workload.Raw{}
	for _, f := range l.Raw {
		if raw[path.Base(f.Name)], err = run.ReadRaw(f); err != nil {
			return nil, nil, err
		}
	}
	if fine, err = w.Parse(raw, cell.Params); err != nil {
		return nil, nil, err
	}
	if raw[workload.Host], err = inTicks(raw[workload.Host]); err != nil {
		return nil, nil, err
	}
	ticks, err = w.Parse(raw, cell.Params)
	return fine, ticks, err
}

// inTicks returns what a host that has only ticks would have reported.
func inTicks(host []byte) ([]byte, error) {
	var span wire.Span
	if err := json.Unmarshal(host, &span); err != nil {
		return nil, err
	}
	for _, c := range []*facts.Counters{&span.Before, &span.After} {
		c.TaskNS, c.CPUSource = nil, facts.SourceTicks
	}
	return json.Marshal(span)
}

func writeTable(out io.Writer, rows []*row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "cell\tcontender\tmetric\tsource\ttrials with a cost\tmedian\tdeviation\terror of the ticks of a "+
		"trial\tCPU time of its environment")
	slices.SortStableFunc(rows, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.cell, b.cell),
			cmp.Compare(a.contender, b.contender))
	})
	for _, r := range rows {
		about := "\t"
		for _, side := range []struct {
			source string
			values []float64
		}{{r.source, r.fine}, {facts.SourceTicks, r.ticks}} {
			known := slices.DeleteFunc(slices.Clone(side.values), math.IsNaN)
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d of %d\t%s\t%s\t%s\n", r.cell, r.contender, r.metric.Name, side.source,
				len(known), len(side.values), unit.Format(stats.Median(known), r.metric.Unit),
				unit.Format(100*deviation(known), "%"), about)
			about = unit.Format(rootMeanSquare(r.off), "s") + "\t" + unit.Format(stats.Median(r.own), "s")
		}
	}
	return w.Flush()
}

// deviation returns the standard deviation of single trials as a share of their
// mean, NaN for fewer than two.
func deviation(xs []float64) float64 {
	var mean, squares float64
	for _, x := range xs {
		mean += x / float64(len(xs))
	}
	for _, x := range xs {
		squares += (x - mean) * (x - mean)
	}
	return math.Sqrt(squares/float64(len(xs)-1)) / mean
}

// rootMeanSquare returns the root mean square, NaN for no values.
func rootMeanSquare(xs []float64) float64 {
	squares := lists.Sum(xs, func(x float64) float64 { return x * x })
	return math.Sqrt(squares / float64(len(xs)))
}
