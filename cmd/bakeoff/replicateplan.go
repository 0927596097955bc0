package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/safetext"
	"bakeoff/base/shell"
	"bakeoff/base/unit"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/compare"
	"bakeoff/judge/replication"
	"bakeoff/lab/archive/bundle"
	"bakeoff/lab/archive/index"
	"bakeoff/lab/dryrun"
	"bakeoff/lab/env"
	"bakeoff/lab/inputs"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/session"
	"bakeoff/provision/driver"
	driverall "bakeoff/provision/driver/all"
	"bakeoff/reach/probe"
)

// execution is something that the lab of a bundle executes.
type execution struct {
	Where      string   `json:"where"` // the cell, or the host and the key of the lab file
	Contenders []string `json:"contenders"`
	In         string   `json:"in"`
	What       string   `json:"what"` // the workload with its parameters, or the command
}

// announce says what differs here and what the lab would execute, and refuses a lab that
// cannot run. It executes nothing of the lab.
func (a *app) announce(ctx context.Context, lab *manifest.Lab, b foreign, seed uint64, f replicateFlags,
	out *replicated) error {
	p, err := plan.Expand(lab, session.Catalogue(), seed, versionString())
	if err != nil {
		return fault.Op("the lab file of the bundle", err)
	}
	v, err := dryrun.Of(ctx, a.at, p, dryrun.Options{Budget: f.budget, Sources: inputs.Folder(lab)})
	if err != nil {
		return cmp.Or(cli.Interrupted(ctx, "nothing was executed"), err)
	}
	refusal := v.Refusal()
	_ = setReadiness(&v) // sets v.Ready; the error is refusal, or says that contenders are missing
	out.Ready = &v.Ready
	out.Machine = machineDifferences(b)
	out.Executes = executions(p)
	if !f.json {
		a.printForeign(b, out)
		a.printExecutions(v, out.Executes)
	}
	return fault.Op("the lab of the bundle cannot run here", refusal)
}

// machineFacts are facts of the machine itself, also where a contender runs in a container.
var machineFacts = []string{"arch", "system", "cpu.model", "cpu.microcode", "smt", "memory", "kernel", "kernel.build",
	"clocksource", "governor"}

// machineDifferences compares this machine with that of a contender of the bundle that ran on
// the kernel of its machine. It is empty if there is none.
func machineDifferences(b foreign) []compare.Difference {
	names := []string{b.plan.Baseline}
	for _, c := range b.plan.Contenders {
		names = append(names, c.Name)
	}
	here := probe.ReadFingerprint(nil).Facts
	for _, name := range names {
		c, _ := b.plan.Contender(name)
		d := driver.Named(driverall.Drivers(), c.Driver)
		if d == nil || d.Doc().Kernel || b.record.Facts[name]["kernel"] == "" {
			continue
		}
		there, now := map[string]string{}, map[string]string{}
		for _, k := range machineFacts {
			there[k], now[k] = b.record.Facts[name][k], here[k]
		}
		all := map[string]map[string]string{"": {"bakeoff": b.record.Program}, "machine": there}
		return compare.Differences(compare.Run{Facts: all},
			compare.Run{Facts: map[string]map[string]string{"": {"bakeoff": versionString()}, "machine": now}})
	}
	return []compare.Difference{}
}

// executions lists everything that a plan executes: on hosts, and for each cell.
func executions(p *plan.Plan) []execution {
	out := []execution{}
	for _, name := range slices.Sorted(maps.Keys(p.Hosts)) {
		h := p.Hosts[name]
		add := func(key string, argv []string) {
			if len(argv) > 0 {
				out = append(out, execution{Where: "host " + name + ", " + key, Contenders: []string{}, In: "the host itself",
					What: shell.Quote(argv...)})
			}
		}
		add("repair", h.Repair)
		add("meter", h.Meter)
		add("reboot", h.Reboot)
		for _, system := range slices.Sorted(maps.Keys(h.Switch)) {
			add("switch to "+system, h.Switch[system])
		}
	}
	for _, cell := range p.Cells {
		for _, c := range p.Contenders {
			if c.TwinOf != "" {
				continue
			}
			own, _ := p.CellOf(c.Name, cell.Name)
			what := strings.Join(slices.Concat([]string{cell.Workload}, words("", own.Params), words("env.", c.Env)), " ")
			in := placeOf(c)
			i := slices.IndexFunc(out, func(x execution) bool { return x.Where == cell.Name && x.In == in && x.What == what })
			if i < 0 {
				i = len(out)
				out = append(out, execution{Where: cell.Name, In: in, What: what})
			}
			out[i].Contenders = append(out[i].Contenders, c.Name)
		}
	}
	return out
}

// words are parameters for a person, with lists as a shell would read them.
func words(prefix string, values param.Values) (out []string) {
	for _, k := range slices.Sorted(maps.Keys(values)) {
		out = append(out, prefix+k+"="+shell.Quote(values.List(k)...))
	}
	return out
}

// placeOf says where the commands of a contender run.
func placeOf(c plan.Contender) string {
	text := c.Driver
	d := driver.Named(driverall.Drivers(), c.Driver)
	if c.Driver == "host" || d != nil && d.Doc().Whole {
		text += ", without isolation"
	}
	if c.Image != "" {
		text += ", image " + c.Image
	}
	for _, v := range c.Volumes {
		if v.Device != "" {
			text += ", device " + v.Device
		}
	}
	for _, more := range slices.Concat(words("options.", c.Options), words("tuning.", c.Tuning)) {
		text += ", " + more
	}
	if len(c.Packages) > 0 {
		text += ", packages " + strings.Join(c.Packages, " ")
	}
	if c.Host != env.LocalHost && c.Host != "" {
		text += ", on host " + c.Host
	}
	return text
}

// printForeign says what a bundle is, and what differs here.
func (a *app) printForeign(b foreign, out *replicated) {
	r := b.record.Clean()
	fmt.Fprintln(a.Out, a.Style(a.Out).Paint(cli.Bold, "run "+r.Run+" of lab "+r.Lab+" ("+bundle.Short(b.digest)+")"))
	signed := "no trusted signature"
	if len(b.signed) > 0 {
		signed = "signed by " + strings.Join(b.signed, ", ")
	}
	a.Paragraph("", fmt.Sprintf("from %s, with %s, %s. All its digests and numbers are right.",
		index.HostName(r.Machine), unit.Count(out.Verdicts, "verdict"), signed))
	t := cli.NewTable("  CONTENDER", "CELL", "METRIC", "VERDICT")
	for _, c := range replication.Claims(b.results) {
		t.Row("  "+c.Contender, c.Cell, c.Metric, string(c.Verdict))
	}
	a.PrintWide(t)
	a.Heading("What differs on this machine")
	if len(out.Machine) == 0 {
		a.Paragraph("", "Nothing that is known before the run.")
	}
	for _, d := range out.Machine {
		a.Paragraph("", fmt.Sprintf("%s: %s there, %s here", d.Fact, safetext.Line(d.Old), safetext.Line(d.New)))
	}
}

// printExecutions shows the plan, and every command in it.
func (a *app) printExecutions(v dryrun.View, all []execution) {
	a.planContenders(v)
	a.planFiles(v.Plan)
	a.planEstimate(v)
	a.planMissing(v)
	who := "you"
	if os.Getuid() == 0 {
		who = "root"
	}
	a.Heading("What it would execute, as " + who)
	for _, x := range all {
		who := ""
		if len(x.Contenders) > 0 {
			who = strings.Join(x.Contenders, ", ") + "; "
		}
		text := fmt.Sprintf("%s (%s%s): %s", x.Where, who, x.In, x.What)
		a.Paragraph("", safetext.Text(shownBreaks.Replace(text))) // of any length: nothing is left out
	}
	fmt.Fprintln(a.Out)
	a.planReady(v.Ready)
}

// shownBreaks shows line breaks in arguments.
var shownBreaks = strings.NewReplacer("\n", "⏎", "\r", "⏎", "\t", " ")
