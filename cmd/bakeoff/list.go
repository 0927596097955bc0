package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/param"
	"bakeoff/base/yamltree"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/diagnosis"
	"bakeoff/measure/workload"
	"bakeoff/provision/driver"
	driverall "bakeoff/provision/driver/all"
)

func (a *app) listCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "list",
		Short: "List drivers, workloads, tools and systems",
		Long: `list shows what a lab file can name. With a NAME it shows one entry in full: its
options or parameters, with kind, default and meaning.`,
		Example: `  bakeoff list drivers
  bakeoff list drivers qemu
  bakeoff list workloads
  bakeoff list workloads crypto
  bakeoff list tools
  bakeoff list systems freebsd
  bakeoff list drivers --json | jq '.drivers[] | select(.here != "unavailable") | .name'`,
	}
	cli.Group(c, "list", "drivers, workloads, tools or systems")
	c.AddCommand(a.listDrivers(), a.listWorkloads(), a.listTools(), a.listSystems())
	return c
}

// listing describes a command that lists what a lab file can name, or shows one
// entry in full: E is an entry, and T what is shown of it.
type listing[E, T any] struct {
	kind        string // "driver"; the command and the key in its JSON are the plural
	short, long string
	sample      string // a name for the example
	all         func() []E
	name        func(E) string
	look        func(context.Context, []E) []T
	head        []string
	row         func(T) []cli.Cell
	describe    func(T)
}

func (l listing[E, T]) command(a *app) *cobra.Command {
	var asJSON bool
	key := l.kind + "s"
	c := &cobra.Command{
		Use:     key + " [NAME]",
		Short:   l.short,
		Long:    l.long,
		Example: fmt.Sprintf("  bakeoff list %s\n  bakeoff list %[1]s %s", key, l.sample),
		Args:    cli.Between(0, 1, "the name of a "+l.kind),
		RunE: func(c *cobra.Command, args []string) error {
			all := l.all()
			if len(args) == 1 {
				i := slices.IndexFunc(all, func(e E) bool { return l.name(e) == args[0] })
				if i < 0 {
					names := lists.Map(all, l.name)
					return unknown(l.kind, args[0], names)
				}
				all = all[i : i+1]
			}
			shown := l.look(c.Context(), all)
			switch {
			case asJSON:
				return a.PrintJSON(map[string]any{"schema": "bakeoff/list/v1", key: shown})
			case len(args) == 1:
				l.describe(shown[0])
				return nil
			}
			t := cli.NewTable(l.head...)
			for _, x := range shown {
				t.Add(l.row(x)...)
			}
			a.Print(t)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.ValidArgsFunction = cli.CompleteFirst(func() (names []string) {
		return lists.Map(l.all(), l.name)
	})
	return c
}

// unknown is the error for a name of a kind that does not exist. A driver may have
// another name in lab files.
func unknown(kind, name string, known []string) error {
	fix := "run bakeoff list " + kind + "s for all names"
	if meant := yamltree.Meant(name, known); strings.HasPrefix(meant, "did you mean") {
		fix = meant
	}
	for _, d := range driverall.Drivers() {
		if instead, ok := d.Doc().Also[name]; ok && kind == "driver" {
			fix = fmt.Sprintf("see bakeoff list drivers %s; a lab file names it driver: %s", d.Doc().Name, instead)
		}
	}
	return fault.WithFix(fault.New(fault.NotFound, "%s %q does not exist", kind, name), fix)
}

// themselves is the look of entries that are shown as they are.
func themselves[E any](_ context.Context, all []E) []E { return all }

func (a *app) listDrivers() *cobra.Command {
	return listing[driver.Driver, diagnosis.Driver]{
		kind: "driver", sample: "oci",
		short: "List the technologies and whether they work on this machine",
		long: `drivers lists the technologies that can create environments.

  proven       tested with the real technology; works on this machine
  unproven     tested only against a fake of its commands; works on this machine;
               bakeoff doctor --prove DRIVER runs its tests here
  unavailable  does not work on this machine, for the reason shown`,
		all:  driverall.Drivers,
		name: func(d driver.Driver) string { return d.Doc().Name },
		look: func(ctx context.Context, all []driver.Driver) []diagnosis.Driver {
			return diagnosis.Drivers(ctx, a.at, all)
		},
		head: []string{"NAME", "HERE", "WHAT IT IS"},
		row: func(d diagnosis.Driver) []cli.Cell {
			return []cli.Cell{cli.Plain(d.Name), hereCell(d.Here), cli.Plain(driverLine(d))}
		},
		describe: a.describeDriver,
	}.command(a)
}

// driverLine is a driver in a sentence: what it is, and why it does not work.
func driverLine(d diagnosis.Driver) string {
	if d.Check.OK {
		return d.Summary + provenLine(d)
	}
	line := d.Summary + " – " + cmp.Or(d.Check.Reason, "no reason given")
	if d.Check.Fix != "" {
		line += "; " + d.Check.Fix
	}
	return line
}

// provenLine tells when a driver was proven on this machine, and how to prove one
// that the project has not proven.
func provenLine(d diagnosis.Driver) string {
	switch {
	case !d.Check.OK:
		return ""
	case d.Proof != nil:
		return "; proven on this machine on " + d.Proof.Format("2006-01-02")
	case d.Tested == driver.Unproven:
		return "; tested only against a fake of its commands: run bakeoff doctor --prove " + d.Name
	}
	return ""
}

func hereCell(here string) cli.Cell {
	switch here {
	case string(driver.Proven):
		return cli.Colored(here, cli.Green)
	case string(driver.Unproven):
		return cli.Colored(here, cli.Yellow)
	}
	return cli.Colored(here, cli.Red)
}

func (a *app) describeDriver(d diagnosis.Driver) {
	a.Nameplate(d.Name, d.Summary)
	t := cli.NewTable("", "")
	t.Add(cli.Plain("here"), hereCell(d.Here))
	if !d.Check.OK {
		t.Row("", d.Check.Reason)
		t.Row("", d.Check.Fix)
	}
	for _, k := range slices.Sorted(maps.Keys(d.Check.Facts)) {
		t.Row(k, d.Check.Facts[k])
	}
	status := string(d.Tested)
	if d.Tested == driver.Unproven {
		status += ": tested only against a fake of its commands"
	}
	t.Row("status", status)
	if d.Proof != nil {
		t.Row("proven here", d.Proof.Format("2006-01-02"))
	}
	t.Row("hosts", strings.Join(d.Hosts, ", "))
	t.Row("root", yesNo(d.Root))
	t.Row("image", yesNo(d.Image))
	t.Row("own kernel", yesNo(d.Kernel))
	t.Row("volumes", strings.Join(d.Backings, ", "))
	for _, k := range slices.Sorted(maps.Keys(d.Enforces)) {
		t.Row("enforces "+k, d.Enforces[k])
	}
	t.Row("tuning", d.Tuning.String())
	t.Row("packages", strings.Join(d.Packages, ", "))
	t.Row("source", strings.Join(d.Source, "; "))
	a.PrintBody(t)
	a.paramTable("option", d.Options)
}

func (a *app) paramTable(what string, specs []param.Spec) {
	if len(specs) == 0 {
		return
	}
	fmt.Fprintln(a.Out)
	t := cli.NewTable(strings.ToUpper(what), "KIND", "DEFAULT", "MEANING")
	for _, p := range specs {
		t.Row(p.Name, kindText(p), defaultText(p), p.Doc)
	}
	a.Print(t)
}

// kindText is the kind of a parameter with what it allows.
func kindText(p param.Spec) string {
	switch {
	case len(p.Enum) > 0:
		return strings.Join(p.Enum, "|")
	case p.Min != 0 || p.Max != 0:
		low, high := p.Bounds()
		return fmt.Sprintf("%s %s–%s", p.Kind, low, high)
	}
	return string(p.Kind)
}

func defaultText(p param.Spec) string {
	switch {
	case p.Required:
		return "required"
	case p.ByImage:
		return "of the image"
	case p.Default == "":
		return "not set"
	}
	return strings.ReplaceAll(p.Default, "\n", ", ")
}

func (a *app) listWorkloads() *cobra.Command {
	return listing[workload.Doc, workload.Doc]{
		kind: "workload", sample: "files",
		short: "List workloads (what bakeoff can measure) with metrics and parameters",
		all:   diagnosis.WorkloadDocs,
		name:  func(d workload.Doc) string { return d.Name },
		look:  themselves[workload.Doc],
		head:  []string{"NAME", "VERDICTS ON", "WHAT IT MEASURES"},
		row: func(d workload.Doc) []cli.Cell {
			var primary []string
			for _, m := range d.Metrics {
				if m.Primary {
					primary = append(primary, m.Name)
				}
			}
			return cli.PlainRow(d.Name, strings.Join(primary, " "), d.Summary)
		},
		describe: a.describeWorkload,
	}.command(a)
}

func (a *app) describeWorkload(d workload.Doc) {
	a.Nameplate(d.Name, d.Summary)
	t := cli.NewTable("METRIC", "UNIT", "BETTER", "COMPARED BY", "MEANING")
	for _, m := range d.Metrics {
		name := m.Name
		if m.Primary {
			name += " (primary)"
		}
		t.Row(name, m.Unit, string(m.Better), string(m.Scale), m.Doc)
	}
	a.Print(t)
	a.paramTable("parameter", d.Params)
	fmt.Fprintln(a.Out)
	facts := cli.NewTable("", "")
	facts.Row("volume", d.Volume)
	facts.Row("load", map[bool]string{true: "from a load generator outside the environment"}[d.Peer])
	facts.Row("programs", strings.Join(d.Programs, ", "))
	facts.Row("versions", d.Versions)
	facts.Row("programs of the load generator", strings.Join(d.PeerPrograms, ", "))
	facts.Row("state", d.State+", cache "+d.Cache)
	facts.Row("source", strings.Join(d.Source, "; "))
	a.PrintBody(facts)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
