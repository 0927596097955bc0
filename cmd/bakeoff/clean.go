package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/env"
	"bakeoff/lab/hosts"
	"bakeoff/provision/lease"
)

func (a *app) cleanCommand() *cobra.Command {
	var dryRun, onlyHere, asJSON bool
	c := &cobra.Command{
		Use:   "clean",
		Short: "Remove what killed runs left behind",
		Long: `clean removes what killed runs left behind: processes, mounts, control groups, networks and
directories. It also restores kernel settings that a container engine of such a run changed.
Before a run creates an object, it names the object in a file (a lease). clean reads these
files, and prints a line for each object. It never touches run folders. clean also removes the
empty control groups of guests of "bakeoff vm" whose supervisors were killed.

clean removes nothing of a run that is still active, even if that run has a different /run,
or sees the leases through an overlay file system. If clean cannot find out whether a run is
active, it reports this, removes nothing of this run, and exits with 1.

You can use --dry-run while a run measures. It lists the objects of that run as "in use".

Some objects outlive their run on purpose. clean lists them as "kept", and never removes
them.

clean works on this machine, and on the hosts that runs started from this machine used.
bakeoff run also removes these leftovers before it measures. With --local, clean works on
this machine only, and does not fail if a run measures here. Schedulers such as Slurm can
execute "bakeoff clean --local" after a job.`,
		Example: `  bakeoff clean --dry-run    list, and remove nothing
  sudo bakeoff clean
  sudo bakeoff clean --local`,
		Args: cli.Between(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			found, err := a.at.Clean(c.Context(), dryRun, onlyHere)
			if asJSON && err == nil {
				err = a.PrintJSON(map[string]any{"schema": "bakeoff/clean/v1", "dry_run": dryRun,
					"found": append([]env.Found{}, found...)})
			} else if len(found) > 0 || err == nil { // a host that could not be checked may have leftovers
				a.printFound(found, dryRun)
			}
			if note := leavesOfRoot(a.at.Getenv, os.Getuid()); note != "" {
				fmt.Fprintln(a.Err, "bakeoff: "+note)
			}
			return errors.Join(err, notRemoved(found))
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "list what would be removed, and remove nothing")
	c.Flags().BoolVar(&onlyHere, "local", false,
		"clean only this machine; if a run measures here, leave its objects, and exit with 0")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// leavesOfRoot says that clean as this user does not see what runs of root left; "" if it
// does.
func leavesOfRoot(getenv func(string) string, uid int) string {
	own, _ := lease.Dirs(getenv, uid)
	root, _ := lease.Dirs(getenv, 0)
	if own == root {
		return ""
	}
	return fmt.Sprintf("clean looked only for leftovers of runs of this user (%s); sudo bakeoff clean looks for "+
		"leftovers of runs of root (%s)", own, root)
}

func (a *app) printFound(found []env.Found, dryRun bool) {
	word := "removed"
	if dryRun {
		word = "found"
	}
	n := 0
	for _, f := range found {
		for _, left := range f.Left {
			state := word
			switch {
			case f.InUse:
				state = "in use:"
			case f.Kept:
				state = "kept:"
			default:
				n++
			}
			fmt.Fprintf(a.Out, "%s %s  (%s)\n", state, left, hosts.LeaseText(f.Lease))
		}
	}
	if n == 0 {
		fmt.Fprintln(a.Out, "no leftovers found")
	}
}

func notRemoved(found []env.Found) error {
	var errs []error
	for _, f := range found {
		if f.Err != "" {
			errs = append(errs, fault.New(fault.Lab, "clean: %s: %s", hosts.LeaseText(f.Lease), f.Err))
		}
	}
	return errors.Join(errs...)
}
