package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/sleep"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/queue"
)

// The schemas of what the commands of the queue print with --json.
const queueSchema = "bakeoff/queue/v1"

// queueDir is the folder of the queue in the state folder.
func (a *app) queueDir() string {
	state, _ := a.at.Dirs()
	return filepath.Join(state, "queue")
}

// queue opens the record of this user, with the cluster file.
func (a *app) queue() (*queue.Queue, error) {
	path := a.Env("BAKEOFF_CLUSTER")
	if path == "" {
		path = queue.DefaultFile
	}
	c, err := queue.Load(path)
	if err != nil {
		return nil, err
	}
	return &queue.Queue{Dir: a.queueDir(), Cluster: c, Note: func(text string) {
		fmt.Fprintln(a.Err, "bakeoff: note: "+safetext.Line(text))
	}}, nil
}

func (a *app) queueCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "queue",
		Short: "Show and change the jobs that run on Slurm",
		Long: `queue shows the jobs of "bakeoff run LAB --on slurm" and changes them. JOB is the UUID of a
job, or the beginning of its UUID.

bakeoff records every job in its state folder. If Slurm loses a job, bakeoff submits it
again. A job that a host has completed never runs a second time. There is no daemon: "queue
list" and "queue wait" submit jobs that Slurm lost, and collect the run folders of jobs that
ended.

The environment variable BAKEOFF_CLUSTER names the cluster file; the default is ` + queue.DefaultFile + `.`,
		Example: `  bakeoff run examples/quick --on slurm --detach
  bakeoff queue list
  bakeoff queue show 3f2a
  bakeoff queue wait
  bakeoff queue cancel 3f2a`,
	}
	for _, sub := range []*cobra.Command{a.queueList(), a.queueShow(), a.queueWait(),
		a.queueChange("pause", "Keep jobs from starting",
			"pause removes from Slurm's queue the jobs that have not started. retry submits them again.", (*queue.Queue).Pause),
		a.queueChange("cancel", "End jobs",
			`cancel removes jobs that have not started. It ends running jobs as Ctrl-C ends a run:
with a report of the completed blocks. retry continues a canceled job.`, (*queue.Queue).Cancel),
		a.queueChange("retry", "Submit paused, failed and canceled jobs again",
			`retry submits paused jobs, and continues failed and canceled jobs on the host that has
their run.`, (*queue.Queue).Retry), a.queueNode()} {
		c.AddCommand(sub)
	}
	cli.Group(c, "command", "list, show, pause, cancel, retry or wait")
	return c
}

func (a *app) queueList() *cobra.Command {
	var all, asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List jobs",
		Long: `list asks Slurm and the hosts for the states of the jobs, and prints the jobs that have not
ended. The column WHY says why a job waits, or how it ended.`,
		Example: "  bakeoff queue list\n  bakeoff queue list --all --json",
		Args:    cli.Between(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			q, err := a.queue()
			if err != nil {
				return err
			}
			news := q.Round(c.Context())
			jobs, err := q.Jobs(all)
			if asJSON && err == nil {
				err = a.PrintJSON(map[string]any{"schema": queueSchema, "jobs": append([]queue.Job{}, jobs...)})
			} else {
				a.printJobs(jobs)
			}
			return errors.Join(news, err)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "also list jobs that have ended")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (a *app) printJobs(jobs []queue.Job) {
	if len(jobs) == 0 {
		fmt.Fprintln(a.Out, "no jobs")
		return
	}
	t := cli.NewTable("JOB", "LAB", "STATE", "HOST", "SINCE", "WHY")
	for _, j := range jobs {
		t.Row(j.UUID[:8], safetext.Line(j.Lab), j.State, orDash(strings.Join(j.Hosts, ",")),
			j.Since.Local().Format("2006-01-02 15:04:05"), reasonOf(j))
	}
	a.Print(t)
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// reasonOf says why a job is in its state.
func reasonOf(j queue.Job) string {
	switch {
	case j.State == queue.Done && j.Code != nil:
		return fmt.Sprintf("exit code %d, %s", *j.Code, orDash(j.Folder))
	case j.Folder != "":
		return safetext.Line(j.Reason + "; " + j.Folder)
	}
	return safetext.Line(j.Reason)
}

func (a *app) queueShow() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "show JOB",
		Short:   "Show a job and its history",
		Example: "  bakeoff queue show 3f2a\n  bakeoff queue show 3f2a --json",
		Args:    cli.Each("a job"),
		RunE: func(c *cobra.Command, args []string) error {
			q, err := a.queue()
			if err != nil {
				return err
			}
			news := q.Round(c.Context())
			j, err := q.Find(args[0])
			if err != nil {
				return errors.Join(err, news)
			}
			if asJSON {
				return errors.Join(a.PrintJSON(map[string]any{"schema": queueSchema, "jobs": []queue.Job{j}}), news)
			}
			t := cli.NewTable()
			for _, row := range [][2]string{{"job", j.UUID}, {"lab", j.Lab}, {"group", j.Group}, {"state", j.State},
				{"pool", strings.Join(j.Pools, ", ")}, {"host", orDash(strings.Join(j.Hosts, ", "))},
				{"slurm job", orDash(j.ID)}, {"submitted", fmt.Sprint(j.Submitted, " times")},
				{"why", orDash(reasonOf(j))}, {"run folder", orDash(j.Folder)}, {"log", orDash(q.Log(j))}} {
				t.Row(row[0], safetext.Line(row[1]))
			}
			a.PrintBody(t)
			a.Heading("History")
			for _, e := range j.Events {
				fmt.Fprintf(a.Out, "  %s  %s\n", e.At.Local().Format("2006-01-02 15:04:05"), safetext.Line(e.Text))
			}
			return news
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// queueChange is a command that changes jobs.
func (a *app) queueChange(name, short, long string,
	do func(*queue.Queue, context.Context, string) error) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   name + " JOB…",
		Short: short,
		Long:  long + "\n\n--json prints the jobs with their new states.",
		Example: "  bakeoff queue " + name + " 3f2a\n  bakeoff queue " + name + " 3f2a 77c0\n  bakeoff queue " + name +
			" 3f2a --json | jq -r '.jobs[].state'",
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usage(c, errors.New("a job is missing"))
			}
			q, err := a.queue()
			if err != nil {
				return err
			}
			var jobs []queue.Job
			for _, arg := range args { // nothing is changed if one name is wrong
				j, err := q.Find(arg)
				if err != nil {
					return err
				}
				jobs = append(jobs, j)
			}
			var errs []error
			for _, j := range jobs {
				errs = append(errs, do(q, c.Context(), j.UUID))
			}
			errs = append(errs, q.Round(c.Context()))
			if asJSON {
				for i, j := range jobs {
					if jobs[i], err = q.Find(j.UUID); err != nil {
						return errors.Join(append(errs, err)...)
					}
				}
				errs = append(errs, a.PrintJSON(map[string]any{"schema": queueSchema, "jobs": jobs}))
			}
			return errors.Join(errs...)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (a *app) queueWait() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "wait [JOB…]",
		Short: "Wait until jobs have ended, and collect their results",
		Long: `wait works on the queue until the named jobs, or all jobs, have ended: it submits jobs that
Slurm lost, and collects run folders. Ctrl-C ends only the waiting.

The exit code is the largest exit code of all jobs: a completed job has the exit code of its
run, and a failed or canceled job has 1. wait does not wait for paused jobs.`,
		Example: "  bakeoff queue wait\n  bakeoff queue wait 3f2a --json",
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			q, err := a.queue()
			if err != nil {
				return err
			}
			var uuids []string
			for _, arg := range args {
				j, err := q.Find(arg)
				if err != nil {
					return err
				}
				uuids = append(uuids, j.UUID)
			}
			if len(args) == 0 {
				jobs, err := q.Jobs(false)
				if err != nil {
					return err
				}
				for _, j := range jobs {
					uuids = append(uuids, j.UUID)
				}
			}
			return a.await(c.Context(), q, uuids, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object, and progress on standard error")
	return c
}

// How often await asks: at first, and later.
const (
	soon   = time.Second
	later  = 5 * time.Second
	eagerN = 30
)

// await works on the queue until jobs have ended, and prints what happens.
func (a *app) await(ctx context.Context, q *queue.Queue, uuids []string, asJSON bool) error {
	ctx, stop := a.Interruptible(ctx)
	defer stop()
	out := a.Out
	if asJSON {
		out = a.Err
	}
	shown := map[string]int{}
	trouble := ""
	for n := 0; ; n++ {
		if err := q.Round(ctx); err != nil && ctx.Err() == nil && err.Error() != trouble {
			trouble = err.Error()
			fmt.Fprintln(a.Err, "bakeoff: note: "+safetext.Line(trouble)+"; trying again")
		}
		jobs, err := q.Jobs(true)
		if err != nil && ctx.Err() == nil {
			return err
		}
		jobs = slices.DeleteFunc(jobs, func(j queue.Job) bool { return !slices.Contains(uuids, j.UUID) })
		open := false
		for _, j := range jobs {
			for ; shown[j.UUID] < len(j.Events); shown[j.UUID]++ {
				e := j.Events[shown[j.UUID]]
				fmt.Fprintf(out, "%s  %s %s: %s\n", e.At.Local().Format("15:04:05"), j.UUID[:8], safetext.Line(j.Lab),
					safetext.Line(e.Text))
			}
			open = open || !j.Over() && j.State != queue.Paused
		}
		if err := cli.Interrupted(ctx, "the jobs stay in the queue: bakeoff queue wait waits again, bakeoff queue cancel "+
			"ends them"); err != nil {
			return err
		}
		if !open {
			return a.concludeJobs(q, jobs, asJSON)
		}
		wait := soon
		if n > eagerN {
			wait = later
		}
		_ = sleep.For(ctx, wait)
	}
}

// concludeJobs prints jobs that ended, and returns how the command ends.
func (a *app) concludeJobs(q *queue.Queue, jobs []queue.Job, asJSON bool) error {
	if asJSON {
		if err := a.PrintJSON(map[string]any{"schema": queueSchema, "jobs": append([]queue.Job{}, jobs...)}); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(a.Out)
		a.printJobs(jobs)
	}
	code := 0
	for _, j := range jobs {
		switch {
		case j.State == queue.Done && j.Code != nil:
			code = max(code, *j.Code)
		case j.State != queue.Paused:
			code = max(code, cli.ExitFailed)
		}
		if j.State != queue.Done && q.Log(j) != "" {
			fmt.Fprintf(a.Err, "bakeoff: job %s: see %s\n", j.UUID[:8], q.Log(j))
		}
	}
	if code == 0 {
		return nil
	}
	return cli.Exit{Code: code}
}

// queueNode are the commands that a job and the queue execute on a host.
func (a *app) queueNode() *cobra.Command {
	c := &cobra.Command{Use: "node", Short: "What the queue executes on a host", Hidden: true}
	host := func() queue.Host { return queue.Host{Dir: filepath.Join(a.queueDir(), "host")} }
	var only bool
	send := &cobra.Command{Use: "send UUID", Short: "Write the result of a job", Args: cli.Each("a UUID"),
		RunE: func(_ *cobra.Command, args []string) error { return host().Send(a.Out, args[0], !only) }}
	send.Flags().BoolVar(&only, "status", false, "without files")
	job := &cobra.Command{Use: "job UUID SCRIPT [NAME=NODE=ADDRESS…]", Short: "Execute a job",
		Args: cobra.MinimumNArgs(2), RunE: func(c *cobra.Command, args []string) error {
			err := a.queueJob(c.Context(), host(), args[1], args[2:])
			if err != nil && !errors.As(err, new(cli.Exit)) {
				err = errors.Join(err, host().Fail(args[0], err))
			}
			return err
		}}
	answer := func(name, short string, do func(string) error) *cobra.Command {
		return &cobra.Command{Use: name + " UUID", Short: short, Args: cli.Each("a UUID"),
			RunE: func(_ *cobra.Command, args []string) error {
				if err := do(args[0]); err != nil {
					return err
				}
				return host().Send(a.Out, args[0], false)
			}}
	}
	c.AddCommand(job, send,
		answer("fence", "Never begin a job", func(uuid string) error { return host().Fence(uuid) }),
		answer("drop", "Remove the files of a job", func(uuid string) error { return host().Drop(uuid) }))
	cli.Group(c, "command", "job, send, fence or drop")
	return c
}

// queueJob executes a job of Slurm on this host: bakeoff run, with the lab file in the
// script of the job.
func (a *app) queueJob(ctx context.Context, host queue.Host, path string, binds []string) error {
	ctx, stop := a.Interruptible(ctx)
	defer stop()
	script, err := os.ReadFile(path) // Slurm bounds it
	if err != nil {
		return fault.Op("the script of the job", err)
	}
	if err := host.Prune(time.Now()); err != nil {
		return err
	}
	w, err := host.Begin(ctx, script)
	if err != nil {
		return err
	}
	defer w.Close()
	if w.Ended != nil {
		if w.Ended.Code == nil || *w.Ended.Code == 0 {
			return nil
		}
		return cli.Exit{Code: *w.Ended.Code, Text: "the job has ended already"}
	}
	if err := w.Idle(ctx, a.at.HostLock()); err != nil {
		return cli.Interrupted(ctx, "another run measures on this machine")
	}
	b := &app{Streams: cli.NewStreams(strings.NewReader(""), w.Log, w.Log, a.Env), at: a.at}
	args := w.Args(os.Getenv("SLURMD_NODENAME"), binds)
	b.line = append([]string{"bakeoff"}, args...)
	fmt.Fprintf(w.Log, "$ bakeoff %s\n", strings.Join(args, " "))
	root := b.rootCommand()
	root.SetArgs(args)
	ended := root.ExecuteContext(ctx)
	code := b.Finish(ended)
	state, reason := queue.HostDone, ""
	switch {
	case code >= cli.ExitSignal:
		state, reason = queue.HostInterrupted, ended.Error()
		if left := time.Until(w.Began.Add(w.Order.Limit)); left < queue.Warning+time.Minute+5*time.Second {
			reason = "the time limit of the job"
		}
	case code == cli.ExitFailed:
		state, reason = queue.HostFailed, ended.Error()
	}
	if err := w.End(state, code, reason); err != nil {
		return err
	}
	if code == 0 {
		return nil
	}
	return cli.Exit{Code: code}
}
