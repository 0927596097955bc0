package preflight

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/lab/env"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/measure/execution"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/system"
)

// Lack is a program that a workload needs and that a host does not have.
// Environments made from an image bring their own.
type Lack struct {
	Program    string   `json:"program"`
	Host       string   `json:"host"`       // that lacks it, by its name in the lab file
	Contenders []string `json:"contenders"` // that run it from the host; or LoadGenerator
	Cells      []string `json:"cells"`      // that cannot run without it
	Packages   []string `json:"packages"`   // Debian packages that bring it
	Fix        string   `json:"fix"`
}

// ProgramsOn is Programs for every host of the plan that has contenders, in order
// of their names; hosts returns a host by its name. It skips a host that cannot be
// reached, or that is not booted into the system that contenders need.
func ProgramsOn(ctx context.Context, p *plan.Plan, drivers []driver.Driver, workloads []execution.Runner,
	hosts func(name string) (conn.Conn, error)) ([]Lack, error) {
	at := map[string]*plan.Plan{}
	for _, c := range p.Contenders {
		name := cmp.Or(c.Host, env.LocalHost)
		if c.System != "" {
			continue
		}
		if at[name] == nil {
			q := *p
			q.Contenders, at[name] = nil, &q
		}
		at[name].Contenders = append(at[name].Contenders, c)
	}
	var out []Lack
	for _, name := range slices.Sorted(maps.Keys(at)) {
		host, err := hosts(name)
		if err != nil {
			continue // the contenders there have this as their reason
		}
		lacks, err := Programs(ctx, at[name], drivers, workloads, host)
		if err != nil {
			return nil, fault.Op("host "+name, err)
		}
		for _, l := range lacks {
			l.Host = name
			out = append(out, l)
		}
	}
	return out, nil
}

// LoadGenerator stands for the other end of a workload among the contenders
// of a Lack.
const LoadGenerator = "the load generator"

// Programs lists what the plan's workloads need from the host itself and the
// host lacks, in order of the programs' names. It changes nothing.
func Programs(ctx context.Context, p *plan.Plan, drivers []driver.Driver, workloads []execution.Runner,
	host conn.Conn) ([]Lack, error) {
	bare := lists.Filter(p.Contenders, func(c plan.Contender) bool {
		d := driver.Named(drivers, c.Driver)
		return d != nil && onHostsRoot(d.Doc(), c.Contender) && c.TwinOf == ""
	})
	var out []Lack
	installer := sync.OnceValue(func() system.Installer { return installerOf(ctx, host) })
	present := map[string]bool{}
	need := func(who, cell, program string, packages []string) error {
		if k := slices.IndexFunc(out, func(l Lack) bool { return l.Program == program }); k >= 0 {
			out[k].Contenders, out[k].Cells = with(out[k].Contenders, who), with(out[k].Cells, cell)
			return nil
		}
		if present[program] {
			return nil
		}
		have, err := Has(ctx, host, program)
		if err == nil && have {
			present[program] = true
		} else if err == nil {
			out = append(out, Lack{Program: program, Contenders: []string{who}, Cells: []string{cell}, Packages: packages,
				Fix: installer().Line([]string{program}, packages)})
		}
		return err
	}
	for _, cell := range p.Cells {
		w := execution.Named(workloads, cell.Workload)
		if w == nil {
			continue // the plan was checked against another catalogue
		}
		doc := w.Doc()
		for _, c := range bare {
			programs, packages := doc.Needed(c.CellOf(cell.Cell).Params)
			for _, program := range programs {
				if err := need(c.Name, cell.Name, program, packages["debian"]); err != nil {
					return nil, err
				}
			}
		}
		for _, program := range doc.PeerPrograms {
			if err := need(LoadGenerator, cell.Name, program, doc.PeerPackages["debian"]); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(out, func(a, b Lack) int { return strings.Compare(a.Program, b.Program) })
	return out, nil
}

// with returns all with one, unless it has it.
func with(all []string, one string) []string {
	if slices.Contains(all, one) {
		return all
	}
	return append(all, one)
}

// onHostsRoot tells that the files of a contender's environments are the host's
// own.
func onHostsRoot(d driver.Doc, c manifest.Contender) bool {
	return !d.Image && !c.Options.Match(d.OwnRoot)
}

// programPath makes the shell look for programs in the directories of Has.
const programPath = `PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin
PATH=$PATH:/usr/pkg/sbin:/usr/pkg/bin:/opt/local/sbin:/opt/local/bin:/opt/homebrew/bin
for d in /usr/lib/postgresql/*/bin; do PATH=$PATH:$d; done
`

// Has reports whether host has program in its PATH or in the directories of
// administrators' programs, such as PostgreSQL's on Debian, which are not in PATH.
func Has(ctx context.Context, host conn.Conn, program string) (bool, error) {
	exit, err := host.Exec(ctx, conn.Cmd{
		Argv: []string{"sh", "-c", programPath + `command -v "$1"`, "sh", program}})
	if err != nil {
		return false, err
	}
	return exit.OK(), nil
}
