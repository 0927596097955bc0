package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
	"bakeoff/lab/env"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/execution"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

// block runs one block to its line in the journal. An error is one that ends
// the run: the run folder cannot be written any more, or a machine that was
// booted is not the one to measure on.
func (r *runner) block(ctx context.Context, b plan.Block) error {
	began := r.Now()
	var err error
	for _, part := range b.Parts() {
		if err = r.part(ctx, b, part); err != nil {
			break
		}
	}
	status, reason := store.OK, ""
	switch {
	case ctx.Err() != nil:
		status, reason = store.Void, analysis.EndedInterrupted
	case err != nil:
		status, reason = store.Void, describe(err)
	}
	if err := r.endBlock(b.Index, status, reason); err != nil {
		return err
	}
	r.lasted = append(r.lasted, r.Now().Sub(began)-r.making)
	r.making = 0
	if err := r.analyse(); err != nil {
		return err
	}
	r.emit(Event{Kind: BlockEnd, Block: b.Index, Status: status, Text: reason, Took: r.lasted[len(r.lasted)-1],
		Results: &r.results})
	if err == nil || ctx.Err() != nil {
		r.alike = alike{}
		return r.refused
	}
	return errors.Join(r.refused, r.endAlike(err, reason))
}

// part runs what of a block passes in one boot. An error voids the block.
func (r *runner) part(ctx context.Context, b plan.Block, p plan.Part) error {
	if len(p.Contenders) == 0 {
		return nil // all have left
	}
	leave, err := r.boot(ctx, b, p)
	if err == nil {
		err = r.inside(ctx, b, p)
	}
	if r.Plan.Design.Instances != "run" || err != nil {
		down, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
		defer cancel()
		// An environment that does not go away may disturb the next block,
		// so it voids this one and is left to its lease.
		err = errors.Join(err, r.returnAll(down), leave(down))
	}
	return err
}

// inside makes the environments of a part and visits them.
func (r *runner) inside(ctx context.Context, b plan.Block, p plan.Part) error {
	began := r.Now()
	envs, err := r.createAll(ctx, b, p)
	if r.Plan.Design.Instances == "run" {
		r.making += r.Now().Sub(began) // the next block has them
	}
	if err != nil {
		return err
	}
	return r.visits(ctx, p.Slots, envs)
}

// createAll makes the environments of a part, in its order of creation, and
// prepares every cell in them. Where a subject cannot be created its trials
// in this block fail; that is a result. An error voids the block.
func (r *runner) createAll(ctx context.Context, b plan.Block, p plan.Part) (map[string]*environment, error) {
	if err := r.repair(ctx, p); err != nil {
		return nil, err
	}
	for _, name := range p.Contenders {
		s, err := r.side(name)
		if err != nil {
			return nil, err
		}
		if r.kept[name] != nil || s.gone != "" {
			continue
		}
		en, err := r.create(ctx, b, s)
		if err != nil {
			return nil, err
		}
		if en == nil {
			continue
		}
		if f, ok := en.Instance.(driver.Freezer); ok {
			if err := f.Freeze(ctx); err != nil {
				return nil, fault.Op("freeze "+name, err)
			}
		}
	}
	return r.kept, nil
}

// create makes one environment, prepares the block's cells in it, and journals
// it. It returns nil, nil where the subject failed to come up.
func (r *runner) create(ctx context.Context, b plan.Block, s *side) (*environment, error) {
	block := b.Index
	en, err := s.env.Lease(ctx, s.driver, s.Contender.Contender, s.image)
	line := store.Line{Type: store.LineEnvironment, At: r.Now().UTC(), Block: block, Contender: s.Name}
	switch {
	case err == nil:
		s.failed, s.ever = 0, true
		limits := en.Info().Limits
		line.Status, line.Instance, line.CreateNS, line.Limits = store.OK, en.ID, en.Up.Sub(en.Asked).
			Nanoseconds(),
			&limits
		out := &environment{Environment: en, targets: map[string]*target{}, shared: map[string]string{}}
		r.kept[s.Name] = out
		line.Facts = r.facts(s, en.Info().Facts)
		perr := r.prepareCells(ctx, out, s, b)
		line.PrepareNS = time.Since(en.Up).Nanoseconds()
		if line.Fingerprint, err = r.fingerprint(ctx, s, out); err != nil {
			return nil, err
		}
		r.emit(Event{Kind: Environment, Block: block, Contender: s.Name, Status: store.OK,
			Text: en.Up.Sub(en.Asked).Round(time.Millisecond).String()})
		return out, errors.Join(perr, r.Run.Append(line))
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	line.Status, line.Reason = store.Void, describe(err)
	s.why = line.Reason
	switch fault.Of(err) {
	case fault.Subject:
		line.Status = store.Subject
		s.failed++
	case fault.Unsupported, fault.NotFound, fault.Invalid:
		// It will not be otherwise in the next block.
		s.gone, line.Gone = line.Reason, true
	default:
		// Each attempt voids its block. Without the baseline there is no run: that is tried
		// as long as blocks are left.
		if !s.ever && s.Name != r.Plan.Baseline && s.Name != r.Plan.Twin {
			s.failed++
		}
	}
	r.emit(Event{Kind: Environment, Block: block, Contender: s.Name, Status: line.Status, Text: line.Reason})
	if aerr := r.Run.Append(line); aerr != nil {
		return nil, aerr
	}
	if s.failed >= maxFailedCreations && !s.ever {
		if derr := r.dismiss(s, fmt.Sprintf("did not start in %d of %d attempts: %s", s.failed, s.failed,
			line.Reason)); derr != nil {
			return nil, derr
		}
	}
	if fault.Is(err, fault.Lab) {
		return nil, err
	}
	if s.gone != "" && s.Name == r.Plan.Baseline {
		return nil, fault.New(fault.Lab, "the baseline cannot run: %s", s.gone)
	}
	return nil, nil
}

// prepareCells brings the contender's cells of the block to where trials can run.
func (r *runner) prepareCells(ctx context.Context, en *environment, s *side, b plan.Block) error {
	for _, v := range b.Visits {
		if !slices.Contains(v.Order, s.Name) {
			continue // another boot visits it, or nobody does
		}
		if err := r.prepareCell(ctx, en, s, v.Cell); err != nil {
			return err
		}
	}
	return nil
}

// facts are those of an environment, with where its load comes from when that
// is another host.
func (r *runner) facts(s *side, of map[string]string) map[string]string {
	g := r.Plan.Generator
	if g == "" {
		return of
	}
	out := maps.Clone(of)
	if out == nil {
		out = map[string]string{}
	}
	if s.driver.Doc().Whole {
		out["load"] = fmt.Sprintf("from host %s over the machines' own network", g)
		return out
	}
	out["load"] = fmt.Sprintf("from host %s over %s and %s", g, r.Plan.Hosts[g].Uplink, r.Plan.Hosts[s.Host].Uplink)
	return out
}

// prepareCell brings one cell in one environment to where trials can run.
func (r *runner) prepareCell(ctx context.Context, en *environment, s *side, cell string) error {
	if en.targets[cell] != nil {
		return nil
	}
	c, err := r.cell(s.Name, cell)
	if err != nil {
		return err
	}
	w, err := r.workload(c.Workload)
	if err != nil {
		return err
	}
	t := &target{work: w, cell: c}
	t.Subject, t.Addr, t.State = withEnv(en.Instance, environ(s.image, s.Env)), en.Info().Addr, map[string]string{}
	t.Listen = en.Info().Listen
	if s.image.Start != nil {
		t.Start = *s.image.Start
	}
	if f, ok := en.Instance.(driver.Forwarder); ok {
		t.Forward = f.Forward
	}
	t.AddIPv6 = en.AddIPv6
	t.Shared, t.Properties = en.shared, map[string]map[string]string{}
	for _, v := range s.Volumes {
		t.Properties[v.Path] = v.Properties
	}
	switch whole := s.driver.Doc().Whole; {
	case !w.Doc().NeedsPeer(c.Params), whole && w.Doc().Watch:
	case whole:
		if err := r.peerOutside(ctx, t, s, en); err != nil {
			return err
		}
	default:
		r.peer(t, s, en.CPUSet)
	}
	t.Warn = func(text string) {
		if !r.warned[cell+": "+text] {
			r.warned[cell+": "+text] = true
			r.emit(Event{Kind: Preparing, Contender: s.Name, Cell: cell,
				Text: cell + " on " + s.Name + ": " + text})
		}
	}
	t.Fresh = func(ctx context.Context) (driver.Instance, []execution.Mark, error) {
		fresh, err := s.env.LeaseWatched(ctx, s.driver, s.Contender.Contender, s.image, w.Doc().Watch)
		if err != nil {
			return nil, nil, err
		}
		marks := []execution.Mark{{Name: "asked", At: fresh.Asked}, {Name: "up", At: fresh.Up}}
		if in, ok := fresh.Instance.(driver.Counted); ok {
			for _, c := range in.Counts() {
				marks = append(marks, execution.Mark{Name: c.Name, Count: c.At, Program: c.Program})
			}
		}
		return withEnv(returning{fresh}, environ(s.image, s.Env)), marks, nil
	}
	en.targets[cell] = t
	pctx, cancel := context.WithTimeout(ctx, prepareLimit)
	defer cancel()
	err = w.Prepare(pctx, t.Target, c.Params)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case fault.Is(err, fault.Lab) && pctx.Err() == nil:
		return fault.Op("prepare "+cell+" in "+s.Name, err)
	}
	// The subject cannot do it: every trial of this cell fails here.
	t.failed = fault.Wrap(fault.Subject, "prepare", err)
	return nil
}

// prepareLimit bounds the preparation of a cell; an emulated machine that
// restores a database needs minutes.
const prepareLimit = 5 * time.Minute

// returning is a fresh environment whose Close gives back its lease.
type returning struct{ *env.Environment }

// Close returns the lease, which closes the environment.
func (r returning) Close(ctx context.Context) error { return r.Environment.Return(ctx) }

// Unwrap returns the instance that the driver created.
func (r returning) Unwrap() driver.Instance { return r.Instance }

// fingerprint stores what an environment is, once a contender, and says
// where.
func (r *runner) fingerprint(ctx context.Context, s *side, en *environment) (*store.File, error) {
	if r.described[s.Name] {
		return nil, nil
	}
	fp := facts.Fingerprint{
		Schema:      facts.FingerprintSchema,
		Facts:       map[string]string{},
		Unavailable: map[string]string{},
	}
	var out, errb conn.Tail
	out.Limit, errb.Limit = 1<<20, 1024
	argv := []string{en.Info().Agent, "probe", "fingerprint", "--json"}
	for _, v := range s.Volumes {
		argv = append(argv, "--volume", en.Info().Volumes[v.Path])
	}
	exit, err := en.Exec(ctx, conn.Cmd{Argv: argv, Stdout: &out, Stderr: &errb})
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		fp.Unavailable["all"] = describe(err)
	case !exit.OK():
		fp.Unavailable["all"] = exit.String() + ": " + string(bytes.TrimSpace(errb.Bytes()))
	default:
		if err := json.Unmarshal(out.Bytes(), &fp); err != nil {
			fp.Unavailable["all"] = "the agent's answer cannot be read: " + err.Error()
		}
	}
	if fp.Facts == nil {
		fp.Facts = map[string]string{}
	}
	// A volume has the name that the lab file gave it, wherever it is inside.
	for _, v := range s.Volumes {
		inside := "fs." + en.Info().Volumes[v.Path]
		if fact, ok := fp.Facts[inside]; ok && inside != "fs."+v.Path {
			delete(fp.Facts, inside)
			fp.Facts["fs."+v.Path] = fact
		}
	}
	for at, cached := range en.Info().HostCache {
		fp.Facts["host-cache."+at] = cached
	}
	for k, v := range en.Info().Facts {
		fp.Facts["driver."+k] = v
	}
	if doc := s.driver.Doc(); doc.StatusOn(env.SystemOf(s.env.Host())) == driver.Unproven {
		fp.Facts["driver.status"] = string(driver.Unproven)
		if shown := r.Proofs[doc.Name]; shown != "" {
			fp.Facts["driver.status"] = shown
		}
	}
	if s.env.Name() != env.LocalHost {
		fp.Facts["host"] = s.env.Name()
	}
	// A folder of the user's has a name, and no digest.
	delete(fp.Facts, "image.digest")
	if s.image.Digest != "" {
		fp.Facts["image.digest"] = s.image.Digest
	} else if s.image.Root != "" {
		fp.Facts["image.folder"] = s.image.Root
	}
	maps.Copy(fp.Facts, r.startFacts(s))
	r.described[s.Name] = true
	f, err := r.Run.WriteFingerprint(s.Name, fp)
	return &f, err
}

// visits runs trials in their order.
func (r *runner) visits(ctx context.Context, slots []plan.Slot, envs map[string]*environment) error {
	for _, slot := range slots {
		if err := ctx.Err(); err != nil {
			return err
		}
		s, err := r.side(slot.Contender)
		if err != nil {
			return err
		}
		if s.gone != "" {
			continue
		}
		if err := r.visit(ctx, slot, s, envs[slot.Contender]); err != nil {
			return err
		}
	}
	return nil
}

// returnAll gives every environment back, and reports all that would not go.
// They go at the same time: nothing is measured then, and each mostly waits for
// the kernel.
func (r *runner) returnAll(ctx context.Context) error {
	names := slices.Sorted(maps.Keys(r.kept))
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		en := r.kept[name]
		all.Go(func() { errs[i] = giveBack(ctx, name, en) })
	}
	all.Wait()
	clear(r.kept)
	return errors.Join(errs...)
}

func giveBack(ctx context.Context, name string, en *environment) error {
	var err error
	// A frozen environment does not see a signal.
	if f, ok := en.Instance.(driver.Freezer); ok {
		err = fault.Op("thaw "+name, f.Thaw(ctx))
	}
	return errors.Join(err, en.Return(ctx))
}
