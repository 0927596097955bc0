package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/unit"
	"bakeoff/lab/env"
	"bakeoff/lab/manifest"
	"bakeoff/provision/driver"
	driverall "bakeoff/provision/driver/all"
	"bakeoff/reach/conn"
	"bakeoff/reach/probe"
)

// The states of one thing that doctor looked at.
const (
	good    = "good"
	warning = "warning" // a measurement here will be worse for it
	absent  = "missing" // something cannot be done here
	neutral = "fact"
)

// finding is one thing that doctor looked at.
type finding struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"`
}

// line is a finding in a sentence.
func (f finding) line() string {
	s := f.Name + ": " + f.Text
	if f.Fix != "" {
		s += "; " + f.Fix
	}
	return s
}

// diagnosis is what doctor found.
type diagnosis struct {
	Schema  string    `json:"schema"`
	Machine []finding `json:"machine"`
	Drivers []listed  `json:"drivers"`
	// Install is the one command that brings every package that is missing,
	// "" when none is.
	Install string `json:"install"`
	// Measuring is the process that measures on this machine now; null: none.
	Measuring *int `json:"measuring"`
	// Leases are what earlier runs left, or what that process has in use, one
	// line each.
	Leases []string `json:"leases"`
	// Hosts are those of a lab file, where one was named.
	Hosts []hostDiagnosis `json:"hosts"`
}

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
		Args: between(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if asked, err := f.asked(); err != nil {
				return usage(c, err)
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
			d := a.diagnose(c.Context(), l)
			if asJSON {
				return a.printJSON(d)
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

// diagnose looks at this machine, and at those of a lab where there is one.
func (a *app) diagnose(ctx context.Context, l *manifest.Lab) diagnosis {
	if ctx == nil {
		ctx = context.Background()
	}
	state, cache := env.Dirs(a.env, os.Getuid())
	d := diagnosis{
		Schema:  "bakeoff/doctor/v1",
		Machine: append(commonFindings(), machineFindings(os.DirFS("/"))...),
		Drivers: a.checkDrivers(ctx, driverall.Drivers()),
		Leases:  []string{},
		Hosts:   []hostDiagnosis{},
	}
	d.Machine = append(d.Machine, energyFinding(ctx, env.LocalHost, a.here(), l))
	if l != nil {
		d.Hosts = a.diagnoseHosts(ctx, l)
	}
	for _, dir := range []struct{ name, path string }{{"room for state", state}, {"room for images", cache}} {
		d.Machine = append(d.Machine, roomFinding(dir.name, dir.path))
	}
	lacks := wants{}
	programs, packages := programFindings()
	d.Machine = append(d.Machine, programs...)
	for _, p := range programs {
		if p.State == absent {
			lacks.add("", []string{p.Name}, nil)
		}
	}
	lacks.add("", nil, packages)
	d.Machine = append(d.Machine, a.agentFinding())
	if pid := env.Measuring(state); pid != 0 {
		d.Measuring = &pid
	}
	d.Leases = append(d.Leases, a.leaseLines(state)...)
	for _, l := range d.Drivers {
		if !l.Check.OK {
			lacks.add("", l.Check.Programs, l.Check.Packages)
		}
	}
	d.Install, _ = lacks.lines(ctx, func(string) (conn.Conn, error) { return a.localHost(), nil })
	return d
}

// installCommand is the command that installs packages, "" for none.
func installCommand(packages []string, uid int) string {
	if len(packages) == 0 {
		return ""
	}
	slices.Sort(packages)
	command := "apt-get install --no-install-recommends " + strings.Join(slices.Compact(packages), " ")
	if uid != 0 {
		command = "sudo " + command
	}
	return command
}

func commonFindings() []finding {
	out := []finding{{Name: "system", State: neutral, Text: runtime.GOOS + "/" + runtime.GOARCH}}
	if os.Getuid() == 0 {
		out = append(out, finding{Name: "root", State: good, Text: "yes"})
	} else {
		needs := []string{}
		for _, d := range driverall.Drivers() {
			if doc := d.Doc(); doc.Root {
				needs = append(needs, doc.Name)
			}
		}
		text := "no: " + strings.Join(needs, ", ") + " need it; the others do without"
		if len(needs) == len(driverall.Drivers()) {
			text = "no: every driver needs it; plan, verify, report, export and analyse do without"
		}
		out = append(out, finding{Name: "root", State: warning, Text: text, Fix: "run bakeoff with sudo to measure"})
	}
	return append(out, cpuFinding(runtime.NumCPU()), cpuTimeFinding(probe.ReadHost(nil).CPUSource, runtime.GOOS))
}

// cpuTimeFinding says what tells the cost of a trial on a machine.
func cpuTimeFinding(source, system string) finding {
	f := finding{Name: "cpu time", State: good, Text: "by " + source + ", in nanoseconds"}
	switch source {
	case "":
		f.State, f.Text = neutral, "unavailable: costs in CPU time cannot be told"
	case probe.SourceTicks:
		f.State, f.Text = warning, "in ticks: a trial of less than half a second of CPU time has no exact cost, and one of a few milliseconds none"
		if system == "linux" {
			f.Fix = "a kernel with CONFIG_SCHEDSTATS, as Debian's and Ubuntu's"
		}
	}
	return f
}

func cpuFinding(n int) finding {
	f := finding{Name: "cpus", State: good, Text: fmt.Sprint(n)}
	if n < 2 {
		f.State = warning
		f.Text += ": the load generator shares it with what is measured"
		f.Fix = "give this machine two CPUs or more"
	}
	return f
}

// leastRoom is what a few images and a run take, roughly.
const leastRoom = 3 * unit.GiB

func roomFinding(name, path string) finding {
	f := finding{Name: name, State: neutral, Text: path + ": unavailable"}
	free, ok := freeBytes(existing(path))
	if !ok {
		return f
	}
	f.Text = fmt.Sprintf("%s: %s free", path, unit.Format(float64(free), "B"))
	f.State = good
	if free < leastRoom {
		f.State = warning
		f.Fix = "make room: images and volumes take some " + leastRoom.String()
	}
	return f
}

// existing is path or the nearest folder above it that exists.
func existing(path string) string {
	for path != "/" && path != "." {
		if _, err := os.Stat(path); err == nil {
			return path
		}
		path = filepath.Dir(path)
	}
	return path
}

// builderFindings looks for the builder of images, if there are any to make.
func builderFindings(images bool) (out []finding, packages []string) {
	if !images {
		return nil, nil
	}
	return lookFor("mmdebstrap", "makes root images: without it only the bare host can be measured", "mmdebstrap", "debian-archive-keyring")
}

// programFindings looks for what drivers do not look for themselves: the
// builder of images, and the programs of workloads that run on the bare host.
func programFindings() (out []finding, packages []string) {
	out, packages = builderFindings(runtime.GOOS == "linux")
	// Several workloads need the same program: it is said once.
	add := func(found []finding, more []string) {
		for _, f := range found {
			if !slices.ContainsFunc(out, func(have finding) bool { return have.Name == f.Name }) {
				out = append(out, f)
			}
		}
		packages = append(packages, more...)
	}
	for _, doc := range workloadDocs() {
		for _, p := range doc.Programs {
			f, more := lookFor(p, "workload "+doc.Name+" needs it on the bare host", doc.Packages["debian"]...)
			add(f, more)
		}
		for _, p := range doc.PeerPrograms {
			f, more := lookFor(p, "workload "+doc.Name+" needs it here, as the load generator", doc.PeerPackages["debian"]...)
			add(f, more)
		}
	}
	return out, packages
}

// lookFor looks for a program, also where only administrators have it in
// their PATH, and names the packages that would bring it.
func lookFor(program, what string, debian ...string) ([]finding, []string) {
	dirs := append(filepath.SplitList(os.Getenv("PATH")), "/usr/local/sbin", "/usr/sbin", "/sbin")
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // Debian keeps PostgreSQL's out of the PATH
	for _, dir := range append(dirs, versions...) {
		path := filepath.Join(dir, program)
		if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return []finding{{Name: program, State: good, Text: path}}, nil
		}
	}
	return []finding{{Name: program, State: absent, Text: what, Fix: installCommand(slices.Clone(debian), os.Getuid())}}, debian
}

func (a *app) agentFinding() finding {
	path, err := agentPath(a.env)
	if err != nil {
		return finding{Name: "bakeoff-agent", State: absent, Text: err.Error()}
	}
	return finding{Name: "bakeoff-agent", State: good, Text: path}
}

func (a *app) printDiagnosis(d diagnosis) {
	s := a.style(a.stdout)
	fmt.Fprintln(a.stdout, s.paint(bold, "This machine"))
	a.printFindings(d.Machine)
	fmt.Fprintln(a.stdout, "\n"+s.paint(bold, "Drivers"))
	a.printDrivers(d.Drivers)
	a.printLeases(d, s)
	if d.Install != "" {
		fmt.Fprintln(a.stdout, "\n"+s.paint(bold, "What would bring all that is missing"))
		fmt.Fprintln(a.stdout, "  "+d.Install)
	}
	for _, h := range d.Hosts {
		a.printHost(h)
	}
}

// printLeases says what is leased: what a run has in use is not left behind.
func (a *app) printLeases(d diagnosis, s style) {
	head, end := "Left by earlier runs", "bakeoff clean removes it"
	if d.Measuring != nil {
		head, end = "In use", fmt.Sprintf("process %d measures on this machine now", *d.Measuring)
	}
	fmt.Fprintln(a.stdout, "\n"+s.paint(bold, head))
	for _, l := range d.Leases {
		fmt.Fprintln(a.stdout, "  "+l)
	}
	if len(d.Leases) == 0 && d.Measuring == nil {
		end = "nothing"
	}
	fmt.Fprintln(a.stdout, "  "+end)
}

// printFindings tells what was found of a machine.
func (a *app) printFindings(found []finding) {
	t := table{head: []string{"", "", ""}}
	for _, f := range found {
		text := f.Text
		if f.Fix != "" {
			text += "; " + f.Fix
		}
		t.add(cell{text: "  " + f.Name}, stateCell(f.State), cell{text: text})
	}
	t.body(a)
}

// printDrivers tells of each driver whether it is usable, and why not.
func (a *app) printDrivers(drivers []listed) {
	t := table{head: []string{"", "", ""}}
	for _, l := range drivers {
		t.add(cell{text: "  " + l.Name}, hereCell(l.Here), cell{text: cmp.Or(checkLine(l.Check), l.Summary) + provenLine(l)})
	}
	t.body(a)
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
	for _, k := range sortedKeys(c.Facts) {
		facts = append(facts, k+" "+c.Facts[k])
	}
	return strings.Join(facts, ", ")
}

func stateCell(state string) cell {
	switch state {
	case good:
		return cell{state, green}
	case warning:
		return cell{state, yellow}
	case absent:
		return cell{state, red}
	}
	return cell{"", dim}
}
