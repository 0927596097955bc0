package preflight

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/lab/env"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/measure/execution"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/system"
	systemall "bakeoff/reach/system/all"
)

// Availability is the answer for one contender before anything starts.
type Availability struct {
	Contender string              `json:"contender"`
	Driver    string              `json:"driver"`
	Answer    driver.Availability `json:"answer"`
}

// Enough turns a driver's answer into a refusal if a contender asks for more than
// its host has. With too few CPUs, the contender would silently get fewer than the
// lab file says. With too little memory, no limit would apply, and a VM would see
// more memory than exists. Memory of 0 bytes means unknown and refuses nothing.
func Enough(a driver.Availability, c manifest.Contender, cpus int, memory unit.Bytes) driver.Availability {
	if !a.OK {
		return a
	}
	switch {
	case c.CPUs > cpus:
		return driver.Availability{Reason: fmt.Sprintf("it asks for %d CPUs%s, but its host has %d", c.CPUs,
			locationOf(c, "cpus"), cpus),
			Fix: fmt.Sprintf("write cpus: %d or less", cpus), Facts: a.Facts}
	case memory > 0 && c.Memory > memory:
		return driver.Availability{Reason: fmt.Sprintf("it asks for %s of memory%s, but its host has %s", c.Memory,
			locationOf(c, "memory"), wholeMiB(memory)),
			Fix: fmt.Sprintf("write memory: %s or less", wholeMiB(memory)), Facts: a.Facts}
	}
	return a
}

// inFlags puts the remedy of an answer into the words of the command line, for settings that
// come from flags and not from a lab file: "write cpus: 1" becomes "write --cpus 1".
func inFlags(a driver.Availability, c manifest.Contender) driver.Availability {
	for key, where := range c.Where {
		if !strings.HasPrefix(where, "--") {
			continue
		}
		if !strings.HasSuffix(where, "=") {
			where += " "
		}
		a.Fix = strings.ReplaceAll(a.Fix, "write "+key+": ", "write "+where)
	}
	return a
}

// wholeMiB is b in whole MiB, as people write memory; never more than b.
func wholeMiB(b unit.Bytes) unit.Bytes { return b - b%unit.MiB }

// Packages returns the Debian packages of a contender's image, sorted: those that
// the plan's workloads need inside an environment, and the contender's own. All
// contenders get those of all workloads, so that images differ only where intended.
func Packages(p *plan.Plan, workloads []execution.Runner, c manifest.Contender) ([]string, error) {
	out := slices.Clone(c.Packages)
	for _, cell := range p.Cells {
		w := execution.Named(workloads, cell.Workload)
		if w == nil {
			return nil, fault.New(fault.Unsupported, "there is no workload %q", cell.Workload)
		}
		for _, form := range variantsOf(p, cell) {
			_, packages := w.Doc().Needed(form.Params)
			out = append(out, packages["debian"]...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// CheckCells returns an error for each cell that can have no trial, as far as
// its workload knows before anything is created. The errors are of kind
// fault.Invalid and name the cell, and the contender if it has parameters or
// variables of its own.
func CheckCells(p *plan.Plan, workloads []execution.Runner) (out []error) {
	for _, cell := range p.Cells {
		for _, v := range variantsOf(p, cell) {
			op := "cell " + cell.Name
			if v.own {
				op += ", contender " + v.contenders[0]
			}
			if checker, ok := execution.Named(workloads, cell.Workload).(execution.Checker); ok {
				if err := checker.Check(v.Params); err != nil {
					out = append(out, fault.Op(op, err))
				}
			}
		}
		out = append(out, doubleVariables(p, cell)...)
		out = append(out, imagesWithoutProgram(p, cell, workloads)...)
	}
	return out
}

// CheckOn asks the driver of every contender whether it can run on its host, in
// the plan's order, and changes nothing. hosts returns a host by its name. If a
// contender needs another system on its host, CheckOn leaves the question until
// that system is booted.
func CheckOn(ctx context.Context, p *plan.Plan, drivers []driver.Driver,
	hosts func(name string) (conn.Conn, error)) []Availability {
	var out []Availability
	installers := map[string]func() system.Installer{}
	for _, c := range p.Contenders {
		a := Availability{Contender: c.Name, Driver: c.Driver}
		d := driver.Named(drivers, c.Driver)
		host, err := hosts(cmp.Or(c.Host, env.LocalHost))
		switch {
		case d == nil:
			a.Answer = driver.Availability{Reason: fmt.Sprintf("there is no driver %q", c.Driver)}
		case err != nil:
			a.Answer = driver.Availability{Reason: err.Error()}
		case c.System != "":
			// Asked in another system, the answer would be about that.
			a.Answer = driver.Availability{OK: true, Facts: map[string]string{"checked": "when " + c.Host + " is booted into " +
				c.System}}
		default:
			if err := checkImage(ctx, host, d.Doc(), c.Contender); err != nil {
				a.Answer = driver.Availability{Reason: err.Error()}
				break
			}
			if installers[c.Host] == nil {
				installers[c.Host] = sync.OnceValue(func() system.Installer { return installerOf(ctx, host) })
			}
			a.Answer = checkDriver(ctx, host, d, c.Contender, installers[c.Host])
		}
		out = append(out, a)
	}
	return out
}

// CheckDriver asks d whether host can have the environments of a contender, and looks
// there for the contender's packages. It changes nothing.
func CheckDriver(ctx context.Context, host conn.Conn, d driver.Driver, c manifest.Contender) driver.Availability {
	return checkDriver(ctx, host, d, c, func() system.Installer { return installerOf(ctx, host) })
}

func checkDriver(ctx context.Context, host conn.Conn, d driver.Driver, c manifest.Contender,
	installer func() system.Installer) driver.Availability {
	a := d.Check(ctx, host, c.Options)
	if len(a.Programs) > 0 {
		a = Translate(installer(), a)
	}
	if onHostsRoot(d.Doc(), c) {
		a = checkPackages(ctx, a, c, host, installer)
	}
	return a
}

// Translate writes the remedy of a driver's answer with the commands and packages of the
// host's system: drivers name those of Debian.
func Translate(i system.Installer, a driver.Availability) driver.Availability {
	if !a.OK && !i.IsDebian() && len(a.Programs) > 0 {
		a.Fix = i.Line(a.Programs, a.Packages)
	}
	return a
}

func installerOf(ctx context.Context, host conn.Conn) system.Installer {
	return system.InstallerOf(ctx, systemall.Systems(), host)
}

// checkImage tells whether there can be what a contender is made from.
func checkImage(ctx context.Context, host conn.Conn, d driver.Doc, c manifest.Contender) error {
	if d.Folder && path.IsAbs(c.Image) {
		_, err := conn.FilesOf(host).ReadDir(ctx, c.Image)
		return fault.WithFix(fault.Wrap(fault.Invalid, "image "+c.Image, err), "name a folder on the host that contains a "+
			"root file system")
	}
	return env.CheckImage(d, c.Image, c.Options)
}
