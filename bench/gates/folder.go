package main

import (
	"fmt"
	"slices"
	"strings"

	"bakeoff/lab/evidence"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/all"
)

// printFolder prints how many trials of a run failed which gate at each cell. If load came
// from another host, it also prints how many failed by that host's counters alone.
func (s study) printFolder(dir string) error {
	run, err := store.Open(dir)
	if err != nil {
		return err
	}
	defer run.Close()
	text, err := run.Plan()
	if err != nil {
		return err
	}
	p, err := plan.Decode(text)
	if err != nil {
		return err
	}
	lines, err := run.Journal()
	if err != nil {
		return err
	}
	var rows [][]string
	for _, c := range p.Cells {
		i := slices.IndexFunc(all.Parsers(), func(w workload.Parser) bool { return w.Doc().Name == c.Workload })
		if i < 0 {
			return fmt.Errorf("unknown workload %q", c.Workload)
		}
		t := tally{all: map[string]int{}, generator: map[string]int{}}
		if err := t.countTrials(run, all.Parsers()[i], p, c, lines); err != nil {
			return err
		}
		rows = append(rows, []string{c.Name, c.Workload, fmt.Sprint(t.trials), t.formatShares(t.all, t.trials),
			fmt.Sprint(t.elsewhere), t.formatShares(t.generator, t.elsewhere)})
	}
	s.printTable(fmt.Sprintf("Trials of %s, percent gated (95 %% interval)", run.Base()),
		[]string{"cell", "workload", "trials", "gates", "with load from another host", "gated by its counters alone"}, rows)
	return nil
}

// tally counts the gates that the trials of a cell failed.
type tally struct {
	trials, elsewhere int // elsewhere: with load from another host
	all, generator    map[string]int
}

func (t *tally) countTrials(run *store.Run, w workload.Parser, p *plan.Plan, c plan.Cell, lines []store.Line) error {
	for _, l := range lines {
		if l.Type != store.LineTrial || l.Cell != c.Name || l.Status != store.OK {
			continue
		}
		raw := workload.Raw{}
		for _, f := range l.Raw {
			b, err := run.ReadRaw(f)
			if err != nil {
				return err
			}
			raw[f.Name[strings.LastIndexByte(f.Name, '/')+1:]] = b
		}
		t.trials++
		own, _ := p.CellOf(l.Contender, c.Name)
		noteFailedGates(t.all, evidence.TrialOf(w, own, l, raw))
		if l.GeneratorBefore != nil && l.GeneratorAfter != nil {
			t.elsewhere++
			noteFailedGates(t.generator, evidence.Trial{Line: store.Line{Trial: &store.Trial{GeneratorBefore: l.GeneratorBefore,
				GeneratorAfter: l.GeneratorAfter}}})
		}
	}
	return nil
}

// noteFailedGates counts the gates that one trial fails.
func noteFailedGates(into map[string]int, trial evidence.Trial) {
	for _, g := range evidence.Gates() {
		if g.Failed(trial) != "" {
			into[g.Name]++
		}
	}
}

// formatShares formats the failed gates of n trials.
func (t *tally) formatShares(failed map[string]int, n int) string {
	var parts []string
	for _, g := range evidence.Gates() {
		if k := failed[g.Name]; k > 0 {
			parts = append(parts, g.Name+" "+shareText(k, n))
		}
	}
	if len(parts) == 0 && n > 0 {
		return "none " + shareText(0, n)
	}
	return strings.Join(parts, ", ")
}
