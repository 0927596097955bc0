package main

import (
	"context"
	"fmt"
	"os/user"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/inputs"
	"bakeoff/lab/manifest"
	"bakeoff/lab/queue"
)

// slurmFlags are the flags of run for jobs.
type slurmFlags struct {
	on, pool string
	limit    time.Duration
	detach   bool
}

func (f *slurmFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.on, "on", "", "`slurm`: run the lab file as jobs of Slurm")
	fl.StringVar(&f.pool, "pool", "", "with --on, the `name` of the pool, if the lab file names no pool")
	fl.DurationVar(&f.limit, "limit", 0, "with --on, time `limit` of a job; the default is the limit of the pool")
	fl.BoolVar(&f.detach, "detach", false, "with --on, do not wait for the jobs")
}

// check refuses flags that do not fit.
func (f slurmFlags) check(c *cobra.Command) error {
	if f.on == "" {
		for _, name := range []string{"pool", "limit", "detach"} {
			if c.Flags().Changed(name) {
				return cli.Usage(c, fmt.Errorf("--%s needs --on slurm", name))
			}
		}
		return nil
	}
	if f.on != "slurm" {
		return cli.Usage(c, fmt.Errorf("--on must be slurm (got %q)", f.on))
	}
	if c.Flags().Changed("resume") {
		return cli.Usage(c, fmt.Errorf("--resume cannot be used with --on; to continue a job, run `bakeoff queue retry`"))
	}
	if f.limit < 0 {
		return cli.Usage(c, fmt.Errorf("--limit must be positive (got %v)", f.limit))
	}
	return nil
}

// submitLab makes jobs of a lab file, and waits for them.
func (a *app) submitLab(c *cobra.Command, f runFlags, args []string) error {
	q, err := a.queue()
	if err != nil {
		return err
	}
	lab, err := f.loadPools(args)
	if err != nil {
		return err
	}
	sources, err := sourcesOf(lab)
	if err != nil {
		return err
	}
	order := queue.Order{Profile: f.profile, Only: f.only, Budget: f.budget, Seed: f.seed, FailOn: f.failOn,
		Labels: f.labels, Limit: f.limit}
	asks, err := a.jobsOf(c.Context(), q, lab, f, order)
	if err != nil {
		return err
	}
	uuids, err := q.Add(asks, func(ask queue.Ask) ([]byte, error) {
		return queue.Parcel(ask.Order, lab.Source, sources)
	})
	if err != nil {
		return err
	}
	if !f.detach {
		return a.await(c.Context(), q, uuids, f.json)
	}
	if err := q.Round(c.Context()); err != nil {
		fmt.Fprintf(a.Err, "bakeoff: note: %v; bakeoff queue wait tries again\n", err)
	}
	if f.json {
		return a.PrintJSON(map[string]any{"schema": queueSchema, "submitted": uuids})
	}
	for _, uuid := range uuids {
		fmt.Fprintln(a.Out, uuid)
	}
	return nil
}

// jobsOf are the jobs of a lab file.
func (a *app) jobsOf(ctx context.Context, q *queue.Queue, lab *manifest.Lab, f runFlags,
	order queue.Order) ([]queue.Ask, error) {
	out, err := filepath.Abs(f.out)
	if err != nil {
		return nil, fault.Op("--out", err)
	}
	ask := queue.Ask{Lab: lab.Name, At: time.Now().UTC(), Out: out,
		Order: order}
	count := 1
	for _, name := range lab.Unbound() {
		ask.Bind, ask.Pools = append(ask.Bind, name), append(ask.Pools, lab.Hosts[name].Pool)
		count = max(count, lab.Hosts[name].Count)
	}
	if len(ask.Bind) == 0 {
		ask.Bind, ask.Pools = []string{""}, []string{f.pool}
	} else if f.pool != "" {
		return nil, fault.WithFix(fault.New(fault.Invalid, "--pool %s: the lab file names another pool, %s", f.pool,
			ask.Pools[0]), "remove --pool")
	}
	for i := range ask.Pools {
		if _, ask.Pools[i], err = q.Cluster.Pool(ask.Pools[i]); err != nil {
			return nil, err
		}
	}
	if err := q.Enough(ctx, ask.Pools, count); err != nil {
		return nil, err
	}
	if order.Limit == 0 {
		ask.Order.Limit = q.Cluster.LimitOf(ask.Pools)
	}
	if u, err := user.Current(); err == nil {
		ask.User = u.Username
	}
	return slices.Repeat([]queue.Ask{ask}, count), nil
}

// sourcesOf are the files that travel with a lab file.
func sourcesOf(lab *manifest.Lab) (out []queue.Source, err error) {
	for _, f := range inputs.Files(lab) {
		if filepath.IsAbs(f.From) {
			continue // it must exist on the host
		}
		if !filepath.IsLocal(f.From) {
			return nil, fault.WithFix(fault.New(fault.Invalid, "%s: the file %q is not below the folder of the lab file",
				f.Where, f.From), "move the file there; a job carries only files below this folder to its host")
		}
		out = append(out, queue.Source{Path: inputs.At(inputs.Folder(lab), f), Name: filepath.ToSlash(f.From)})
	}
	return out, nil
}
