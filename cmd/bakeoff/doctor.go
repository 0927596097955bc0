package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/diagnosis"
	"bakeoff/lab/manifest"
	"bakeoff/provision/driver"
)

func (a *app) doctor() *cobra.Command {
	var asJSON bool
	var lab string
	var f proveFlags
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine can do, what is missing, and how to get it",
		Long: `doctor looks at this machine and changes nothing: which drivers are usable
and why others are not, what would disturb a measurement, what an earlier run
left behind, and the one command that installs all that is missing.

With --hosts LAB it looks at the other machines of a lab file as well: whether
they are reached, which drivers are usable there, and what would bring the
others, in the words of the system there. All that it leaves there is
bakeoff-agent, in its cache.

It exits 0 however the machine is: what it finds is its answer.

With --prove DRIVER it runs the contract suite of that driver on this machine,
which makes environments and removes them again, and stores what came of it
with every command that was executed. A driver that the project could test only
against a fake of its commands is unproven until then; afterwards it is proven
for this machine and kernel.`,
		Example: `  bakeoff doctor
  bakeoff doctor --hosts lab.yaml
  sudo bakeoff doctor --prove chroot
  sudo bakeoff doctor --prove jail --image /usr/local/jails/base
  sudo bakeoff doctor --prove qemu --image debian:bookworm --option machine=q35
  bakeoff doctor --json | jq -r .install`,
		Args: cli.Between(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if asked, err := f.asked(); err != nil {
				return cli.Usage(c, err)
			} else if asked {
				return a.prove(c.Context(), f, asJSON)
			}
			var l *manifest.Lab
			if lab != "" {
				var err error
				if l, err = (labFlags{}).load([]string{lab}); err != nil {
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
	c.Flags().StringVar(&lab, "hosts", "", "look at the other machines of the lab file `LAB`, too")
	c.Flags().StringVar(&f.driver, "prove", "", "run the contract suite of `DRIVER` here, and keep the proof")
	c.Flags().StringArrayVar(&f.options, "option", nil, "with --prove: an option of the driver, `NAME=VALUE`")
	c.Flags().StringVar(&f.image, "image", "", "with --prove: the `IMAGE` of the environments, or a folder with a root")
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
		fmt.Fprintln(a.Out, "\n"+s.Paint(cli.Bold, "What would bring all that is missing"))
		fmt.Fprintln(a.Out, "  "+d.Install)
	}
	for _, h := range d.Hosts {
		a.printHost(h)
	}
}

// printLeases says what is leased: what a run has in use is not left behind.
func (a *app) printLeases(d diagnosis.Diagnosis, s cli.Style) {
	head, end := "Left by earlier runs", "bakeoff clean removes it"
	if d.Measuring != nil {
		head, end = "In use", fmt.Sprintf("process %d measures on this machine now", *d.Measuring)
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

// printFindings tells what was found of a machine.
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

// printDrivers tells of each driver whether it is usable, and why not.
func (a *app) printDrivers(drivers []diagnosis.Driver) {
	t := cli.NewTable("", "", "")
	for _, l := range drivers {
		t.Add(cli.Plain("  "+l.Name), hereCell(l.Here), cli.Plain(cmp.Or(checkLine(l.Check), l.Summary)+provenLine(l)))
	}
	a.PrintBody(t)
}

// checkLine is the answer of a driver in a line: its facts, or what is
// missing.
func checkLine(c driver.Availability) string {
	if !c.OK {
		line := c.Reason
		if c.Fix != "" {
			line += "; " + c.Fix
		}
		return line
	}
	var facts []string
	for _, k := range slices.Sorted(maps.Keys(c.Facts)) {
		facts = append(facts, k+" "+c.Facts[k])
	}
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

// printHost tells what was found of one machine.
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
