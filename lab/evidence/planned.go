package evidence

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
)

// Outline is what a run registered, and what happened in which order.
type Outline struct {
	Plan    *plan.Plan // nil if it cannot be read
	PlanErr error      // why
	Lines   []store.Line
	Damage  error // why Lines end early; nil if they do not
	// Unplanned lists how the run differs from what it registered, as far as the plan, the
	// lab file and the journal show it; Verify finds the rest. What cannot be read is not
	// in the list.
	Unplanned []string
	planHash  string // of the bytes of the plan; "" if there are none
}

// ReadResults reads results.json of a run and the outline of the run. Unplanned then also
// lists where the results contradict the plan and the journal next to them: they are those of
// another run, or one of the files was changed. Only Verify finds numbers that were changed.
// Errors are those of the results, and the outline is then complete all the same; without
// results, the error is of kind fault.NotFound.
func ReadResults(run *store.Run) (r analysis.Results, o Outline, err error) {
	o = ReadOutline(run)
	text, err := run.Results()
	if err == nil {
		r, err = analysis.ParseResults(text)
	}
	if err == nil {
		o.Unplanned = append(o.Unplanned, o.contradicted(r)...)
	}
	return r, o, err
}

// contradicted says how results contradict the plan and the journal of the run.
func (o Outline) contradicted(r analysis.Results) (out []string) {
	add := func(format string, args ...any) {
		out = append(out, store.ResultsFile+" "+fmt.Sprintf(format, args...))
	}
	if o.planHash != "" && r.PlanSHA256 != o.planHash {
		add("belongs to a plan of sha256 %.64q, but %s has %s", r.PlanSHA256, store.PlanFile, o.planHash)
	}
	if o.PlanErr != nil || o.Damage != nil || len(o.Lines) == 0 {
		return out
	}
	s := storyOf(o.Plan, "", o.Lines)
	counted := 0
	for _, ok := range s.counts {
		if ok {
			counted++
		}
	}
	switch {
	case r.Ended == s.ended:
	case s.ended == "":
		add("says that the run ended (%.60q), but the journal has no line for the end of the run", r.Ended)
	case r.Ended == "":
		add("says that the run has not ended, but the journal says that it ended (%.60q)", s.ended)
	default:
		add("says that the run ended because of %.60q, but the journal says %.60q", r.Ended, s.ended)
	}
	if r.Blocks != counted || r.Void != len(s.void) {
		add("counts %s and %d void ones, but the journal has %d and %d", unit.Count(r.Blocks, "block"), r.Void, counted,
			len(s.void))
	}
	return out
}

// ReadOutline reads the outline of a run: each file once, and no raw output.
func ReadOutline(run *store.Run) (o Outline) {
	o.Lines, o.Damage = run.Journal()
	text, err := run.Plan()
	if err != nil {
		o.PlanErr = err
		return o
	}
	o.planHash = plan.Hash(text)
	if o.Plan, o.PlanErr = plan.Decode(text); o.PlanErr != nil {
		o.PlanErr = fault.Op("evidence: "+store.PlanFile, o.PlanErr)
	}
	switch {
	case len(o.Lines) == 0:
	case o.PlanErr != nil || o.Damage != nil:
		o.Unplanned = otherPlan(o.Lines[0], o.planHash)
	default:
		o.Unplanned = storyOf(o.Plan, o.planHash, o.Lines).unplanned(run)
	}
	return o
}

// Began returns when the run began; zero if the journal cannot be read.
func (o Outline) Began() (at time.Time) {
	if len(o.Lines) > 0 {
		at = o.Lines[0].At
	}
	return at
}

// Labels returns the labels that were given to the run.
func (o Outline) Labels() (out map[string]string) {
	for _, l := range o.Lines {
		if l.Type == store.LineLabels {
			out = l.Labels
		}
	}
	return out
}

// unplanned compares plan, lab file and journal.
func (s *story) unplanned(run *store.Run) []string {
	out := s.planned()
	if err := s.plan.Drawn(); err != nil {
		out = append(out, err.Error())
	}
	if src, err := run.Lab(); err == nil && !s.plan.MadeFrom(src) {
		out = append(out, store.LabFile+" is not the file from which the plan was made: its sha256 differs")
	}
	return out
}

// otherPlan says that a journal, by its first line, was begun with another plan than
// the one with this hash.
func otherPlan(first store.Line, hash string) []string {
	if first.PlanSHA256 == hash {
		return nil
	}
	return []string{fmt.Sprintf("the journal was begun with a plan of sha256 %.64q, %s has %s", first.PlanSHA256,
		store.PlanFile, hash)}
}

// planned compares the journal with the plan, and returns what is not as
// planned: another plan, a trial out of its place, a trial twice, a block
// that counts without all its trials.
func (s *story) planned() []string {
	out := otherPlan(s.lines[0], s.hash)
	if len(out) > 0 {
		return out
	}
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	blocks := newWalk(s.plan)
	for i, l := range s.lines {
		if problem := blocks.step(l); problem != "" {
			add("%s:%d: %s", store.JournalFile, i+1, problem)
		}
	}
	for _, b := range slices.Sorted(maps.Keys(s.counts)) {
		if s.counts[b] && b < len(s.plan.Blocks) {
			block := s.plan.Blocks[b].Without(nil, blocks.unfit)
			if problem := complete(block, blocks.done[b], s.plan.Baseline); problem != "" {
				add("block %d counts, but %s", b, problem)
			}
		}
	}
	return out
}

// walk goes through a journal and holds each line against the plan.
type walk struct {
	plan   *plan.Plan
	names  map[string]bool
	slots  map[int][]plan.Slot       // block → its slots by position
	done   map[int]map[int]plan.Slot // block → position → the trial seen
	closed map[int]bool              // blocks with their line
	unfit  map[plan.Place]bool       // cells that contenders cannot run
	begun  bool                      // a trial was seen
	block  int                       // the last one seen
	last   int                       // position of the last trial in it
}

func newWalk(p *plan.Plan) *walk {
	w := &walk{plan: p, names: map[string]bool{}, slots: map[int][]plan.Slot{}, done: map[int]map[int]plan.Slot{},
		closed: map[int]bool{}, unfit: map[plan.Place]bool{}, last: -1}
	for _, c := range p.Contenders {
		w.names[c.Name] = true
	}
	return w
}

// step returns what is wrong with the next line, "" for nothing.
func (w *walk) step(l store.Line) string {
	what := map[string]string{store.LineBoot: "a boot for block %d", store.LineBlock: "block %d ended",
		store.LineTrial: "a trial of block %d"}[l.Type]
	if what != "" && l.Block >= len(w.plan.Blocks) {
		return fmt.Sprintf(what+", but the plan has %d blocks", l.Block, len(w.plan.Blocks))
	}
	switch l.Type {
	case store.LineUnfit:
		return w.leaveOut(l)
	case store.LineEnvironment:
		if !w.names[l.Contender] {
			return fmt.Sprintf("an environment of %.60q, which is not in the plan", l.Contender)
		}
	case store.LineBoot:
		return w.boot(l)
	case store.LineBlock:
		if w.closed[l.Block] {
			return fmt.Sprintf("block %d ended a second time", l.Block)
		}
		w.closed[l.Block] = true
	case store.LineTrial:
		return w.trial(l)
	}
	return ""
}

// leaveOut checks that cells were left out before anybody could know their values.
func (w *walk) leaveOut(l store.Line) string {
	if w.begun {
		return fmt.Sprintf("%.60q leaves out cells after the first trial", l.Contender)
	}
	for _, cell := range l.Cells {
		if _, ok := w.plan.CellOf(l.Contender, cell); !ok {
			return fmt.Sprintf("%.60q leaves out the cell %.60q, which is not in the plan", l.Contender, cell)
		}
		w.unfit[plan.At(l.Contender, cell)] = true
	}
	return ""
}

// boot checks that a machine was booted for a block that has that boot.
func (w *walk) boot(l store.Line) string {
	if !slices.ContainsFunc(w.plan.Blocks[l.Block].Boots, func(b plan.Boot) bool {
		return b.Host != "" && b.Host == l.Boot.Host && b.System == l.Boot.System
	}) {
		return fmt.Sprintf("host %.60q booted %.60q, which block %d does not contain", l.Boot.Host, l.Boot.System, l.Block)
	}
	if w.closed[l.Block] {
		return fmt.Sprintf("a boot for block %d, after it ended", l.Block)
	}
	return ""
}

func (w *walk) trial(l store.Line) string {
	w.begun = true
	slots, ok := w.slots[l.Block]
	if !ok {
		slots = w.plan.Blocks[l.Block].Slots()
		w.slots[l.Block], w.done[l.Block] = slots, map[int]plan.Slot{}
	}
	if l.Position >= len(slots) {
		return fmt.Sprintf("a trial at position %d of block %d, which has %d positions", l.Position, l.Block, len(slots))
	}
	want, got := slots[l.Position], l.Slot()
	_, twice := w.done[l.Block][l.Position]
	switch {
	case got != want:
		return fmt.Sprintf("the journal has %s, but the plan has %s on %s there", describeLine(l), want.Cell, want.Contender)
	case w.unfit[got.Place()]:
		return describeLine(l) + ", which the run leaves out"
	case twice:
		return describeLine(l) + " a second time"
	case w.closed[l.Block]:
		return describeLine(l) + ", after its block ended"
	case l.Block < w.block || l.Block == w.block && l.Position < w.last:
		return describeLine(l) + ", after a later one"
	}
	w.done[l.Block][l.Position] = got
	w.block, w.last = l.Block, l.Position
	return ""
}

// complete tells whether a block has all trials of every contender that took
// part in it; "" if it has.
func complete(b plan.Block, done map[int]plan.Slot, baseline string) string {
	part := present(done)
	if !part[baseline] {
		return "the baseline took no part in it"
	}
	for _, s := range b.Slots() {
		if _, ok := done[s.Position]; part[s.Contender] && !ok {
			return fmt.Sprintf("position %d (%s on %s) is not in the journal", s.Position, s.Cell, s.Contender)
		}
	}
	return ""
}

func present(done map[int]plan.Slot) map[string]bool {
	out := map[string]bool{}
	for _, s := range done {
		out[s.Contender] = true
	}
	return out
}
