package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/shell"
	"bakeoff/base/unit"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/cmd/bakeoff/offline"
	"bakeoff/judge/analysis"
	"bakeoff/lab/calibration"
	"bakeoff/lab/manifest"
	"bakeoff/lab/session"
	"bakeoff/lab/store"
	"bakeoff/lab/trial"
	"bakeoff/publish/report"
)

// runFlags are the flags of run.
type runFlags struct {
	sort string
	labFlags
	slurmFlags
	budget time.Duration
	out    string
	resume string
	seed   uint64
	failOn []string
	labels map[string]string
	json   bool
	// quiet keeps standard output for what answer prints.
	quiet bool
	// answer prints the results for a person; nil: the usual report.
	answer func(r analysis.Results, page string) error
	// anyway says how to measure a program in spite of its exit code; "" is the way of
	// lab files.
	anyway string
	// boots is the number of boots of boot record, which says when each has ended; 0 for
	// other runs.
	boots int
	// words replaces the names of the lab file in what the run advises; nil keeps them.
	words *strings.Replacer
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run [LAB]",
		Short: "Run a lab file and write the page of its results",
		Long: `run plans, measures and reports. LAB is a lab file, or a folder with a
bakeoff.yaml; the default is ./bakeoff.yaml.

Before the first trial, run draws the whole schedule from a seed and registers it in the run
folder. On a terminal, run shows the intervals as they narrow; elsewhere it prints a line
for each block (round of trials).

Ctrl-C ends the run with a report of the blocks so far and exit code 130 (143 after
SIGTERM). A second Ctrl-C kills the run at once. Closing the terminal or the output pipe
also ends the run; nohup survives a closed terminal. run --resume continues an interrupted
run, or a run whose budget was too small.

If the lab file has a budget and names no looks (interim analyses), run derives the looks
from the budget.

--label records in the run folder what the run measured: commit=SHA names a commit. bakeoff
history shows the labels next to a step. The label machine=NAME distinguishes the runs of
machines that look the same.

With --on slurm, run submits the lab file as jobs to Slurm (bakeoff queue), and waits for
them. It copies the run folders of the jobs into the folder of --out.

With --fail-on the exit code is 3 if one of these conditions is true. The plan
contains each condition with a tolerance (such as worse-than-margin or METRIC>+N%), and the
run continues until these conditions are decided.

` + offline.Conditions(),
		Example: `  bakeoff run examples/quick
  bakeoff run examples/quick --profile ci
  bakeoff run lab.yaml --only http-50 --budget 20m --out /srv/runs
  bakeoff run lab.yaml --json --fail-on worse,twin
  bakeoff run lab.yaml --label commit=$(git rev-parse --short HEAD)
  bakeoff run --resume runs/20260102T030405Z-quick
  bakeoff run lab.yaml --on slurm --pool epyc`,
		Args: cli.Between(0, 1, "a lab file"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.doRun(c, f, args)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.out, "out", "runs", "`folder` in which to create the run folder")
	fl.StringVar(&f.resume, "resume", "", "continue the run in this `folder`")
	fl.Uint64Var(&f.seed, "seed", 0, "`number` from which run derives the random schedule; with 0, bakeoff chooses "+
		"and records a number")
	fl.DurationVar(&f.budget, "budget", 0,
		"`time` limit instead of the lab file's budget; bakeoff starts no block (round of trials) that would exceed it")
	fl.StringSliceVar(&f.only, "only", nil, "measure only this `cell`; may be repeated")
	fl.StringVar(&f.profile, "profile", "", "`name` of a profile in the lab file")
	fl.StringToStringVar(&f.labels, "label", nil, "record this label `name=value` in the run folder; may be repeated")
	fl.BoolVar(&f.json, "json", false, "print the results as one JSON object, and progress on standard error")
	fl.StringSliceVar(&f.bind, "bind", nil, "`NAME=ADDRESS` of a host that comes from a pool")
	if err := fl.MarkHidden("bind"); err != nil {
		panic(err) // the flag was defined a line above
	}
	f.slurmFlags.add(c)
	offline.SortFlag(c, &f.sort)
	offline.FailOnFlag(c, &f.failOn)
	completeLabFlags(c)
	return c
}

// completeLabFlags offers the profiles and cells of the lab file.
func completeLabFlags(c *cobra.Command) {
	for name, fn := range map[string]func([]string) []string{
		"profile": labNames(func(l *manifest.Lab) []string { return l.Profiles }),
		"only": labNames(func(l *manifest.Lab) (out []string) {
			return lists.Map(l.Cells, func(c manifest.Cell) string { return c.Name })
		}),
	} {
		cli.CompleteFlag(c, name, fn)
	}
}

// labNames offers names out of the lab file on the command line.
func labNames(names func(*manifest.Lab) []string) func([]string) []string {
	return func(args []string) []string {
		lab, err := labFlags{}.loadLab(args)
		if err != nil {
			return nil
		}
		return names(lab)
	}
}

func (a *app) doRun(c *cobra.Command, f runFlags, args []string) error {
	if err := offline.FailOn(f.failOn).Check(); err != nil {
		return err
	}
	if err := offline.CheckSort(c, f.sort); err != nil {
		return err
	}
	if err := store.CheckLabels(f.labels); err != nil {
		return cli.Usage(c, err)
	}
	if f.budget < 0 {
		return cli.Usage(c, fmt.Errorf("--budget must be positive (got %v)", f.budget))
	}
	if err := f.slurmFlags.check(c); err != nil {
		return err
	}
	if f.on != "" {
		return a.submitLab(c, f, args)
	}
	s, err := a.register(c, f, args)
	if err != nil {
		return err
	}
	if f.failOn, err = conditionsOf(c, s, f.failOn); err != nil {
		return err
	}
	return a.carryOut(c, s, f)
}

// conditionsOf are the conditions that a run registered, and those that were asked for. A
// condition with a tolerance decides when the run ends, so it must be registered.
func conditionsOf(c *cobra.Command, s *session.Session, asked []string) ([]string, error) {
	for _, condition := range offline.FailOn(asked).Limits() {
		if !slices.Contains(s.Plan.FailOn, condition) {
			return nil, cli.Usage(c, fmt.Errorf("--fail-on %s cannot be used with --resume: the run began without it; "+
				"start a new run", condition))
		}
	}
	return lists.AddNew(slices.Clone(s.Plan.FailOn), asked...), nil
}

// carryOut measures, writes the page, and prints the answer.
func (a *app) carryOut(c *cobra.Command, s *session.Session, f runFlags) error {
	ctx, stop := a.Interruptible(c.Context())
	defer stop()
	outcome, block, err := a.measure(ctx, s, f)
	if err != nil {
		return interruptedEnd(ctx, s, err)
	}
	// The page takes the most memory, and no trial is running any more.
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	if err := report.Write(s.Dir, offline.PageOption(versionString(), f.sort)); err != nil {
		return howToGoOn(s, err)
	}
	err = a.conclude(s, f, outcome, block)
	if outcome.Ended == analysis.EndedInterrupted {
		return interruptedEnd(ctx, s, err)
	}
	return err
}

// register plans a run, or finds the run to resume.
func (a *app) register(c *cobra.Command, f runFlags, args []string) (*session.Session, error) {
	if f.resume == "" {
		lab, err := f.loadLab(args)
		if err != nil {
			return nil, err
		}
		if f.seed == 0 {
			f.seed = session.DrawSeed()
		}
		if _, err := a.recordSources(c.Context(), lab); err != nil {
			return nil, err
		}
		lab.FailOn = f.failOn
		lab.FollowBudget(f.budget)
		return session.New(lab, f.seed, versionString(), f.out)
	}
	for _, name := range []string{"seed", "only", "profile", "out", "label"} {
		if c.Flags().Changed(name) {
			return nil, cli.Usage(c, fmt.Errorf("--%s cannot be used with --resume: the run keeps the value that it began "+
				"with", name))
		}
	}
	if len(args) > 0 {
		return nil, cli.Usage(c, fmt.Errorf("unexpected argument %q: --resume uses the lab file in the run folder", args[0]))
	}
	dir, err := offline.RunDir(f.resume)
	if err != nil {
		return nil, err
	}
	return session.Resume(dir)
}

// measure also returns how long a block took on average; 0 if there was none.
func (a *app) measure(ctx context.Context, s *session.Session, f runFlags) (_ trial.Outcome, block time.Duration,
	err error) {
	known, err := calibration.Known(a.at)
	if err != nil {
		return trial.Outcome{}, 0, err
	}
	w := a.watcher(s, f)
	defer w.closeView()
	var took time.Duration
	blocks := 0
	out, err := s.Measure(ctx, session.Options{At: a.at, Budget: f.budget, Calibration: known, Labels: f.labels,
		Events: func(e trial.Event) {
			if e.Kind == trial.BlockEnd {
				took, blocks = took+e.Took, blocks+1
			}
			w.showEvent(e)
		}})
	return out, took / time.Duration(max(blocks, 1)), err
}

// howToDecide is the command that continues a run whose limits are not decided, or that had
// no look. block is what a block takes.
func howToDecide(s *session.Session, r analysis.Results, block time.Duration) string {
	if len(r.Limits) == 0 && (len(r.Looks) == 0 || r.Blocks >= r.Looks[0]) {
		return ""
	}
	left := s.Plan.Planned() - r.Blocks
	more, pending := 0, false
	if len(r.Limits) == 0 {
		if left <= 0 {
			return ""
		}
		more, pending = r.Looks[0]-r.Blocks, true
	}
	for _, l := range r.Limits {
		if pending = pending || l.Pending(); l.Pending() && l.MoreBlocks != nil {
			more = max(more, *l.MoreBlocks)
		}
	}
	if left <= 0 || !pending {
		return "the remaining blocks of this run cannot decide it: start a new run, with a larger --budget or on a quieter " +
			"machine"
	}
	if more == 0 {
		more = r.Blocks
		for _, look := range r.Looks {
			if more = max(look-r.Blocks, 1); look > r.Blocks {
				break
			}
		}
	}
	text := "to continue"
	if more > left {
		text, more = "the run has only "+unit.Count(left, "more block")+", which may not decide it; start a new run with a "+
			"larger --budget, or continue", left
	}
	// A quarter more, because blocks differ.
	budget := max(time.Duration(more)*block*5/4, 10*time.Second).Round(time.Second)
	return text + ": bakeoff run --resume " + shell.Quote(s.Dir) + " --budget " + budget.String()
}

// interruptedEnd returns how a run ends that a signal may have interrupted. An
// interrupted run is not complete, so its exit code comes before --fail-on.
func interruptedEnd(ctx context.Context, s *session.Session, err error) error {
	how := "no block was measured"
	if s.Started() {
		how = "run bakeoff run --resume " + shell.Quote(s.Dir) + " to continue"
	}
	stopped := cli.Interrupted(ctx, how)
	var asked cli.Exit
	switch {
	case stopped == nil:
		return howToGoOn(s, err)
	case err == nil, errors.Is(err, context.Canceled), errors.As(err, &asked):
		return stopped
	}
	return errors.Join(stopped, err)
}

// howToGoOn adds the remedy to a failure of the lab.
func howToGoOn(s *session.Session, err error) error {
	if !s.Started() || errors.As(err, new(cli.Exit)) {
		return err
	}
	if s.Gone() && !fault.Is(err, fault.Unsupported) {
		return fault.New(fault.Lab, "the run folder %s was moved or removed while the run was writing to it (%v)", s.Dir, err)
	}
	if fault.Of(err) == fault.Lab {
		return fault.WithFix(err, "fix this, then run bakeoff run --resume "+shell.Quote(s.Dir))
	}
	return err
}

// watcher shows the progress of a run: live on a terminal, else by lines.
func (a *app) watcher(s *session.Session, f runFlags) watcher {
	title := fmt.Sprintf("seed %d, %s", s.Plan.Seed, s.Dir)
	told := reported{words: f.words}
	if f.json || f.quiet {
		return &plain{out: a.Err, style: a.Style(a.Err), title: title, boots: f.boots, reported: told}
	}
	if a.Terminal(a.Out) && a.Env("TERM") != "dumb" && !a.ASCII() {
		title := fmt.Sprintf("bakeoff %s  seed %d  %s", s.Plan.Lab, s.Plan.Seed, s.Dir)
		size := func() (int, int) { return a.Size(a.Out) }
		l := newLive(a.Out, a.Style(a.Out), size, liveState{title: title})
		l.reported = told
		return l
	}
	return &plain{out: a.Out, style: a.Style(a.Out), title: title, boots: f.boots, reported: told}
}

// ran is what run --json prints: the results, and where they are.
type ran struct {
	analysis.Results
	Folder string `json:"folder"`
	Report string `json:"report"`
	// OtherPrograms is what they used of this machine's CPUs when the run began; null:
	// unknown.
	OtherPrograms *store.Others `json:"other_programs"`
}

// conclude prints the answer, and returns how the command ends.
// block is what a block took.
func (a *app) conclude(s *session.Session, f runFlags, o trial.Outcome, block time.Duration) error {
	r := o.Results
	page := filepath.Join(s.Dir, filepath.FromSlash(store.ReportFile))
	if f.json {
		if err := a.PrintJSON(ran{Results: r, Folder: s.Dir, Report: page, OtherPrograms: s.Others()}); err != nil {
			return err
		}
	} else {
		if full, err := filepath.Abs(page); err == nil {
			page = full
		}
		answer := f.answer
		if answer == nil {
			answer = func(r analysis.Results, page string) error {
				return offline.PrintAnswer(a.Streams, report.Text, r, page, f.sort)
			}
		}
		if err := answer(r, page); err != nil {
			return err
		}
	}
	if err := a.failures(s, r, f.anyway); err != nil {
		return err
	}
	if r.Blocks == 0 && r.Void > 0 && r.Ended != analysis.EndedInterrupted {
		why := cmp.Or(o.Cause, "all of them because of failures of the lab")
		return fault.New(fault.Lab, "the run has no result: no block is valid, and %d are void: %s", r.Void,
			safetext.Line(why))
	}
	if o.Cause != "" {
		fmt.Fprintln(a.Err, "bakeoff: note: the run ended early: "+safetext.Line(o.Cause))
	}
	failOn := offline.FailOn(f.failOn)
	const remedy = "more blocks and a quieter machine narrow the intervals"
	if text := failOn.Open(r, remedy); text != "" {
		fmt.Fprintln(a.Err, "bakeoff: note: "+text)
	}
	return failOn.End(r, howToDecide(s, r, block))
}
