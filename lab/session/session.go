// Package session runs a plan: it registers the plan, leases the hosts, checks
// them before it creates anything, measures, and resumes interrupted runs.
package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/sleep"
	"bakeoff/lab/diagnosis"
	"bakeoff/lab/env"
	"bakeoff/lab/hosts"
	"bakeoff/lab/inputs"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/preflight"
	"bakeoff/lab/store"
	"bakeoff/lab/trial"
	executionall "bakeoff/measure/execution/all"
	"bakeoff/measure/webroot"
	"bakeoff/provision/driver"
	driverall "bakeoff/provision/driver/all"
	"bakeoff/provision/driver/vm"
)

// Session is one execution of a plan, from its registration on.
type Session struct {
	Plan *plan.Plan
	Dir  string // the run folder
	// Drivers are those that the plan names; New and Resume set all.
	Drivers []driver.Driver
	// Words explains a missing program to somebody who wrote no lab file; nil keeps the
	// words of lab files.
	Words func(error) error

	sources string // folder that the files of the plan are relative to; "" if they are packed
	named   relative
	text    []byte // of the plan, as it is registered
	lab     []byte // the lab file as written
	others  *store.Others
	run     *store.Run // nil until the run folder exists
}

// New plans a lab from a seed. Measure creates the run folder in the folder out.
// version is that of the program.
func New(lab *manifest.Lab, seed uint64, version, out string) (*Session, error) {
	s := &Session{Drivers: drivers(), lab: lab.Source, sources: inputs.Folder(lab),
		Dir: store.Free(out, time.Now(), lab.Name)}
	err := inputs.Record(context.Background(), lab, nil)
	if err != nil {
		return nil, err
	}
	if s.Plan, err = plan.Expand(lab, Catalogue(), seed, version); err != nil {
		return nil, err
	}
	// An error in the lab file is not a failure of a contender, and not a result.
	if err := errors.Join(append(preflight.CheckCells(s.Plan, executionall.Runners()),
		preflight.CheckMachines(s.Plan, driverall.Drivers(), executionall.Runners())...)...); err != nil {
		return nil, err
	}
	s.text, err = plan.Encode(s.Plan)
	return s, err
}

// Resume continues the run in a folder. It refuses a run whose lab file changed:
// the change would be ignored.
func Resume(dir string) (s *Session, err error) {
	run, err := store.Resume(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			run.Close()
		}
	}()
	s = &Session{Drivers: drivers(), Dir: dir, run: run}
	if s.text, err = s.run.Plan(); err != nil {
		return nil, err
	}
	if s.Plan, err = plan.Decode(s.text); err != nil {
		return nil, err
	}
	const fix = "restore the original lab file, or start a new run"
	lab, err := s.run.Lab()
	if err != nil {
		return nil, fault.WithFix(err, fix)
	}
	if !s.Plan.MadeFrom(lab) {
		return nil, fault.WithFix(fault.New(fault.Invalid, "%s changed since this run started; the run cannot be resumed",
			filepath.Join(dir, store.LabFile)), fix)
	}
	return s, s.recallRelative()
}

// drivers are all, with the folders that services of manifests may name.
func drivers() []driver.Driver {
	all := driverall.Drivers()
	for _, d := range all {
		if guests, ok := d.(*vm.Driver); ok {
			guests.Materials = webroot.Materials()
		}
	}
	return all
}

// Catalogue returns the drivers and workloads that lab files can name.
func Catalogue() manifest.Catalogue {
	return preflight.CatalogueOf(driverall.Drivers(), executionall.Runners())
}

// DrawSeed draws a seed that is not 0 and that every JSON reader represents exactly.
func DrawSeed() uint64 {
	var b [8]byte
	for {
		rand.Read(b[:]) // never fails since Go 1.24
		if n := binary.LittleEndian.Uint64(b[:]) >> 11; n != 0 {
			return n
		}
	}
}

// Options says how Measure measures.
type Options struct {
	At     hosts.Controller
	Budget time.Duration // 0: the plan's
	// Calibration is what is known of this machine, as calibration.Known
	// returns it; it is kept in the run folder.
	Calibration []byte
	// Labels are written into the journal of a run that begins: commit …
	Labels map[string]string
	// Events is called between trials only, by one goroutine at a time.
	Events func(trial.Event)
}

// Started reports whether the run folder exists.
func (s *Session) Started() bool { return s.run != nil }

// Gone reports whether the run folder was removed while the run wrote to it.
func (s *Session) Gone() bool {
	_, err := os.Stat(filepath.Join(s.Dir, store.JournalFile))
	return s.Started() && errors.Is(err, fs.ErrNotExist)
}

// rebootPatience is how long Measure waits at its start for a machine that may
// be booting.
const rebootPatience = 5 * time.Minute

// Measure runs the plan. It creates the run folder once the hosts are leased and
// at least one comparison is possible: a refused run leaves no folder.
func (s *Session) Measure(ctx context.Context, o Options) (out trial.Outcome, err error) {
	agent, err := o.At.Agent()
	if err != nil {
		return out, err
	}
	var telling sync.Mutex // two hosts are read at the same time
	progress := func(text string) {
		telling.Lock()
		defer telling.Unlock()
		o.Events(trial.Event{Kind: trial.Preparing, At: time.Now(), Text: text})
	}
	others := s.watchOthers(ctx)
	reached := o.At.Reach(ctx, s.Plan, rebootPatience, progress)
	leases, err := reached.Lease(ctx, filepath.Base(s.Dir), s.Plan, agent, s.Drivers, progress)
	defer func() { err = errors.Join(err, leases.Close(), reached.Close()) }()
	if err != nil {
		return out, err
	}
	if s.others = <-others; s.others != nil && s.others.Disturb() {
		progress(s.others.String() + ": intervals may be wider; measure when the machine is idle")
	}
	seen, err := s.survey(ctx, reached, progress)
	if err != nil {
		return out, err
	}
	if err := inputs.Pack(ctx, o.At.Images(progress), s.Plan, s.sources); err != nil {
		return out, err
	}
	created := s.run == nil
	if created {
		if err := s.create(); err != nil {
			return out, err
		}
	}
	defer func() { err = errors.Join(err, s.run.Close()) }()
	if created && len(o.Labels) > 0 {
		if err := s.run.Append(store.Line{Type: store.LineLabels, At: time.Now().UTC(), Labels: o.Labels}); err != nil {
			return out, err
		}
	}
	if err := s.keep(o.Calibration, created); err != nil {
		return out, err
	}
	out, err = trial.Run(ctx, trial.Options{
		Plan: s.Plan, Run: s.run, Drivers: s.Drivers, Workloads: executionall.Runners(),
		Answers: seen.Settled(), LeftOut: seen.LeftOut, Env: leases.Local,
		Hosts: leases.Others, Boxes: reached.Boxes, Unreached: reached.Unreached,
		Budget: o.Budget, Events: o.Events, Others: s.others, Proofs: diagnosis.Standing(ctx, o.At),
	})
	if created && fault.Is(err, fault.Unsupported) {
		// The baseline has no image: nothing was measured, so nothing is kept.
		err = errors.Join(err, os.RemoveAll(s.Dir))
	}
	return out, err
}

// othersTime is how long the use of the CPUs is observed before the first trial.
const othersTime = 100 * time.Millisecond

// watchOthers observes what other programs use of this machine's CPUs. It gives nil if
// no contender runs here, and on systems that do not say it.
func (s *Session) watchOthers(ctx context.Context) <-chan *store.Others {
	out := make(chan *store.Others, 1)
	root := os.DirFS("/")
	here := slices.ContainsFunc(s.Plan.Contenders, func(c plan.Contender) bool { return c.Host == env.LocalHost })
	before := (*diagnosis.Processes)(nil)
	if here {
		before = diagnosis.ReadProcesses(root)
	}
	if before == nil {
		out <- nil
		return out
	}
	go func() {
		_ = sleep.For(ctx, othersTime)
		out <- diagnosis.ReadProcesses(root).Others(before, os.Getpid())
	}()
	return out
}

// Others is what other programs used of this machine's CPUs when Measure began; nil if
// it is unknown.
func (s *Session) Others() *store.Others { return s.others }

// survey checks what the plan asks of its hosts before anything is created,
// reports once what is missing, and refuses a run in which nothing could be
// compared.
func (s *Session) survey(ctx context.Context, reached *hosts.Connected,
	progress func(string)) (preflight.Survey, error) {
	site := reached.Site(s.Drivers)
	site.Sources, site.Folder = s.sources, s.named.Folder
	seen, err := preflight.Inspect(ctx, s.Plan, site)
	if err == nil {
		err = seen.Refusal()
	}
	if s.Words != nil && (err == nil || fault.Is(err, fault.Unsupported)) {
		err = cmp.Or(typedAbsence(seen), err)
	}
	if err != nil {
		return seen, err
	}
	for _, note := range seen.Notes {
		progress(note)
	}
	for _, l := range seen.Lacks {
		progress(diagnosis.Lack(l).Line())
	}
	for _, u := range seen.Unfit {
		progress(u.Error())
	}
	for _, x := range seen.Absent {
		progress(s.absence(x))
	}
	return seen, nil
}

// typedAbsence refuses files that somebody typed and that no contender has which should run
// them: other commands would be measured without a comparison with this one.
func typedAbsence(seen preflight.Survey) error {
	var errs []error
	for _, a := range seen.Absent {
		if a.Nowhere {
			errs = append(errs, fault.Wrap(fault.Invalid, "cell "+a.Cell, a))
		}
	}
	return errors.Join(errs...)
}

// absence is a line about a file that contenders do not have.
func (s *Session) absence(x preflight.Absence) string {
	if s.Words != nil {
		return s.Words(x).Error()
	}
	return diagnosis.Absence(x).Line()
}

// keep puts the calibration of this machine into the folder of a run that
// begins, or of one that was killed before the journal mentions it.
func (s *Session) keep(calibration []byte, created bool) error {
	if calibration == nil {
		return nil
	}
	if !created {
		lines, err := s.run.Journal()
		if err != nil {
			return err
		}
		kept := slices.ContainsFunc(lines, func(l store.Line) bool { return l.Type == store.LineCalibration })
		if _, _, err := s.run.Calibration(); kept || err != nil {
			return nil
		}
	}
	return s.run.KeepCalibration(time.Now(), calibration)
}
