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
	// runs are the cells whose programs run it, loads those whose load generator does.
	runs, loads []plan.Place
}

// ProgramsOn lists what the plan's workloads need from the hosts themselves and the hosts
// lack, in order of the hosts and of the programs' names; hosts returns a host by its name. It
// skips a host that cannot be reached, or that is not booted into the system that contenders
// need, and changes nothing.
func ProgramsOn(ctx context.Context, p *plan.Plan, drivers []driver.Driver, workloads []execution.Runner,
	hosts func(name string) (conn.Conn, error)) ([]Lack, error) {
	var all []plan.Contender
	names := map[string]bool{}
	if p.Generator != "" {
		names[p.Generator] = true
	}
	for _, c := range p.Contenders {
		if c.System == "" && c.TwinOf == "" {
			names[hostOf(c)] = true
			all = append(all, c)
		}
	}
	var out []Lack
	for _, name := range slices.Sorted(maps.Keys(names)) {
		host, err := hosts(name)
		if err != nil {
			continue // the contenders there have this as their reason
		}
		runs := lists.Filter(all, func(c plan.Contender) bool {
			d := driver.Named(drivers, c.Driver)
			return hostOf(c) == name && d != nil && onHostsRoot(d.Doc(), c.Contender)
		})
		loads := lists.Filter(all, func(c plan.Contender) bool { return cmp.Or(p.Generator, hostOf(c)) == name })
		lacks, err := programs(ctx, p, workloads, host, runs, loads)
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

// programs lists what a host lacks: runs are the contenders whose programs are the host's, and
// loads those whose load comes from it.
func programs(ctx context.Context, p *plan.Plan, workloads []execution.Runner, host conn.Conn,
	runs, loads []plan.Contender) ([]Lack, error) {
	var out []Lack
	installer := sync.OnceValue(func() system.Installer { return installerOf(ctx, host) })
	present := map[string]bool{}
	// need returns the lack of a program; nil if the host has it.
	need := func(who, cell, program string, packages []string) (*Lack, error) {
		if present[program] {
			return nil, nil
		}
		k := slices.IndexFunc(out, func(l Lack) bool { return l.Program == program })
		if k < 0 {
			have, err := Has(ctx, host, program)
			if err != nil || have {
				present[program] = have
				return nil, err
			}
			k = len(out)
			out = append(out, Lack{Program: program, Packages: packages, Fix: installer().Line([]string{program}, packages)})
		}
		out[k].Contenders, out[k].Cells = with(out[k].Contenders, who), with(out[k].Cells, cell)
		return &out[k], nil
	}
	for _, cell := range p.Cells {
		w := execution.Named(workloads, cell.Workload)
		if w == nil {
			continue // the plan was checked against another catalogue
		}
		doc := w.Doc()
		for _, c := range runs {
			programs, packages := doc.Needed(c.CellOf(cell.Cell).Params)
			for _, program := range programs {
				l, err := need(c.Name, cell.Name, program, packages["debian"])
				if err != nil {
					return nil, err
				}
				if l != nil {
					l.runs = append(l.runs, plan.At(c.Name, cell.Name))
				}
			}
		}
		for _, c := range loads {
			for _, program := range doc.PeerPrograms {
				l, err := need(LoadGenerator, cell.Name, program, doc.PeerPackages["debian"])
				if err != nil {
					return nil, err
				}
				if l != nil {
					l.loads = append(l.loads, plan.At(c.Name, cell.Name))
				}
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
