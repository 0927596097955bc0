package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/calibration"
	"bakeoff/lab/queue"
)

// hostsSchema is the schema of what the commands print with --json.
const hostsSchema = "bakeoff/hosts/v1"

func (a *app) hostsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "hosts",
		Short: "Show, calibrate and drain the hosts of a cluster",
		Long: `hosts shows the hosts of the pools in the cluster file: the state and the noise of each
host, who uses the host, and since when. Slurm permits only operators to drain and resume
hosts.

The environment variable BAKEOFF_CLUSTER names the cluster file; the default is ` + queue.DefaultFile + `.`,
		Example: `  bakeoff hosts list
  bakeoff hosts calibrate --pool epyc
  bakeoff hosts drain bk7 --reason 'a fan fails'
  bakeoff hosts resume bk7`,
	}
	c.AddCommand(a.hostsList(), a.hostsCalibrate(), a.hostsDrain(), a.hostsResume())
	cli.Group(c, "command", "list, calibrate, drain or resume")
	return c
}

// listedHost is a host with its noise.
type listedHost struct {
	queue.HostState
	// Noise is the noise from trial to trial of the last calibrations, as a share; null:
	// unknown.
	Noise *float64 `json:"noise"`
	// Facts are those of the machine when it was last calibrated; null: it never was.
	Facts map[string]string `json:"facts"`
}

func (a *app) hostsList() *cobra.Command {
	var asJSON, noNoise bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the hosts of the pools",
		Long: `list prints the hosts of the pools. The column NOISE shows the result of "bakeoff hosts
calibrate". list asks each host for this result, unless you add --no-noise. --json also
prints the facts of each host that was calibrated, such as its processor and kernel.`,
		Example: "  bakeoff hosts list\n  bakeoff hosts list --no-noise --json",
		Args:    cli.Between(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			q, err := a.queue()
			if err != nil {
				return err
			}
			hosts, err := q.Hosts(c.Context())
			if err != nil {
				return err
			}
			all := make([]listedHost, len(hosts))
			var asked sync.WaitGroup
			slots := make(chan struct{}, 16)
			for i, h := range hosts {
				all[i].HostState = h
				if noNoise {
					continue
				}
				asked.Go(func() {
					slots <- struct{}{}
					defer func() { <-slots }()
					view := calibrationOf(c.Context(), q, h.Name)
					if all[i].Facts = view.Facts; view.Noise > 0 {
						all[i].Noise = &view.Noise
					}
				})
			}
			asked.Wait()
			if asJSON {
				return a.PrintJSON(map[string]any{"schema": hostsSchema, "hosts": all})
			}
			a.printHosts(all)
			return nil
		},
	}
	c.Flags().BoolVar(&noNoise, "no-noise", false, "do not ask the hosts for their noise")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// noiseOf asks a host for its noise; nil: it has no calibration, or does not answer.
func noiseOf(ctx context.Context, q *queue.Queue, host string) *float64 {
	if view := calibrationOf(ctx, q, host); view.Noise > 0 {
		return &view.Noise
	}
	return nil
}

// calibrationOf asks a host for its calibrations; the view has no runs if it has none, or does not
// answer.
func calibrationOf(ctx context.Context, q *queue.Queue, host string) (view calibration.View) {
	text, err := q.Calibration(ctx, host)
	if err != nil || json.Unmarshal(text, &view) != nil {
		return calibration.View{}
	}
	return view
}

func (a *app) printHosts(all []listedHost) {
	t := cli.NewTable("HOST", "POOL", "STATE", "CPUS", "NOISE", "WAITING", "USED BY", "WHY")
	for _, h := range all {
		noise, users := "–", []string{}
		if h.Noise != nil {
			noise = shareText(*h.Noise)
		}
		for _, e := range h.Users {
			users = append(users, fmt.Sprintf("%s (%s, since %s)", e.User, e.Name, orDash(e.Since)))
		}
		reason := h.Reason
		if reason != "" {
			reason = strings.TrimSpace(fmt.Sprintf("%s (%s %s)", reason, h.By, h.At))
		}
		t.Row(h.HostState.Name, strings.Join(h.Pools, ","), safetext.Line(h.State), fmt.Sprint(h.CPUs), noise,
			fmt.Sprint(h.Waiting), orDash(safetext.Line(strings.Join(users, ", "))), safetext.Line(reason))
	}
	a.Print(t)
}

func (a *app) hostsCalibrate() *cobra.Command {
	var pool, out string
	var budget, older time.Duration
	var detach, asJSON bool
	c := &cobra.Command{
		Use:   "calibrate [HOST…]",
		Short: "Calibrate hosts, with jobs that start after all other jobs",
		Long: `calibrate runs "bakeoff calibrate --quick" as a job on each of the named hosts, or on all
hosts of a pool. These jobs start after all other jobs, so bakeoff calibrates only idle
hosts. If the cluster file has a noise limit, bakeoff drains a host whose noise exceeds the
limit.

--older calibrates only hosts whose last calibration is older than the given time, or that
were never calibrated. Slurm's health check can execute this command on each idle host: see
docs/guides/cluster.md.`,
		Example: `  bakeoff hosts calibrate bk1 bk2
  bakeoff hosts calibrate --pool epyc --detach
  bakeoff hosts calibrate bk1 --older 168h --detach`,
		RunE: func(c *cobra.Command, args []string) error {
			if (pool == "") == (len(args) == 0) {
				return cli.Usage(c, errors.New("name hosts, or a pool with --pool"))
			}
			if budget < 0 {
				return cli.Usage(c, fmt.Errorf("--budget must be positive (got %v)", budget))
			}
			if older < 0 {
				return cli.Usage(c, fmt.Errorf("--older must be positive (got %v)", older))
			}
			return a.calibrateHosts(c.Context(), pool, args, out, budget, older, detach, asJSON)
		},
	}
	f := c.Flags()
	f.StringVar(&pool, "pool", "", "calibrate all hosts of the pool of this `name`")
	f.StringVar(&out, "out", "runs", "`folder` in which to create the run folders")
	f.DurationVar(&budget, "budget", 0, "`time` limit of a calibration (default 6m)")
	f.DurationVar(&older, "older", 0,
		"calibrate only hosts whose last calibration is older than this `time`, or that have none")
	f.BoolVar(&detach, "detach", false, "do not wait for the jobs")
	f.BoolVar(&asJSON, "json", false, "print one JSON object, and progress on standard error")
	return c
}

func (a *app) calibrateHosts(ctx context.Context, pool string, names []string, out string, budget,
	older time.Duration, detach, asJSON bool) error {
	q, err := a.queue()
	if err != nil {
		return err
	}
	hosts, err := q.Hosts(ctx)
	if err != nil {
		return err
	}
	if out, err = filepath.Abs(out); err != nil {
		return fault.Op("--out", err)
	}
	if pool != "" {
		if _, _, err := q.Cluster.Pool(pool); err != nil {
			return err
		}
		for _, h := range hosts {
			if slices.Contains(h.Pools, pool) {
				names = append(names, h.Name)
			}
		}
	}
	asks, err := a.calibrations(ctx, q, hosts, names, older)
	if err != nil {
		return err
	}
	for i := range asks {
		asks[i].Out, asks[i].Order.Budget = out, budget
	}
	uuids, err := q.Add(asks, func(ask queue.Ask) ([]byte, error) { return queue.Parcel(ask.Order, nil, nil) })
	if err != nil {
		return err
	}
	if detach {
		for _, uuid := range uuids {
			fmt.Fprintln(a.Out, uuid)
		}
		err = q.Round(ctx)
	} else {
		err = a.await(ctx, q, uuids, asJSON)
	}
	if detach && older == 0 {
		return err // nothing is known of the hosts yet
	}
	return errors.Join(err, a.drainNoisy(ctx, q, names))
}

// calibrations are the jobs that calibrate hosts: all, or those without a calibration that is
// young enough and without such a job.
func (a *app) calibrations(ctx context.Context, q *queue.Queue, hosts []queue.HostState, names []string,
	older time.Duration) (asks []queue.Ask, err error) {
	open, err := q.Jobs(false)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		i := slices.IndexFunc(hosts, func(h queue.HostState) bool { return h.Name == name })
		if i < 0 {
			return nil, fault.WithFix(fault.New(fault.NotFound, "no pool contains the host %q", name), "see bakeoff hosts list")
		}
		if hosts[i].Node.Name != name {
			return nil, fault.New(fault.Unsupported, "the host %s does not run slurmd, so Slurm cannot calibrate "+
				"this host; calibrate it over SSH, as the user of the host", name)
		}
		if older > 0 {
			view := calibrationOf(ctx, q, name)
			n := len(view.Runs)
			if n > 0 && time.Since(view.Runs[n-1].At) < older || slices.ContainsFunc(open, func(j queue.Job) bool {
				return j.Order.Calibrate && slices.Equal(j.Ask.Hosts, []string{name})
			}) {
				continue
			}
		}
		key := hosts[i].Pools[0]
		asks = append(asks, queue.Ask{Lab: "calibrate", Pools: []string{key}, Bind: []string{""}, Hosts: []string{name},
			At: time.Now().UTC(), Low: true,
			Order: queue.Order{Calibrate: true, Limit: q.Cluster.LimitOf([]string{key})}})
	}
	return asks, nil
}

// drainNoisy drains hosts that are noisier than the cluster file permits.
func (a *app) drainNoisy(ctx context.Context, q *queue.Queue, names []string) (err error) {
	limit := q.Cluster.Noise
	if limit == 0 {
		return nil
	}
	for _, name := range names {
		if noise := noiseOf(ctx, q, name); noise != nil && *noise > limit {
			reason := fmt.Sprintf("noisy: %s, the limit is %s", shareText(*noise), shareText(limit))
			fmt.Fprintf(a.Err, "bakeoff: note: %s is drained: %s\n", name, reason)
			err = errors.Join(err, q.Drain(ctx, name, reason))
		}
	}
	return err
}

func (a *app) hostsDrain() *cobra.Command {
	var reason string
	var asJSON bool
	c := &cobra.Command{
		Use:   "drain HOST…",
		Short: "Give hosts no more jobs",
		Long: `drain gives the hosts no new jobs; jobs that already run continue to their end. Jobs that
wait for a drained host move to another host of the same pool after a time. The key patience
in the cluster file sets this time.

--json prints the hosts with their new states.`,
		Example: `  bakeoff hosts drain bk7 --reason 'a fan fails'
  bakeoff hosts drain bk7 --reason 'a fan fails' --json | jq -r '.hosts[].state'`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 || strings.TrimSpace(reason) == "" {
				return cli.Usage(c, errors.New("name one or more hosts, and give the reason with --reason"))
			}
			return a.eachHost(c.Context(), args, asJSON, func(q *queue.Queue, host string) error {
				return q.Drain(c.Context(), host, reason)
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "reason for the drain: a `text` that all users see")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (a *app) hostsResume() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "resume HOST…",
		Short:   "Give jobs to drained hosts again",
		Long:    "resume gives jobs to drained hosts again. --json prints the hosts with their new states.",
		Example: "  bakeoff hosts resume bk7\n  bakeoff hosts resume bk7 --json | jq -r '.hosts[].state'",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usage(c, errors.New("name one or more hosts"))
			}
			return a.eachHost(c.Context(), args, asJSON, func(q *queue.Queue, host string) error {
				return q.Resume(c.Context(), host)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// eachHost calls do with each name, and prints the hosts afterwards if asJSON.
func (a *app) eachHost(ctx context.Context, names []string, asJSON bool, do func(*queue.Queue, string) error) error {
	q, err := a.queue()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, do(q, name))
	}
	if asJSON {
		hosts, err := q.Hosts(ctx)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		named := []queue.HostState{}
		for _, h := range hosts {
			if slices.Contains(names, h.Name) {
				named = append(named, h)
			}
		}
		errs = append(errs, a.PrintJSON(map[string]any{"schema": hostsSchema, "hosts": named}))
	}
	return errors.Join(errs...)
}
