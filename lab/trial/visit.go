package trial

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/lab/evidence"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/workload"
	"bakeoff/provision/driver"
)

// visit runs one trial: thaw, reset, settle, measure, freeze, keep. The line
// in the journal is on disk before it returns. An error voids the block.
func (r *runner) visit(ctx context.Context, slot plan.Slot, s *side, en *environment) error {
	c, err := r.cell(slot.Contender, slot.Cell)
	if err != nil {
		return err
	}
	w, err := r.workload(c.Workload)
	if err != nil {
		return err
	}
	doc := w.Doc()
	line := store.Line{Type: store.LineTrial, Block: slot.Block, Contender: slot.Contender, Trial: &store.Trial{
		Position: slot.Position, Cell: slot.Cell, State: doc.State, Cache: doc.Cache, Parser: doc.Version()}}
	r.emit(Event{Kind: TrialStart, Block: slot.Block, Position: slot.Position, Contender: slot.Contender, Cell: slot.Cell})

	var raw workload.Raw
	if en == nil {
		err = fault.New(fault.Subject, "the environment did not start: %s", s.why)
		line.Start = r.Now().UTC()
		line.End = line.Start
	} else {
		line.Instance = en.ID
		raw, err = r.measure(ctx, en, en.targets[slot.Cell], line.Trial)
		if serr := en.Stale(); serr != nil && !reboots(en.Instance, doc) {
			// Whatever was seen, it was not what was to be measured.
			err = fault.Wrap(fault.Lab, serr.Error(), err)
			if err == nil {
				err = serr
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err() // an interrupted trial is none
	case err == nil:
		line.Status = store.OK
	case fault.Is(err, fault.Subject):
		line.Status, line.Reason = store.Subject, describe(err)
	default:
		line.Status, line.Reason = store.Void, describe(err)
	}
	if len(raw) > 0 {
		files, werr := r.Run.WriteRaw(slot, raw)
		if werr != nil {
			return werr
		}
		line.Raw = files
	}
	line.At = r.Now().UTC()
	if aerr := r.Run.Append(line); aerr != nil {
		return aerr
	}
	r.emit(Event{Kind: TrialEnd, Block: slot.Block, Position: slot.Position, Contender: slot.Contender, Cell: slot.Cell,
		Status: line.Status, Text: line.Reason})
	if line.Status == store.Void {
		return voided{slot.Cell, slot.Contender, err}
	}
	return nil
}

// reboots tells whether a trial of the workload reboots the machine that in is, which ends
// the connection to it.
func reboots(in driver.Instance, doc workload.Doc) bool {
	_, machine := driver.AsRebooted(in)
	return machine && doc.Watch
}

// measure does one trial in an environment that is at rest, and puts it to
// rest again.
func (r *runner) measure(ctx context.Context, en *environment, t *target, line *store.Trial) (raw workload.Raw,
	err error) {
	line.Start = r.Now().UTC()
	line.End = line.Start
	if t.failed != nil {
		return nil, t.failed
	}
	if f, ok := en.Instance.(driver.Freezer); ok {
		if err := f.Thaw(ctx); err != nil {
			return nil, fault.Op("thaw", err)
		}
		defer func() {
			rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			err = errors.Join(err, fault.Op("freeze", f.Freeze(rest)))
		}()
	}
	tctx, cancel := context.WithTimeout(ctx, limit(t))
	defer cancel()
	if err := t.work.Reset(tctx, t.Target, t.cell.Params); err != nil {
		return nil, t.lacks(fault.Op("reset", late(tctx, ctx, err)))
	}
	if reboots(en.Instance, t.work.Doc()) {
		return r.rebooting(tctx, ctx, t, line)
	}
	settle(tctx, en)

	session := t.session()
	before, err := r.ends(tctx, en, t)
	if err != nil {
		return nil, err
	}
	clock := readClock(tctx, en)
	line.Start = r.Now().UTC()
	out, rerr := t.work.Run(tctx, t.Target, t.cell.Params)
	line.End = r.Now().UTC()
	ended := readClock(tctx, en)
	line.Clock = clock.since(ended)
	if p := en.ended.since(clock); p != nil && line.Clock != nil {
		line.Clock.PausedNS, line.Clock.LostNS = p.OutsideNS, max(0, p.OutsideNS-p.InsideNS-p.UncertaintyNS)
	}
	en.ended = ended
	after, err := r.ends(context.WithoutCancel(ctx), en, t)
	if err != nil {
		return nil, err
	}
	if t.session() != session {
		return nil, fault.New(fault.Lab, "the connection to %s, where load comes from, was lost during the trial",
			t.generator.Name())
	}
	raw = workload.Raw{}
	maps.Copy(raw, out)
	if err := keepCounters(line, raw, before, after); err != nil {
		return nil, err
	}
	if rerr != nil {
		return raw, t.lacks(attributed(en, before, after, fault.Op("run", late(tctx, ctx, rerr))))
	}
	// What the subject answered is judged now, so that a wrong answer is in
	// the journal; reading the folder back judges it again.
	if _, err := t.work.Parse(raw, t.cell.Params); err != nil {
		return raw, attributed(en, before, after, fault.Op("answer", unread{err}))
	}
	return raw, nil
}

// lacks turns the error of a trial that the subject cannot do, such as one without a shell,
// into a failure of the subject. It cannot do the other trials of the cell either: void blocks
// would use up the budget, and no cell would get a result.
func (t *target) lacks(err error) error {
	if fault.Is(err, fault.Unsupported) {
		t.failed = fault.Wrap(fault.Subject, "unsupported", err)
		return t.failed
	}
	return err
}

// attributed names the cause of a failure that the host counted in the trial. A failure
// of an environment that got no CPU is not the contender's: the block is void.
func attributed(en *environment, before, after ends, err error) error {
	if err = outOfMemory(en, before, after, err); !fault.Is(err, fault.Subject) ||
		facts.OutOfMemory(before.host.Scope, after.host.Scope, nil) != "" {
		return err
	}
	if why := evidence.CPUWait(before.host, after.host); why != "" {
		return fault.New(fault.Lab, "%s: %w", why, err)
	}
	return err
}

// outOfMemory names the cause of a failure where the kernel killed processes of the
// environment in the trial: a program that was killed cannot say why.
func outOfMemory(en *environment, before, after ends, err error) error {
	killed := facts.OutOfMemory(before.host.Scope, after.host.Scope, en.Info().Limits.Memory)
	if killed == "" || strings.Contains(err.Error(), killed) {
		return err
	}
	return fault.Op(killed, err)
}

// limit bounds one trial: ten times what it should take, and a minute for a
// slow way to an emulated machine.
//
// A processor that is emulated starts programs a hundred times slower, and a
// workload whose unit is many of them takes a minute to verify itself there.
func limit(t *target) time.Duration {
	d, slow := time.Second, time.Minute
	if t.work.Doc().Time != nil {
		d = t.work.Doc().Time(t.cell.Params)
	}
	if m, ok := driver.AsRebooted(t.Subject); ok && t.work.Doc().Watch {
		slow += m.Patience()
	}
	if t.Subject.Info().Facts[driver.FactAccelerator] == driver.Emulated {
		slow = 3 * time.Minute
	}
	return 10*d + slow
}

// late attributes the error of a trial that reached its own time limit to the
// subject: it did not finish in time.
func late(tctx, ctx context.Context, err error) error {
	if errors.Is(tctx.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
		return fault.Wrap(fault.Subject, "the trial did not finish in time", err)
	}
	return err
}

// The bounds of settling.
const (
	settleStep  = 2 * time.Millisecond
	settleLimit = 40 * time.Millisecond
	settleShare = 0.2 // of one CPU
)

// settle waits until a thawed environment is quiet, or the bound is reached:
// a machine that slept catches up on its timers first.
func settle(ctx context.Context, en *environment) {
	m, ok := en.Instance.(driver.Meter)
	if !ok {
		return
	}
	last, lastAt := used(ctx, m), time.Now()
	for deadline := time.Now().Add(settleLimit); last != nil && time.Now().Before(deadline); {
		time.Sleep(settleStep)
		now, at := used(ctx, m), time.Now()
		if now == nil || *now-*last < settleShare*at.Sub(lastAt).Seconds() {
			return
		}
		last, lastAt = now, at
	}
}

// used is the CPU time of an environment in seconds, nil where it is not
// known.
func used(ctx context.Context, m driver.Meter) *float64 {
	u, err := m.Usage(ctx)
	if err != nil {
		return nil
	}
	return u.CPUSeconds
}

// reading is an environment's clock, read between two moments of the host's.
type reading struct {
	inside      time.Duration
	from, until time.Time
}

// readClock reads the environment's own clock, nil where it has none or does
// not answer: then the trial says nothing of it.
func readClock(ctx context.Context, en *environment) *reading {
	c, ok := en.Instance.(driver.Clocked)
	if !ok {
		return nil
	}
	from := time.Now()
	inside, err := c.Clock(ctx)
	if err != nil {
		return nil
	}
	return &reading{inside: inside, from: from, until: time.Now()}
}

// since is what passed between two readings, each taken as the middle of its
// moments.
func (a *reading) since(b *reading) *store.Clock {
	if a == nil || b == nil {
		return nil
	}
	width := a.until.Sub(a.from) + b.until.Sub(b.from)
	return &store.Clock{
		InsideNS:      (b.inside - a.inside).Nanoseconds(),
		OutsideNS:     (b.until.Sub(a.from) - width/2).Nanoseconds(),
		UncertaintyNS: (width / 2).Nanoseconds(),
	}
}
