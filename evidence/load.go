// Package evidence reads a run folder back: from the journal and the raw
// outputs alone it makes the observations that the analysis compares, and it
// verifies that a folder is what it says.
//
// It is the only way from trials to verdicts. The controller that ran them
// uses it too, so that a stranger with the folder gets the same numbers.
package evidence

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"bakeoff/agent"
	"bakeoff/analysis"
	"bakeoff/fault"
	"bakeoff/plan"
	"bakeoff/store"
	"bakeoff/workload"
)

// Load reads run and parses every raw output of a block that counts. A
// block counts when its line in the journal says that it ended well; one
// that was interrupted, or that has no line, does not.
//
// The plan must be the one whose hash the journal begins with. Raw files
// whose hash differs, and bytes that their parser cannot read, are errors.
func Load(run *store.Run, workloads []workload.Workload) (analysis.Data, error) {
	l, err := load(run, workloads)
	return l.data, err
}

// loader is the state of one Load.
type loader struct {
	run       *store.Run
	workloads []workload.Workload
	plan      *plan.Plan
	lines     []store.Line
	data      analysis.Data
}

func load(run *store.Run, workloads []workload.Workload) (*loader, error) {
	l := &loader{run: run, workloads: workloads}
	text, err := run.Plan()
	if err != nil {
		return l, err
	}
	if l.plan, err = plan.Decode(text); err != nil {
		return l, err
	}
	if l.lines, err = run.Journal(); err != nil {
		return l, err
	}
	if hash := plan.Hash(text); l.lines[0].PlanSHA256 != hash {
		return l, fault.New(fault.Invalid, "the journal was begun with the plan %.12s…, %s is %.12s…: not as planned",
			l.lines[0].PlanSHA256, store.PlanFile, hash)
	}
	l.design()
	if err := l.facts(); err != nil {
		return l, err
	}
	return l, l.observe()
}

// design copies what was registered.
func (l *loader) design() {
	p := l.plan
	d := &l.data
	d.Run, d.PlanSHA256, d.Seed = l.run.Base(), l.lines[0].PlanSHA256, p.Seed
	d.Baseline, d.Twin = p.Baseline, p.Twin
	d.Margin, d.Looks, d.Alphas = p.Design.Margin, p.Design.Looks, p.Design.Alphas
	d.Scope = analysis.ScopeMachine
	if p.Design.Instances == "run" {
		d.Scope = analysis.ScopeInstance
	}
	for _, c := range p.Cells {
		d.Cells = append(d.Cells, analysis.Cell{Name: c.Name, Workload: c.Workload, Params: c.Params, Metrics: c.Metrics})
	}
	for _, c := range p.Contenders {
		d.Contenders = append(d.Contenders, analysis.Contender{Name: c.Name, Driver: c.Driver, Host: c.Host, TwinOf: c.TwinOf})
	}
	for _, line := range l.lines {
		switch {
		case line.Type == store.LineResume:
			d.Ended = ""
		case line.Type == store.LineEnd:
			d.Ended = line.Reason
		case line.Type == store.LineBlock && line.Status != store.OK:
			d.Void++
		}
	}
}

// facts reads the fingerprints. What the driver says of an environment goes
// to the contender; it is what was meant to differ.
func (l *loader) facts() error {
	l.data.Facts = map[string]map[string]string{}
	meant := map[string]bool{}
	for i := range l.data.Contenders {
		c := &l.data.Contenders[i]
		fp, err := l.run.Fingerprint(c.Name)
		if fault.Is(err, fault.NotFound) {
			continue // it never came up
		}
		if err != nil {
			return err
		}
		c.Facts = map[string]string{}
		for name, value := range fp.Facts {
			if own, ok := strings.CutPrefix(name, "driver."); ok {
				c.Facts[own] = value
				meant[name] = true
			}
		}
		l.data.Facts[c.Name] = fp.Facts
	}
	for name := range meant {
		l.data.Meant = append(l.data.Meant, name)
	}
	slices.Sort(l.data.Meant)
	return nil
}

// observe turns the trials of blocks that count into observations, and says
// why a contender has none.
func (l *loader) observe() error {
	counts := map[int]bool{}
	for _, line := range l.lines {
		if line.Type == store.LineBlock {
			counts[line.Block] = line.Status == store.OK
		}
	}
	seen := map[string]bool{}
	why := map[string]string{}
	for _, line := range l.lines {
		switch {
		case line.Type == store.LineEnvironment && line.Status != store.OK:
			why[line.Contender] = line.Reason
		case line.Type == store.LineTrial && counts[line.Block]:
			o, err := l.observation(line)
			if err != nil {
				return err
			}
			l.data.Observations = append(l.data.Observations, o)
			seen[line.Contender] = true
		}
	}
	for _, c := range l.plan.Contenders {
		if reason := why[c.Name]; reason != "" && !seen[c.Name] {
			for _, cell := range l.plan.Cells {
				l.data.Missing = append(l.data.Missing, analysis.Missing{Contender: c.Name, Cell: cell.Name, Reason: reason})
			}
		}
	}
	return nil
}

// observation parses one trial. The journal's word that the subject failed
// stands; a trial that the journal calls good and the parser does not is the
// subject's failure as well.
func (l *loader) observation(line store.Line) (analysis.Observation, error) {
	o := analysis.Observation{Block: line.Block, Position: line.Position, Instance: line.Instance,
		Contender: line.Contender, Cell: line.Cell, Failed: line.Status == store.Subject, Reason: line.Reason}
	where := fmt.Sprintf("block %d, position %d, %s on %s", line.Block, line.Position, line.Cell, line.Contender)
	cell, ok := l.plan.Cell(line.Cell)
	if !ok {
		return o, fault.New(fault.Invalid, "%s: the plan has no such cell", where)
	}
	w := slices.IndexFunc(l.workloads, func(w workload.Workload) bool { return w.Doc().Name == cell.Workload })
	if w < 0 {
		return o, fault.New(fault.Unsupported, "%s: this program does not have the workload %q", where, cell.Workload)
	}
	raw, err := l.raw(line)
	if err != nil {
		return o, fault.Op(where, err)
	}
	o.Gates = l.gates(cell, line, raw)
	if o.Failed {
		return o, nil
	}
	o.Values, err = l.workloads[w].Parse(raw, cell.Params)
	switch {
	case fault.Is(err, fault.Subject):
		o.Failed, o.Reason, o.Values = true, err.Error(), nil
	case err != nil:
		return o, fault.Op(where, err)
	}
	return o, nil
}

// raw reads the blobs of a trial, by their names inside its directory.
func (l *loader) raw(line store.Line) (workload.Raw, error) {
	raw := workload.Raw{}
	for _, f := range line.Raw {
		b, err := l.run.ReadRaw(f)
		if err != nil {
			return nil, err
		}
		raw[f.Name[strings.LastIndexByte(f.Name, '/')+1:]] = b
	}
	return raw, nil
}

// gates returns the gates that a trial failed, by name, with the reason.
func (l *loader) gates(cell plan.Cell, line store.Line, raw workload.Raw) map[string]string {
	t := Trial{Cell: cell, Line: line}
	var work agent.Result
	if b, ok := raw[workload.Work]; ok && json.Unmarshal(b, &work) == nil {
		t.Work = &work
	}
	var out map[string]string
	for _, g := range Gates() {
		if reason := g.Failed(t); reason != "" {
			if out == nil {
				out = map[string]string{}
			}
			out[g.Name] = reason
		}
	}
	return out
}
