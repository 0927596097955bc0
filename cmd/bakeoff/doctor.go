package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/lists"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/diagnosis"
	"bakeoff/lab/manifest"
	"bakeoff/provision/driver"
)

func (a *app) doctorCommand() *cobra.Command {
	var asJSON bool
	var lab string
	var f proveFlags
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Show what works on this machine, what is missing and how to install it",
		Long: `doctor checks this machine and changes nothing. It shows which drivers work, and why others
do not. It also shows what would disturb a measurement, what earlier runs left behind, and
the one command that installs everything that is missing.

With --hosts LAB it also checks the other machines of a lab file: whether doctor can reach
them, which drivers work there, and which commands install the other drivers. On these
machines, doctor leaves only a copy of bakeoff-agent in their cache of bakeoff.

doctor always exits with 0, whatever it finds.

With --prove DRIVER it runs, on this machine, the test suite that every driver must pass.
The suite creates and removes environments. doctor stores the result, with every command
that the suite executed. The project tests some drivers only against a fake of their
commands. Such a driver is unproven until it passes the suite on this machine; then it is
proven for this machine and kernel.`,
		Example: `  bakeoff doctor
  bakeoff doctor --hosts lab.yaml
  sudo bakeoff doctor --prove chroot
  sudo bakeoff doctor --prove jail --image /usr/local/jails/base
  sudo bakeoff doctor --prove qemu --image debian:bookworm --option machine=q35
  bakeoff doctor --json | jq -r .install`,
		Args: cli.Between(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if asked, err := f.askedToProve(); err != nil {
				return cli.Usage(c, err)
			} else if asked {
				return a.proveDriver(c.Context(), f, asJSON)
			}
			var l *manifest.Lab
			if lab != "" {
				var err error
				if l, err = (labFlags{}).loadLab([]string{lab}); err != nil {
					return err
				}
			}
			d := diagnosis.Of(c.Context(), a.at, l)
			if asJSON {
				return a.PrintJSON(d)
			}
			a.printDiagnosis(d)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.Flags().StringVar(&lab, "hosts", "", "also check the other machines of the lab file `LAB`")
	c.Flags().StringVar(&f.driver, "prove", "", "run the test suite with `DRIVER` on this machine, and store the proof")
	c.Flags().StringArrayVar(&f.options, "option", nil, "with --prove: set an option of the driver, as `NAME=VALUE`")
	c.Flags().StringVar(&f.image, "image", "",
		"with --prove: `IMAGE` of the environments, or a folder with a root file system")
	return c
}

func (a *app) printDiagnosis(d diagnosis.Diagnosis) {
	s := a.Style(a.Out)
	fmt.Fprintln(a.Out, s.Paint(cli.Bold, "This machine"))
	a.printFindings(d.Machine)
	fmt.Fprintln(a.Out, "\n"+s.Paint(cli.Bold, "Drivers"))
	a.printDrivers(d.Drivers)
	a.printLeases(d, s)
	if d.Install != "" {
		fmt.Fprintln(a.Out, "\n"+s.Paint(cli.Bold, "To install everything that is missing"))
		fmt.Fprintln(a.Out, "  "+d.Install)
	}
	for _, h := range d.Hosts {
		a.printHost(h)
	}
}

// printLeases shows the leases: those of a running run are not leftovers.
func (a *app) printLeases(d diagnosis.Diagnosis, s cli.Style) {
	head, end := "Left behind by earlier runs", "run bakeoff clean to remove it"
	if d.Measuring != nil {
		head, end = "In use", fmt.Sprintf("process %d is measuring on this machine", *d.Measuring)
		if owner := d.Holder.Owner.String(); owner != "" {
			end += " (" + owner + ")"
		}
	}
	fmt.Fprintln(a.Out, "\n"+s.Paint(cli.Bold, head))
	for _, l := range d.Leases {
		fmt.Fprintln(a.Out, "  "+l)
	}
	if len(d.Leases) == 0 && d.Measuring == nil {
		end = "nothing"
	}
	fmt.Fprintln(a.Out, "  "+end)
}

// printFindings shows the findings of one machine.
func (a *app) printFindings(found []diagnosis.Finding) {
	t := cli.NewTable("", "", "")
	for _, f := range found {
		text := f.Text
		if f.Fix != "" {
			text += "; " + f.Fix
		}
		t.Add(cli.Plain("  "+f.Name), stateCell(f.State), cli.Plain(text))
	}
	a.PrintBody(t)
}

// printDrivers shows for each driver whether it works, and why not.
func (a *app) printDrivers(drivers []diagnosis.Driver) {
	t := cli.NewTable("", "", "")
	for _, l := range drivers {
		t.Add(cli.Plain("  "+l.Name), hereCell(l.Here), cli.Plain(cmp.Or(checkLine(l.Check), l.Summary)+provenLine(l)))
	}
	a.PrintBody(t)
}

// checkLine is the result of a driver's check in a line: its facts, or what is
// missing.
func checkLine(c driver.Availability) string {
	if !c.OK {
		line := c.Reason
		if c.Fix != "" {
			line += "; " + c.Fix
		}
		return line
	}
	facts := lists.Map(slices.Sorted(maps.Keys(c.Facts)), func(k string) string { return k + " " + c.Facts[k] })
	return strings.Join(facts, ", ")
}

func stateCell(state string) cli.Cell {
	switch state {
	case diagnosis.Good:
		return cli.Colored(state, cli.Green)
	case diagnosis.Warning:
		return cli.Colored(state, cli.Yellow)
	case diagnosis.Missing:
		return cli.Colored(state, cli.Red)
	}
	return cli.Colored("", cli.Dim)
}

// printHost shows the findings of one host.
func (a *app) printHost(h diagnosis.Host) {
	title := "Host " + h.Name + " (" + h.SSH + ")"
	if h.System != "" {
		title = strings.TrimSuffix(title, ")") + ", " + h.System + ")"
	}
	fmt.Fprintln(a.Out, "\n"+a.Style(a.Out).Paint(cli.Bold, title))
	a.printFindings(h.Machine)
	if len(h.Drivers) > 0 {
		a.printDrivers(h.Drivers)
	}
	if h.Install != "" {
		fmt.Fprintln(a.Out, "  to install there: "+h.Install)
	}
}
