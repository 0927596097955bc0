// Package evidence reads a run folder back: from the plan, the journal and
// the raw outputs alone it makes the observations that the analysis compares,
// and it verifies that a folder is what it says.
//
// It is the only way from trials to verdicts. The controller that runs the
// trials uses it too, so that a stranger with the folder gets the same
// numbers.
package evidence

import (
	"fmt"
	"slices"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/judge/analysis"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/workload"
)

// Load reads a run and parses every raw output of the blocks that count.
//
// A block counts when its line in the journal says that it ended well: one
// that is void, that was interrupted, or that is still running does not. A
// trial that the journal or the parser calls the subject's failure is an
// observation without values.
//
// The plan must be the one that the journal begins with, and every trial in
// its place; raw files must have the hashes in the journal and be readable by
// their parsers. Otherwise the error is of kind fault.Invalid, and Verify
// tells more. A workload that is not in workloads is fault.Unsupported.
func Load(run *store.Run, workloads []workload.Parser) (analysis.Data, error) {
	return NewReader(run, workloads).Load()
}

// Reader reads a run that grows: what it has parsed it does not parse again.
type Reader struct {
	run       *store.Run
	workloads []workload.Parser
	seen      map[place]analysis.Observation // of blocks that count
	programs  programs
	// unverified lets bytes pass that are not the journal's: Verify has
	// reported them and asks what they change.
	unverified bool
}

// place is where a trial stands in a run.
type place struct{ block, position int }

// NewReader returns a Reader of run.
func NewReader(run *store.Run, workloads []workload.Parser) *Reader {
	return &Reader{run: run, workloads: workloads, seen: map[place]analysis.Observation{}, programs: programs{}}
}

// Load is as the function Load.
func (r *Reader) Load() (analysis.Data, error) {
	s, err := open(r.run)
	if err != nil {
		return analysis.Data{}, err
	}
	if problems := s.planned(); len(problems) > 0 {
		return analysis.Data{}, fault.WithFix(fault.New(fault.Invalid, "evidence: %s", problems[0]),
			"run `bakeoff verify` for the details")
	}
	return r.data(s)
}

// data makes the analysis' data of a story that was found in order.
func (r *Reader) data(s *story) (analysis.Data, error) {
	d := s.design()
	d.Run = r.run.Base()
	if err := r.facts(s, &d); err != nil {
		return d, err
	}
	for _, line := range s.trials {
		if !s.counts[line.Block] {
			continue
		}
		o, ok := r.seen[place{line.Block, line.Position}]
		if !ok {
			var err error
			if o, err = r.observe(s.plan, line); err != nil {
				return d, err
			}
			r.seen[place{line.Block, line.Position}] = o
		}
		d.Observations = append(d.Observations, o)
	}
	r.programs.addFacts(d.Facts)
	d.MeantFor = followers(s.plan, d.Facts)
	samePrograms(d.MeantFor, d.Facts, s.plan.Baseline)
	s.noteCPUSources(d.Facts)
	d.Missing = s.missing(d.Observations)
	d.NoEnergy, d.NoGeneratorEnergy = s.noEnergy(), s.noGeneratorEnergy()
	return d, nil
}

// story is what plan and journal say happened.
type story struct {
	plan   *plan.Plan
	hash   string // of the plan's bytes
	lines  []store.Line
	trials []store.Line
	counts map[int]bool // blocks that ended well
	void   map[int]string
	unfit  map[plan.Place]string // why cells of contenders are left out
	ended  string
}

// open reads plan and journal.
func open(run *store.Run) (*story, error) {
	text, err := run.Plan()
	if err != nil {
		return nil, err
	}
	p, err := plan.Decode(text)
	if err != nil {
		return nil, fault.Op("evidence: "+store.PlanFile, err)
	}
	lines, err := run.Journal()
	if err != nil {
		return nil, err
	}
	return storyOf(p, plan.Hash(text), lines), nil
}

// storyOf makes a story of the lines of a journal.
func storyOf(p *plan.Plan, hash string, lines []store.Line) *story {
	s := &story{plan: p, hash: hash, lines: lines, counts: map[int]bool{}, void: map[int]string{},
		unfit: map[plan.Place]string{}}
	begun := map[int]bool{}
	interrupt := func(reason string) {
		for b := range begun {
			if _, known := s.void[b]; !known && !s.counts[b] {
				s.void[b] = reason
			}
		}
	}
	for _, l := range s.lines {
		switch l.Type {
		case store.LineUnfit:
			for _, cell := range l.Cells {
				s.unfit[plan.At(l.Contender, cell)] = l.Reason
			}
		case store.LineTrial:
			s.trials = append(s.trials, l)
			begun[l.Block] = true
			s.ended = ""
		case store.LineBlock:
			begun[l.Block] = true
			s.counts[l.Block] = l.Status == store.OK
			if l.Status != store.OK {
				s.void[l.Block] = l.Reason
			}
		case store.LineResume:
			s.ended = ""
			interrupt(analysis.EndedInterrupted)
		case store.LineEnd:
			s.ended = l.Reason
			interrupt(analysis.EndedInterrupted)
		}
	}
	return s
}

// design copies what was registered, and how the run went.
func (s *story) design() analysis.Data {
	p := s.plan
	d := analysis.Data{
		PlanSHA256: s.hash, Seed: p.Seed, Baseline: p.Baseline, Twin: p.Twin,
		Margin: p.Design.Margin, Looks: p.Design.Looks, Alphas: p.Design.Alphas, ExactTrials: p.Design.ExactTrials,
		FailOn: p.FailOn,
		Scope:  analysis.ScopeMachine, Trials: 1, Void: len(s.void), Ended: s.ended,
	}
	if p.Design.Instances == "run" {
		d.Scope = analysis.ScopeInstance
	}
	if p.Design.Mirror {
		d.Trials = 2
	}
	for _, c := range p.Contenders {
		d.Contenders = append(d.Contenders, analysis.Contender{Name: c.Name, Driver: c.Driver, Host: c.Host,
			TwinOf: c.TwinOf, Params: c.Params, Env: c.Env, Sweep: c.Sweep})
	}
	d.Factors = factors(p)
	for _, c := range p.Cells {
		d.Cells = append(d.Cells, analysis.Cell{Name: c.Name, Workload: c.Workload, Params: c.Params, Metrics: c.Metrics,
			Fresh: s.fresh(c.Name)})
	}
	return d
}

// missing says why a cell of a contender has no observation at all: the contender cannot run
// it, its environment could not be had, or the blocks in which it was tried are void.
// A run that goes on has time left for those that were not tried yet.
func (s *story) missing(observations []analysis.Observation) []analysis.Missing {
	seen := lists.Set(observations, func(o analysis.Observation) plan.Place { return plan.At(o.Contender, o.Cell) })
	why := map[plan.Place]string{}
	gone := map[string]bool{}
	for _, l := range s.lines {
		gone[l.Contender] = gone[l.Contender] || l.Gone
		switch {
		case l.Type == store.LineEnvironment && l.Status != store.OK:
			for _, c := range s.plan.Cells {
				why[plan.At(l.Contender, c.Name)] = l.Reason
			}
		case l.Type == store.LineTrial && l.Status == store.Void:
			why[l.Slot().Place()] = l.Reason
		case l.Type == store.LineTrial && s.ended != "" && why[l.Slot().Place()] == "":
			why[l.Slot().Place()] = "no block in which it was tried counts: " + s.void[l.Block]
		}
	}
	out := []analysis.Missing{}
	for _, contender := range s.plan.Contenders {
		for _, cell := range s.plan.Cells {
			k := plan.At(contender.Name, cell.Name)
			reason, unfit := s.unfit[k]
			switch {
			case unfit:
			case why[k] != "":
				reason = why[k]
			case s.ended != "":
				reason = "the run ended before it was tried: " + analysis.EndedText(s.ended)
			}
			if !seen[k] && reason != "" {
				out = append(out, analysis.Missing{Contender: k.Contender, Cell: k.Cell, Reason: reason,
					Gone: unfit || gone[k.Contender]})
			}
		}
	}
	return out
}

// fresh reports whether each trial of a cell created an environment for itself.
func (s *story) fresh(cell string) bool {
	ran := lists.Filter(s.trials, func(l store.Line) bool { return l.Trial != nil && l.Trial.Cell == cell })
	return len(ran) > 0 && !slices.ContainsFunc(ran, func(l store.Line) bool { return l.Trial.State != workload.Fresh })
}

// find returns the workload called name.
func (r *Reader) find(name string) (workload.Parser, error) {
	i := slices.IndexFunc(r.workloads, func(w workload.Parser) bool { return w.Doc().Name == name })
	if i < 0 {
		return nil, fault.New(fault.Unsupported, "evidence: this program does not have the workload %q", name)
	}
	return r.workloads[i], nil
}

func describeLine(l store.Line) string {
	return fmt.Sprintf("block %d, position %d, %s on %s", l.Block, l.Position, l.Cell, l.Contender)
}
