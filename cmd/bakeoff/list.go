package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/lab/trial"
	"bakeoff/measure/workload"
	workloadall "bakeoff/measure/workload/all"
	"bakeoff/provision/driver"
	driverall "bakeoff/provision/driver/all"
	"bakeoff/reach/conn"
)

// checkTime bounds how long one driver may take to look at this machine.
const checkTime = 20 * time.Second

// listed is a driver with what it says of this machine.
type listed struct {
	driver.Doc
	// Status is proven, unproven or unavailable: on this machine. Here is the
	// same; Tested is what the project itself says of the driver.
	Status string        `json:"status"`
	Here   string        `json:"here"`
	Tested driver.Status `json:"tested"`
	// Proof is when it was proven on this machine, nil when it was not.
	Proof *time.Time          `json:"proof"`
	Check driver.Availability `json:"check"`
}

// The words for a driver on this machine.
const unavailable = "unavailable"

func (a *app) list() *cobra.Command {
	c := &cobra.Command{
		Use:   "list",
		Short: "List drivers, workloads, tools and systems",
		Long: `list shows what a lab file can name. With a NAME it shows one in full:
its options or parameters, with their kinds, defaults and meaning.`,
		Example: `  bakeoff list drivers
  bakeoff list drivers qemu
  bakeoff list workloads
  bakeoff list workloads crypto
  bakeoff list tools
  bakeoff list systems freebsd
  bakeoff list drivers --json | jq '.drivers[] | select(.here != "unavailable") | .name'`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return usage(c, fault.New(fault.Invalid, "%q is not a kind it lists; there are drivers, workloads, tools and systems", args[0]))
		},
		RunE: func(c *cobra.Command, _ []string) error {
			return usage(c, fault.New(fault.Invalid, "say what: drivers, workloads, tools or systems"))
		},
	}
	c.AddCommand(a.listDrivers(), a.listWorkloads(), a.listTools(), a.listSystems())
	return c
}

// noDriver says that none has this name, and which one is meant by it where a
// lab file would be told so.
func noDriver(all []driver.Driver, name string) error {
	fix := "bakeoff list drivers names them"
	for _, d := range all {
		if instead, ok := d.Doc().Also[name]; ok {
			fix = fmt.Sprintf("bakeoff list drivers %s; a lab file has it as driver: %s", d.Doc().Name, instead)
		}
	}
	return fault.WithFix(fault.New(fault.NotFound, "driver %q does not exist", name), fix)
}

func (a *app) listDrivers() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "drivers [NAME]",
		Short: "List the technologies that make environments, and whether they work here",
		Long: `drivers lists the technologies that make environments.

  proven       passes its tests with the real technology, and is usable here
  unproven     tested against a fake of its commands only, and is usable here;
               bakeoff doctor --prove DRIVER runs its tests on this machine
  unavailable  not usable here; the reason is said`,
		Example: "  bakeoff list drivers\n  bakeoff list drivers oci",
		Args:    between(0, 1, "the name of a driver"),
		RunE: func(c *cobra.Command, args []string) error {
			all := driverall.Drivers()
			if len(args) == 1 {
				i := slices.IndexFunc(all, func(d driver.Driver) bool { return d.Doc().Name == args[0] })
				if i < 0 {
					return noDriver(all, args[0])
				}
				all = all[i : i+1]
			}
			drivers := a.checkDrivers(c.Context(), all)
			if asJSON {
				return a.printJSON(map[string]any{"schema": "bakeoff/list/v1", "drivers": drivers})
			}
			if len(args) == 1 {
				a.describeDriver(drivers[0])
				return nil
			}
			a.driverTable(drivers)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.ValidArgsFunction = complete(func() (names []string) {
		for _, d := range driverall.Drivers() {
			names = append(names, d.Doc().Name)
		}
		return names
	})
	return c
}

// checkDrivers asks every driver whether it is usable on this machine.
func (a *app) checkDrivers(ctx context.Context, all []driver.Driver) []listed {
	if ctx == nil {
		ctx = context.Background()
	}
	host := a.localHost()
	proofs := a.proofs(ctx)
	by := trial.InstallerOf(ctx, host)
	var out []listed
	for _, d := range all {
		doc := d.Doc()
		l := listed{Doc: doc, Here: string(doc.Status), Tested: doc.Status, Check: checkDriver(ctx, d, host, runtime.GOOS, by)}
		if p, ok := proofs[doc.Name]; ok {
			l.Here, l.Proof = string(driver.Proven), &p.At
		}
		if !l.Check.OK {
			l.Here = unavailable
		}
		l.Status = l.Here
		out = append(out, l)
	}
	slices.SortFunc(out, func(x, y listed) int { return cmp.Compare(x.Name, y.Name) })
	return out
}

// checkDriver asks a driver about a host that runs goos.
func checkDriver(ctx context.Context, d driver.Driver, host conn.Conn, goos string, by trial.Installer) driver.Availability {
	doc := d.Doc()
	if len(doc.Hosts) > 0 && !slices.Contains(doc.Hosts, goos) {
		return driver.Availability{Reason: "runs on " + strings.Join(doc.Hosts, ", ") + " hosts, and this is " + goos}
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	return by.Fit(d.Check(ctx, host, param.Defaults(doc.Options)))
}

func (a *app) driverTable(drivers []listed) {
	t := table{head: []string{"NAME", "HERE", "WHAT IT IS"}}
	for _, d := range drivers {
		t.add(cell{text: d.Name}, hereCell(d.Here), cell{text: driverLine(d)})
	}
	width, _ := a.size(a.stdout)
	t.print(a.stdout, a.style(a.stdout), width)
}

// driverLine is a driver in a sentence: what it is, or why it is not here.
func driverLine(d listed) string {
	if d.Check.OK {
		return d.Summary + provenLine(d)
	}
	line := d.Summary + " – " + cmp.Or(d.Check.Reason, "it does not say why")
	if d.Check.Fix != "" {
		line += "; " + d.Check.Fix
	}
	return line
}

// provenLine says when a driver was proven on this machine, where the project
// has not proven it or somebody asked again.
func provenLine(d listed) string {
	switch {
	case !d.Check.OK:
		return ""
	case d.Proof != nil:
		return "; proven on this machine " + d.Proof.Format("2006-01-02")
	case d.Tested == driver.Unproven:
		return "; tested against a fake of its commands only: bakeoff doctor --prove " + d.Name
	}
	return ""
}

func hereCell(here string) cell {
	switch here {
	case string(driver.Proven):
		return cell{here, green}
	case string(driver.Unproven):
		return cell{here, yellow}
	}
	return cell{here, red}
}

func (a *app) describeDriver(d listed) {
	a.nameplate(d.Name, d.Summary)
	t := table{head: []string{"", ""}}
	t.add(cell{text: "here"}, hereCell(d.Here))
	if !d.Check.OK {
		t.row("", d.Check.Reason)
		t.row("", d.Check.Fix)
	}
	for _, k := range sortedKeys(d.Check.Facts) {
		t.row(k, d.Check.Facts[k])
	}
	t.row("status", string(d.Tested)+map[driver.Status]string{driver.Unproven: ": tested against a fake of its commands only"}[d.Tested])
	if d.Proof != nil {
		t.row("proven here", d.Proof.Format("2006-01-02"))
	}
	t.row("hosts", strings.Join(d.Hosts, ", "))
	t.row("root", yesNo(d.Root))
	t.row("image", yesNo(d.Image))
	t.row("kernel of its own", yesNo(d.Kernel))
	t.row("volumes", strings.Join(d.Backings, ", "))
	for _, k := range sortedKeys(d.Enforces) {
		t.row("enforces "+k, d.Enforces[k])
	}
	t.row("tuning", d.Tuning.String())
	t.row("packages", strings.Join(d.Packages, ", "))
	t.row("source", strings.Join(d.Source, "; "))
	t.body(a)
	a.paramTable("option", d.Options)
}

// body prints a table without its head, and without rows that end in nothing.
func (t *table) body(a *app) {
	rows := slices.DeleteFunc(slices.Clone(t.rows), func(r []cell) bool { return r[len(r)-1].text == "" })
	width, _ := a.size(a.stdout)
	printRows(a.stdout, a.style(a.stdout), rows, width)
}

func (a *app) paramTable(what string, specs []param.Spec) {
	if len(specs) == 0 {
		return
	}
	fmt.Fprintln(a.stdout)
	t := table{head: []string{strings.ToUpper(what), "KIND", "DEFAULT", "MEANING"}}
	for _, p := range specs {
		t.row(p.Name, kindText(p), defaultText(p), p.Doc)
	}
	width, _ := a.size(a.stdout)
	t.print(a.stdout, a.style(a.stdout), width)
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
	case p.Default == "":
		return "not set"
	}
	return strings.ReplaceAll(p.Default, "\n", ", ")
}

func (a *app) listWorkloads() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "workloads [NAME]",
		Short:   "List what can be measured, with its metrics and parameters",
		Example: "  bakeoff list workloads\n  bakeoff list workloads files",
		Args:    between(0, 1, "the name of a workload"),
		RunE: func(_ *cobra.Command, args []string) error {
			docs := workloadDocs()
			if len(args) == 1 {
				i := slices.IndexFunc(docs, func(d workload.Doc) bool { return d.Name == args[0] })
				if i < 0 {
					return fault.WithFix(fault.New(fault.NotFound, "workload %q does not exist", args[0]), "bakeoff list workloads names them")
				}
				docs = docs[i : i+1]
			}
			if asJSON {
				return a.printJSON(map[string]any{"schema": "bakeoff/list/v1", "workloads": docs})
			}
			if len(args) == 1 {
				a.describeWorkload(docs[0])
				return nil
			}
			t := table{head: []string{"NAME", "VERDICTS ON", "WHAT IT MEASURES"}}
			for _, d := range docs {
				var primary []string
				for _, m := range d.Metrics {
					if m.Primary {
						primary = append(primary, m.Name)
					}
				}
				t.row(d.Name, strings.Join(primary, " "), d.Summary)
			}
			width, _ := a.size(a.stdout)
			t.print(a.stdout, a.style(a.stdout), width)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.ValidArgsFunction = complete(func() (names []string) {
		for _, d := range workloadDocs() {
			names = append(names, d.Name)
		}
		return names
	})
	return c
}

func workloadDocs() []workload.Doc {
	docs := []workload.Doc{}
	for _, w := range workloadall.Workloads() {
		docs = append(docs, w.Doc())
	}
	slices.SortFunc(docs, func(x, y workload.Doc) int { return cmp.Compare(x.Name, y.Name) })
	return docs
}

func (a *app) describeWorkload(d workload.Doc) {
	s := a.style(a.stdout)
	a.nameplate(d.Name, d.Summary)
	t := table{head: []string{"METRIC", "UNIT", "BETTER", "COMPARED BY", "MEANING"}}
	for _, m := range d.Metrics {
		name := m.Name
		if m.Primary {
			name += " (primary)"
		}
		t.row(name, m.Unit, string(m.Better), string(m.Scale), m.Doc)
	}
	width, _ := a.size(a.stdout)
	t.print(a.stdout, s, width)
	a.paramTable("parameter", d.Params)
	fmt.Fprintln(a.stdout)
	facts := table{head: []string{"", ""}}
	facts.row("volume", d.Volume)
	facts.row("other end", map[bool]string{true: "a load generator outside the environment"}[d.Peer])
	facts.row("programs", strings.Join(d.Programs, ", "))
	facts.row("programs outside", strings.Join(d.PeerPrograms, ", "))
	facts.row("state", d.State+", cache "+d.Cache)
	facts.row("source", strings.Join(d.Source, "; "))
	facts.body(a)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// complete offers names for the first argument.
func complete(names func() []string) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(), cobra.ShellCompDirectiveNoFileComp
	}
}
