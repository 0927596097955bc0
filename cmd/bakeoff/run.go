package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
	"bakeoff/lab/env"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/lab/trial"
	workloadall "bakeoff/measure/workload/all"
	"bakeoff/provision/driver"
	driverall "bakeoff/provision/driver/all"
	"bakeoff/publish/report"
)

// runFlags are the flags of run.
type runFlags struct {
	labFlags
	budget time.Duration
	out    string
	resume string
	seed   uint64
	failOn []string
	json   bool
}

func (a *app) run() *cobra.Command {
	var f runFlags
	var meanings []string
	for _, c := range conditions {
		meanings = append(meanings, fmt.Sprintf("  %-12s %s", c.name, c.meaning))
	}
	c := &cobra.Command{
		Use:   "run [LAB]",
		Short: "Measure what a lab file asks for, and write a page",
		Long: `run plans, measures and reports. LAB is a lab file or a folder that has a
bakeoff.yaml; without it, ./bakeoff.yaml is taken.

Before the first trial the whole schedule is drawn from a seed and registered
in the run folder. On a terminal the intervals are seen narrowing; elsewhere
there is a line for each block. Ctrl-C ends the run with a report of what there
is, and exit code 130 (143 after SIGTERM); a second one kills it at once, and
run --resume goes on with it. So does a terminal that goes away end it, and a
pipe that is closed; nohup keeps it from the first.

With --fail-on the exit code is 3 when one of these came true:

` + strings.Join(meanings, "\n"),
		Example: `  bakeoff run examples/quick
  bakeoff run examples/quick --profile ci
  bakeoff run lab.yaml --only http-50 --budget 20m --out /srv/runs
  bakeoff run lab.yaml --json --fail-on worse,twin
  bakeoff run --resume runs/20260102T030405Z-quick`,
		Args: between(0, 1, "a lab file"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.doRun(c, f, args)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.out, "out", "runs", "`folder` in which the run folder is made")
	fl.StringVar(&f.resume, "resume", "", "go on with the run in this `folder`")
	fl.Uint64Var(&f.seed, "seed", 0, "`number` that the schedule is drawn from; 0 draws one and records it")
	fl.DurationVar(&f.budget, "budget", 0, "`time` in which blocks may start, instead of the lab file's")
	fl.StringSliceVar(&f.only, "only", nil, "measure this `cell` only; may be given more than once")
	fl.StringVar(&f.profile, "profile", "", "`name` of a profile of the lab file")
	fl.BoolVar(&f.json, "json", false, "print the results as one JSON object, and how it goes on standard error")
	failOnFlag(c, &f.failOn)
	completeLabFlags(c)
	return c
}

// completeLabFlags offers the profiles and cells of the lab file.
func completeLabFlags(c *cobra.Command) {
	for name, fn := range map[string]func([]string) []string{
		"profile": labNames(func(l *manifest.Lab) []string { return l.Profiles }),
		"only": labNames(func(l *manifest.Lab) (out []string) {
			for _, c := range l.Cells {
				out = append(out, c.Name)
			}
			return out
		}),
	} {
		completeFlag(c, name, fn)
	}
}

// labNames offers names out of the lab file on the command line.
func labNames(names func(*manifest.Lab) []string) func([]string) []string {
	return func(args []string) []string {
		lab, err := labFlags{}.load(args)
		if err != nil {
			return nil
		}
		return names(lab)
	}
}

func (a *app) doRun(c *cobra.Command, f runFlags, args []string) error {
	if err := failOn(f.failOn).check(); err != nil {
		return err
	}
	if f.budget < 0 {
		return usage(c, fmt.Errorf("--budget %v is no time that can be spent", f.budget))
	}
	if f.resume != "" {
		for _, name := range []string{"seed", "only", "profile", "out"} {
			if c.Flags().Changed(name) {
				return usage(c, fmt.Errorf("--%s cannot be changed on --resume: it was registered when the run began", name))
			}
		}
		if len(args) > 0 {
			return usage(c, fmt.Errorf("--resume takes the lab file of the run, not %s", args[0]))
		}
	}
	ctx, stop := a.interruptible(c.Context())
	defer stop()
	s := &session{app: a, runFlags: f}
	if err := s.register(args); err != nil {
		return err
	}
	outcome, err := s.measure(ctx)
	if err != nil {
		return s.broken(ctx, err)
	}
	if err := report.Write(s.dir, pageOption()); err != nil {
		return s.howToGoOn(err)
	}
	err = s.conclude(outcome.Results)
	if outcome.Ended == analysis.EndedInterrupted {
		return s.broken(ctx, err)
	}
	return err
}

// broken is how a run ends that a signal may have ended before its time: then
// it is not done, whatever --fail-on would say of the part that there is.
func (s *session) broken(ctx context.Context, err error) error {
	how := "nothing was measured"
	if s.run != nil {
		how = "bakeoff run --resume " + s.dir + " goes on with it"
	}
	stopped := interrupted(ctx, how)
	var asked verdict
	switch {
	case stopped == nil:
		return s.howToGoOn(err)
	case err == nil, errors.Is(err, context.Canceled), errors.As(err, &asked):
		return stopped
	}
	return errors.Join(stopped, err)
}

// howToGoOn adds to a failure of the laboratory what can be done about it.
func (s *session) howToGoOn(err error) error {
	if s.run == nil || errors.As(err, new(verdict)) {
		return err
	}
	if _, gone := os.Stat(filepath.Join(s.dir, store.JournalFile)); errors.Is(gone, fs.ErrNotExist) && !fault.Is(err, fault.Unsupported) {
		return fault.New(fault.Lab, "the run folder %s is gone: somebody moved or removed it while the run was writing to it (%v)", s.dir, err)
	}
	if fault.Of(err) == fault.Lab {
		return fault.WithFix(err, "when that is mended, bakeoff run --resume "+s.dir+" goes on with it")
	}
	return err
}

// session is one execution of run.
type session struct {
	*app
	runFlags
	plan  *plan.Plan
	text  []byte // of the plan, as it is registered
	lab   []byte // the lab file as written
	dir   string // the run folder
	run   *store.Run
	watch watcher
	// drivers are those that the plan speaks of; nil: all.
	drivers []driver.Driver
}

// register finds out what to run, and fixes it: from the lab file and a seed,
// or from the run that is gone on with.
func (s *session) register(args []string) (err error) {
	if s.resume != "" {
		if s.dir, err = runDir(s.resume); err != nil {
			return err
		}
		if s.run, err = store.Resume(s.dir); err != nil {
			return err
		}
		if s.text, err = s.run.Plan(); err != nil {
			return err
		}
		if s.plan, err = plan.Decode(s.text); err != nil {
			return err
		}
		return s.unedited()
	}
	lab, err := s.load(args)
	if err != nil {
		return err
	}
	if s.seed == 0 {
		s.seed = drawSeed()
	}
	if s.plan, err = plan.Expand(lab, catalogue(), s.seed, versionString()); err != nil {
		return err
	}
	// What the person wrote is no failure of what is measured, and no result.
	if err := errors.Join(trial.CheckCells(s.plan, workloadall.Workloads())...); err != nil {
		return err
	}
	s.lab = lab.Source
	s.dir = filepath.Join(s.out, store.Name(time.Now(), lab.Name))
	s.text, err = plan.Encode(s.plan)
	return err
}

// unedited refuses to go on with a run whose lab file is another one by now:
// what was changed in it would be passed over in silence.
func (s *session) unedited() error {
	const fix = "put back the one of the beginning, or bakeoff run the new one: that is a run of its own"
	lab, err := s.run.Lab()
	if err != nil {
		return fault.WithFix(err, fix)
	}
	if sum := sha256.Sum256(lab); hex.EncodeToString(sum[:]) != s.plan.LabSHA256 {
		return fault.WithFix(fault.New(fault.Invalid, "%s was changed since the run began, and a run goes on as it was registered",
			filepath.Join(s.dir, store.LabFile)), fix)
	}
	return nil
}

// drawSeed draws a seed that is not 0 and that every JSON reader keeps exact.
func drawSeed() uint64 {
	var b [8]byte
	for {
		rand.Read(b[:]) // never fails since Go 1.24
		if n := binary.LittleEndian.Uint64(b[:]) >> 11; n != 0 {
			return n
		}
	}
}

// measure runs the plan with everything it needs around it.
func (s *session) measure(ctx context.Context) (out trial.Outcome, err error) {
	agent, err := agentPath(s.env)
	if err != nil {
		return out, err
	}
	known, err := s.known()
	if err != nil {
		return out, err
	}
	s.watch = s.watcher()
	defer s.watch.close()
	drivers := s.drivers
	if drivers == nil {
		drivers = driverall.Drivers()
	}
	leased, err := s.lease(ctx, agent, drivers)
	defer func() { err = errors.Join(err, leased.close()) }()
	if err != nil {
		return out, err
	}
	answers, err := s.survey(ctx, leased.fleet, drivers)
	if err != nil {
		return out, err
	}
	// The folder is made when the host is ours, and something can be compared:
	// a refusal leaves none.
	began := s.run == nil
	if began {
		if s.run, err = store.Create(s.dir, time.Now(), s.lab, s.text); err != nil {
			return out, err
		}
	}
	defer func() { err = errors.Join(err, s.run.Close()) }()
	if err := keepKnown(s.run, known, began); err != nil {
		return out, err
	}
	out, err = trial.Run(ctx, trial.Options{
		Plan: s.plan, Run: s.run, Drivers: drivers, Workloads: workloadall.Workloads(),
		Answers: answers, Env: leased.local, Hosts: leased.others, Boxes: leased.fleet.boxes, Unreached: leased.fleet.errs,
		Budget: s.budget, Events: s.watch.event, Proofs: standing(s.proofs(ctx)),
	})
	if began && fault.Is(err, fault.Unsupported) {
		// The baseline has no image: nothing was measured, so nothing is kept.
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return out, err
}

// survey looks at what the plan asks of its hosts before anything is made, says
// once what is missing, and refuses a run in which nothing could be compared.
func (s *session) survey(ctx context.Context, hosts *fleet, drivers []driver.Driver) ([]trial.Availability, error) {
	seen, err := trial.Look(ctx, s.plan, hosts.site(drivers))
	if err == nil {
		err = seen.Refusal()
	}
	if err != nil {
		return nil, err
	}
	said := append([]string{}, seen.Notes...)
	for _, l := range seen.Lacks {
		said = append(said, lackFinding(l).line())
	}
	for _, x := range seen.Absent {
		said = append(said, absentFinding(x).line())
	}
	for _, text := range said {
		s.watch.event(trial.Event{Kind: trial.Preparing, At: time.Now(), Text: text})
	}
	return seen.Answers, nil
}

// leased is what a run leases on.
type leased struct {
	local  *env.Manager // nil where no contender stands on this machine
	others map[string]*env.Manager
	fleet  *fleet
}

// lease locks every machine that the plan's contenders stand on. What it
// returns is to be closed, with an error too.
func (s *session) lease(ctx context.Context, agent string, drivers []driver.Driver) (l leased, err error) {
	var saying sync.Mutex // two hosts are read at the same time
	progress := func(text string) {
		saying.Lock()
		defer saying.Unlock()
		s.watch.event(trial.Event{Kind: trial.Preparing, At: time.Now(), Text: text})
	}
	l.fleet = s.reach(ctx, s.plan, rebootPatience, progress)
	if onLocal(s.plan) {
		state, cache := env.Dirs(s.env, os.Getuid())
		if l.local, err = env.Open(ctx, env.Config{
			StateDir: state, CacheDir: cache, Host: s.localHost(), Agent: agent, Run: filepath.Base(s.dir), Progress: progress,
			Meter: s.plan.Hosts[env.LocalHost].Meter, Uplink: s.plan.Hosts[env.LocalHost].Uplink,
		}, drivers); err != nil {
			return l, err
		}
	}
	l.others, err = l.fleet.managers(ctx, filepath.Base(s.dir), s.plan, drivers, progress)
	return l, err
}

func (l leased) close() error {
	down, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	if l.local != nil {
		errs = append(errs, l.local.Close(down))
	}
	for _, other := range l.others {
		errs = append(errs, other.Close(down))
	}
	return errors.Join(append(errs, l.fleet.close())...)
}

// watcher shows how it goes on: live on a terminal, else by lines.
func (s *session) watcher() watcher {
	title := fmt.Sprintf("seed %d, %s", s.plan.Seed, s.dir)
	if s.json {
		return &plain{out: s.stderr, style: s.style(s.stderr), title: title}
	}
	if s.terminal(s.stdout) && s.env("TERM") != "dumb" && !s.ascii() {
		title := fmt.Sprintf("bakeoff %s  seed %d  %s", s.plan.Lab, s.plan.Seed, s.dir)
		size := func() (int, int) { return s.size(s.stdout) }
		return newLive(s.stdout, s.style(s.stdout), size, liveState{title: title})
	}
	return &plain{out: s.stdout, style: s.style(s.stdout), title: title}
}

// ran is what run --json prints: the results, and where they are.
type ran struct {
	analysis.Results
	Folder string `json:"folder"`
	Report string `json:"report"`
}

// conclude tells the answer, and how the command ends.
func (s *session) conclude(r analysis.Results) error {
	page := filepath.Join(s.dir, filepath.FromSlash(store.ReportFile))
	if s.json {
		if err := s.printJSON(ran{Results: r, Folder: s.dir, Report: page}); err != nil {
			return err
		}
	} else {
		if full, err := filepath.Abs(page); err == nil {
			page = full
		}
		if err := s.printAnswer(r, page); err != nil {
			return err
		}
	}
	if r.Blocks == 0 && r.Void > 0 && r.Ended != analysis.EndedInterrupted {
		return fault.New(fault.Lab, "nothing was measured: each of the %d blocks was void, by failures of the laboratory", r.Void)
	}
	return failOn(s.failOn).end(r)
}
