package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/lab/env"
	"bakeoff/lab/manifest"
	driverall "bakeoff/provision/driver/all"
	"bakeoff/reach/conn/ssh"
)

func (a *app) clean() *cobra.Command {
	var dryRun, asJSON bool
	c := &cobra.Command{
		Use:   "clean",
		Short: "Remove what killed runs left behind",
		Long: `clean finds, by the leases that are written before anything is made, what
runs left behind that were killed: processes, mounts, control groups, networks
and directories. It removes them, one line each. Run folders are never touched.

It does so on this machine, and on the hosts that runs of this machine have
leased on. bakeoff run does the same by itself before it starts.`,
		Example: `  bakeoff clean --dry-run    only look
  sudo bakeoff clean`,
		Args: between(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			found, err := a.cleanAll(c.Context(), dryRun)
			if asJSON && err == nil {
				err = a.printJSON(map[string]any{"schema": "bakeoff/clean/v1", "dry_run": dryRun, "found": append([]env.Found{}, found...)})
			} else if len(found) > 0 || err == nil { // what could not be looked at may have left anything
				a.printFound(found, dryRun)
			}
			return errors.Join(err, notRemoved(found))
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "look, and remove nothing")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// cleanAll cleans this machine and the hosts that were leased on. One that
// cannot be reached is an error and keeps none of the others from it.
func (a *app) cleanAll(ctx context.Context, dryRun bool) ([]env.Found, error) {
	state, _ := env.Dirs(a.env, os.Getuid())
	cleaner := env.Cleaner{StateDir: state, Host: a.localHost(), Drivers: driverall.Drivers()}
	found, err := cleaner.Clean(ctx, dryRun)
	errs := []error{err}
	sockets, err := ssh.Reap(dryRun)
	errs = append(errs, err)
	for i, dir := range sockets {
		sockets[i] = "directory " + dir
	}
	if len(sockets) > 0 {
		found = append(found, env.Found{Lease: env.Lease{Name: sshConnection}, Left: sockets, Removed: !dryRun && err == nil})
	}
	hosts, err := remembered(state)
	errs = append(errs, err)
	for _, name := range sortedKeys(hosts) {
		more, err := a.cleanHost(ctx, name, hosts[name], dryRun)
		found, errs = append(found, more...), append(errs, err)
		if err == nil && !dryRun && notRemoved(more) == nil {
			// Nothing of ours is there any more.
			errs = append(errs, os.Remove(filepath.Join(state, hostDir, name+".json")))
		}
	}
	return found, errors.Join(errs...)
}

func (a *app) cleanHost(ctx context.Context, name string, h manifest.Host, dryRun bool) ([]env.Found, error) {
	c, err := a.dial(ctx, name, h, nil)
	if err != nil {
		return nil, fault.Op("clean: host "+name, err)
	}
	defer c.Close()
	found, err := env.Cleaner{StateDir: c.StateDir(), Host: c, Drivers: driverall.Drivers()}.Clean(ctx, dryRun)
	return found, fault.Op("clean: host "+name, err)
}

func (a *app) printFound(found []env.Found, dryRun bool) {
	word := "removed"
	if dryRun {
		word = "found"
	}
	n := 0
	for _, f := range found {
		for _, left := range f.Left {
			n++
			fmt.Fprintf(a.stdout, "%s %s  (%s)\n", word, left, leaseText(f.Lease))
		}
	}
	if n == 0 {
		fmt.Fprintln(a.stdout, "nothing was left behind")
	}
}

// sshConnection is the name of what connections leave, which have no lease.
const sshConnection = "SSH connection"

// leaseText says whose lease it is.
func leaseText(r env.Lease) string {
	if r.Name == sshConnection && r.Driver == "" {
		return r.Name + " of a run that was killed"
	}
	where := ""
	if r.Host != "" && r.Host != env.LocalHost {
		where = " on host " + r.Host
	}
	if r.Network != "" {
		return "network of run " + r.Run + where
	}
	return fmt.Sprintf("%s by driver %s, run %s%s", r.Name, r.Driver, r.Run, where)
}

func notRemoved(found []env.Found) error {
	var errs []error
	for _, f := range found {
		if f.Err != "" {
			errs = append(errs, fault.New(fault.Lab, "clean: %s: %s", leaseText(f.Lease), f.Err))
		}
	}
	return errors.Join(errs...)
}

// leaseLines says what leases there are, for doctor; it changes nothing.
func (a *app) leaseLines(state string) []string {
	leases, err := env.Leases(state)
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, r := range leases {
		out = append(out, leaseText(r)+", since "+r.Started.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	return out
}
