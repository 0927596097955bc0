package trial

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/judge/analysis"
	"bakeoff/lab/env"
	"bakeoff/lab/evidence"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/execution"
	"bakeoff/provision/driver"
)

// runner is the state of one run.
type runner struct {
	Options
	began     time.Time
	planned   int
	sides     []*side          // in the plan's order
	done      map[int]bool     // blocks that have ended, void ones too
	valid     int              // blocks that count
	void      int              // blocks that do not
	lasted    []time.Duration  // of blocks in this process, without making
	making    time.Duration    // what the block spent on instances that stay for the run
	results   analysis.Results // as of the last block
	kept      map[string]*environment
	described map[string]bool  // contenders whose fingerprint is stored
	warned    map[string]bool  // warnings of workloads that were printed
	reader    *evidence.Reader // keeps what it has parsed
	fallen    int              // boots in a row that failed
	refused   error            // a boot brought what ends the run
	alike     alike            // of the last blocks
	unfit     map[plan.Place]bool
	hopeless  string // why no further block can count; "" if one may
}

// side is a contender with what it takes to run it.
type side struct {
	plan.Contender
	env    *env.Manager // on its host; nil where it is gone, or its system is not booted
	driver driver.Driver
	image  driver.Image
	// gone says why it takes part no longer; "" while it does.
	gone string
	// failed counts creations in a row that failed since one succeeded.
	failed int
	ever   bool   // an environment of it came up once
	why    string // its last creation failed
	asked  bool   // whether it can run there, which takes its system
}

// maxFallenBoots is how many boots in a row may fail. Each takes minutes, and
// a machine that does not come up needs a person.
const maxFallenBoots = 3

// maxFailedCreations is how many environments of a contender may fail to come
// up before it is left out, as long as none ever did. Every attempt is in
// the journal; without the rule a kernel that panics at boot would spend the
// whole budget on waiting for it, and a technology that does not work here would void
// every block of the others.
const maxFailedCreations = 2

// Run runs o.Plan into o.Run, or continues where an earlier process stopped.
//
// It returns when everything is decided, when blocks or budget are spent, or
// when ctx ends (the current block is then void). Failed trials, and contenders
// that cannot run here, do not stop it; they are in the results. An error means
// that nothing could be measured: it is of kind Unsupported if the baseline
// cannot run here, and of kind Lab if the laboratory failed.
func Run(ctx context.Context, o Options) (Outcome, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Budget == 0 {
		o.Budget = o.Plan.Design.Budget
	}
	r := &runner{Options: o, reader: evidence.NewReader(o.Run, execution.Parsers(o.Workloads)), began: o.Now(),
		planned: o.Plan.Planned(), done: map[int]bool{}, kept: map[string]*environment{}, described: map[string]bool{},
		warned: map[string]bool{}, unfit: map[plan.Place]bool{}}
	if err := r.resume(); err != nil {
		return Outcome{}, err
	}
	if o.Others != nil {
		if err := r.Run.Append(store.Line{Type: store.LineOthers, At: o.Now().UTC(), Others: o.Others}); err != nil {
			return Outcome{}, err
		}
	}
	if err := r.prepare(ctx); err != nil {
		return Outcome{}, err
	}
	// The budget is for blocks: images that are made once are not in it.
	r.began = o.Now()
	ended, err := r.blocks(ctx)
	// Whatever happened, what is up is taken down, within a bound of its own.
	down, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	err = errors.Join(err, r.returnAll(down))
	if err != nil {
		return Outcome{}, err
	}
	return r.finish(ended)
}

// resume reads the journal of an earlier process. A block without its line was
// interrupted: it is void and stays void.
func (r *runner) resume() error {
	lines, err := r.Run.Journal()
	if err != nil {
		return err
	}
	begun, resumed := map[int]bool{}, false
	for _, l := range lines {
		switch l.Type {
		case store.LineUnfit:
			r.leaveOut(l.Contender, l.Cells)
		case store.LineBlock:
			r.done[l.Block] = true
			if l.Status == store.OK {
				r.valid++
			} else {
				r.void++
			}
		case store.LineBoot:
			resumed = true // nothing was measured yet
		case store.LineTrial, store.LineEnvironment:
			if l.Instance != "" {
				begun[l.Block] = true
			}
			resumed = true
		}
	}
	if !resumed {
		return r.journalLeftOut()
	}
	// A run that cannot be continued is not written to.
	if err := r.analyse(); err != nil {
		return fault.WithFix(err, "run bakeoff verify for the details")
	}
	if err := r.Run.Append(store.Line{Type: store.LineResume, At: r.Now().UTC()}); err != nil {
		return err
	}
	if err := r.Run.RemoveResults(); err != nil {
		return err
	}
	for b := range begun {
		if !r.done[b] {
			if err := r.endBlock(b, store.Void, "the controller stopped in this block"); err != nil {
				return err
			}
		}
	}
	for _, c := range r.Plan.Contenders {
		if _, err := r.Run.Fingerprint(c.Name); err == nil {
			r.described[c.Name] = true
		}
	}
	return r.analyse()
}

// journalLeftOut journals the cells that contenders cannot run, before anything is measured: a
// cell that was left out later could be left out because of its values.
func (r *runner) journalLeftOut() error {
	for _, o := range r.LeftOut {
		cells := lists.Filter(o.Cells, func(cell string) bool { return !r.unfit[plan.At(o.Contender, cell)] })
		if len(cells) == 0 {
			continue // an earlier process was killed before its first trial
		}
		if err := r.Run.Append(store.Line{Type: store.LineUnfit, At: r.Now().UTC(), Contender: o.Contender, Cells: cells,
			Reason: o.Reason}); err != nil {
			return err
		}
		r.leaveOut(o.Contender, cells)
	}
	return nil
}

func (r *runner) leaveOut(contender string, cells []string) {
	for _, cell := range cells {
		r.unfit[plan.At(contender, cell)] = true
	}
}

// blocks runs blocks until there is a reason to stop, and returns it.
func (r *runner) blocks(ctx context.Context) (ended string, err error) {
	for {
		b, ok := r.next()
		if gone := r.baselineGone(); gone != "" && ctx.Err() == nil {
			return "", fault.New(fault.Lab, "the baseline %s cannot run: %s", r.Plan.Baseline, gone)
		}
		switch {
		case ctx.Err() != nil:
			return analysis.EndedInterrupted, nil
		case r.decided():
			why := r.results.WhyDecided()
			if why == analysis.EndedStuck && r.valid >= r.planned {
				why = analysis.EndedBlocks
			}
			return why, nil
		case !ok && r.valid < r.planned, r.fallen >= maxFallenBoots, r.hopeless != "":
			return analysis.EndedVoid, nil
		case !ok:
			return analysis.EndedBlocks, nil
		case r.spent():
			return analysis.EndedBudget, nil
		}
		if err := r.block(ctx, b.Without(r.left(), r.unfit)); err != nil {
			return "", err
		}
	}
}

// baselineGone says why the baseline takes part no longer; "" while it does.
// A block without it compares nothing with anything.
func (r *runner) baselineGone() string {
	for _, s := range r.sides {
		if s.Name == r.Plan.Baseline {
			return s.gone
		}
	}
	return ""
}

// next returns the block to run now: the first planned one that has not
// ended, or a spare one for each that was void.
func (r *runner) next() (plan.Block, bool) {
	if r.valid >= r.planned {
		return plan.Block{}, false
	}
	return lists.Find(r.Plan.Blocks, func(b plan.Block) bool { return !r.done[b.Index] })
}

// decided reports whether a look has been taken that decided everything.
func (r *runner) decided() bool { return r.valid > 0 && r.results.AllDecided() }

// spent reports whether the budget is too small for another block, taking
// the longest of the last three as the measure.
func (r *runner) spent() bool {
	if r.Budget <= 0 {
		return false
	}
	need := time.Duration(0)
	for _, d := range r.lasted[max(0, len(r.lasted)-3):] {
		need = max(need, d)
	}
	return r.Now().Sub(r.began)+need > r.Budget
}

// left names the contenders that take no part in the next block: those that
// are decided and those that cannot run.
func (r *runner) left() map[string]bool {
	out := map[string]bool{}
	if r.valid > 0 {
		for name, yes := range r.results.Decided() {
			if yes && name != r.Plan.Twin {
				out[name] = true
			}
		}
	}
	for _, s := range r.sides {
		if s.gone != "" {
			out[s.Name] = true
		}
	}
	return out
}

// endBlock journals the end of a block.
func (r *runner) endBlock(index int, status store.Status, reason string) error {
	r.done[index] = true
	if status == store.OK {
		r.valid++
	} else {
		r.void++
	}
	return r.Run.Append(store.Line{Type: store.LineBlock, At: r.Now().UTC(), Block: index, Status: status, Reason: reason})
}

// analyse reads the run folder back, as any other reader would.
func (r *runner) analyse() error {
	data, err := r.reader.Load()
	if err != nil {
		return err
	}
	r.results = analysis.Analyse(data)
	return nil
}

// finish journals the end and writes the results.
func (r *runner) finish(ended string) (Outcome, error) {
	if err := r.Run.Append(store.Line{Type: store.LineEnd, At: r.Now().UTC(), Reason: ended}); err != nil {
		return Outcome{}, err
	}
	if err := r.analyse(); err != nil {
		return Outcome{}, err
	}
	b, err := json.MarshalIndent(r.results, "", " ")
	if err != nil {
		return Outcome{}, fault.Op("results", err)
	}
	if err := r.Run.WriteResults(append(b, '\n')); err != nil {
		return Outcome{}, err
	}
	r.emit(Event{Kind: End, Text: ended, Results: &r.results})
	return Outcome{Ended: ended, Cause: r.hopeless, Results: r.results}, nil
}

// emit hands an event to whoever watches.
func (r *runner) emit(e Event) {
	if r.Events == nil {
		return
	}
	e.At = r.Now()
	e.Done, e.Void, e.Planned = r.valid, r.void, r.planned
	e.Elapsed, e.Budget = e.At.Sub(r.began), r.Budget
	r.Events(e)
}

// workload returns the workload called name; the plan was checked.
func (r *runner) workload(name string) (execution.Runner, error) {
	if w := execution.Named(r.Workloads, name); w != nil {
		return w, nil
	}
	return nil, fault.New(fault.Unsupported, "the plan names the workload %q, which this program does not have", name)
}

// cell returns the plan's cell called name as a contender runs it.
func (r *runner) cell(contender, name string) (manifest.Cell, error) {
	c, ok := r.Plan.CellOf(contender, name)
	if !ok {
		return manifest.Cell{}, fault.New(fault.Invalid, "the blocks of the plan name the cell %q of contender "+
			"%q, but the plan does not define it",
			name, contender)
	}
	return c.Cell, nil
}

// side returns the side called name.
func (r *runner) side(name string) (*side, error) {
	i := slices.IndexFunc(r.sides, func(s *side) bool { return s.Name == name })
	if i < 0 {
		return nil, fault.New(fault.Invalid, "the blocks of the plan name the contender %q, but the plan does not "+
			"define it", name)
	}
	return r.sides[i], nil
}

// environment is a leased environment with the state of each cell in it.
type environment struct {
	*env.Environment
	targets map[string]*target // by cell
	shared  map[string]string  // of all targets
	ended   *reading           // at the end of the last trial in it
}

// target is one cell in one environment.
type target struct {
	execution.Target
	work   execution.Runner
	cell   manifest.Cell
	failed error // Prepare failed: every trial of it does
	// generator is the host that load comes from, nil where that is the
	// environment's own, or there is no load.
	generator *env.Manager
}

func describe(err error) string {
	if err == nil {
		return ""
	}
	const most = 2000
	s := err.Error()
	if len(s) > most {
		s = "…" + s[len(s)-most:]
	}
	return s
}
