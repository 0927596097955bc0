package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/shell"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/compose"
	"bakeoff/lab/diagnosis"
	"bakeoff/lab/manifest"
	"bakeoff/lab/session"
	driverall "bakeoff/provision/driver/all"
)

func (a *app) initLab() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "init [DRIVER|WORKLOAD…] [-- COMMAND [ARG…]]",
		Short: "Write a lab file to start from",
		Long: `init writes a lab file that compares the drivers that you name on the workloads
that you name, or on a command of your own. The file is valid as it is. Its
comments show every option and parameter with its default, and the other drivers
that work on this machine.

A driver may have an image, as in crun:debian:bookworm. Without a driver, init compares the
host with a container that works on this machine. If you name one driver, init compares this
driver with the host. If you name neither a workload nor a command, the lab file measures
sha256.

init does not overwrite a file, and it starts nothing.`,
		Example: `  bakeoff init
  bakeoff init crun bwrap files syscall
  bakeoff init host docker microvm -- sort --version
  bakeoff init chroot http --out web.yaml`,
		Args: func(*cobra.Command, []string) error { return nil }, // compose names what is wrong
		RunE: func(c *cobra.Command, args []string) error { return a.doInit(c, out, args) },
	}
	c.Flags().StringVarP(&out, "out", "o", labName, "`file` to write")
	c.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		if a.behindDash() {
			return nil, cobra.ShellCompDirectiveDefault
		}
		cat := session.Catalogue()
		works := lists.Map(cat.Workloads, func(w manifest.WorkloadEntry) string { return w.Name })
		return slices.Concat(compose.Envs(cat), works), cobra.ShellCompDirectiveNoFileComp
	}
	return c
}

func (a *app) doInit(c *cobra.Command, out string, args []string) error {
	r := compose.InitRequest{Line: a.line, Names: args}
	if at := c.ArgsLenAtDash(); at >= 0 {
		r.Names, r.Argv = args[:at], args[at:]
		if len(r.Argv) == 0 {
			return cli.Usage(c, errors.New("the command after -- is missing"))
		}
	}
	r.Dir, _ = os.Getwd()
	// A mistake is reported before the drivers are checked, which takes a second.
	if _, err := compose.Init(r, session.Catalogue()); err != nil {
		return cli.Usage(c, err)
	}
	if _, err := os.Lstat(out); err == nil {
		return cli.RefuseExisting(out)
	}
	for _, d := range diagnosis.Drivers(c.Context(), a.at, driverall.Drivers()) {
		h := compose.Here{Driver: d.Name}
		if !d.Check.OK {
			h.Why = cmp.Or(d.Check.Reason, "no reason given")
		}
		r.Here = append(r.Here, h)
	}
	file, err := compose.Init(r, session.Catalogue())
	if err != nil {
		return cli.Usage(c, err)
	}
	if _, err := file.Load(session.Catalogue()); err != nil {
		return usages(c, err)
	}
	if err := cli.WriteNew(out, file.Text); err != nil {
		return err
	}
	plan := "bakeoff plan"
	if out != labName {
		plan += " " + shell.Quote(out)
	}
	fmt.Fprintf(a.Out, "%s written; %s shows what it would do\n", safetext.Line(out), safetext.Line(plan))
	return nil
}
