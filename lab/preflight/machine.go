package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/lab/env"
	"bakeoff/lab/plan"
	"bakeoff/measure/execution"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
)

// isWhole reports whether a contender is a whole machine.
func isWhole(drivers []driver.Driver, c plan.Contender) bool {
	d := driver.Named(drivers, c.Driver)
	return d != nil && d.Doc().Whole
}

// reboots reports whether the workloads of p reboot contenders that are whole machines.
func reboots(p *plan.Plan, workloads []execution.Runner) bool {
	return slices.ContainsFunc(p.Cells, func(c plan.Cell) bool {
		w := execution.Named(workloads, c.Workload)
		return w != nil && w.Doc().Watch
	})
}

// CheckMachines returns why contenders that are whole machines cannot take part in p if it
// reboots them: a reboot ends everything else on the machine. The errors are of kind
// fault.Invalid.
func CheckMachines(p *plan.Plan, drivers []driver.Driver, workloads []execution.Runner) (out []error) {
	if !reboots(p, workloads) {
		return nil
	}
	for _, c := range p.Contenders {
		if c.TwinOf != "" || !isWhole(drivers, c) {
			continue
		}
		refuse := func(fix, format string, args ...any) {
			out = append(out, fault.WithFix(fault.New(fault.Invalid, "contender %s: "+format,
				append([]any{c.Name}, args...)...), fix))
		}
		for _, cell := range p.Cells {
			if w := execution.Named(workloads, cell.Workload); w != nil && !w.Doc().Watch {
				refuse("move the cell to another lab file", "a trial of the workload boot reboots its machine, and this would "+
					"stop cell %s (workload %s)", cell.Name, cell.Workload)
			}
		}
		for _, o := range p.Contenders {
			if o.TwinOf == "" && hostOf(o) == hostOf(c) && !isWhole(drivers, o) {
				refuse("move one of the two to another host", "it reboots host %s, and this would stop the contender %s "+
					"there", hostOf(c),
					o.Name)
			}
		}
		if p.Generator != "" {
			refuse("remove generator: only the controller can connect to a machine that reboots", "no load can come from host "+
				"%s",
				p.Generator)
		}
		if len(p.Hosts[c.Host].Switch) > 0 {
			refuse("remove switch, or compare the systems with drivers that boot nothing", "host %s is switched between systems",
				c.Host)
		}
	}
	return out
}

// checkSameMachine refuses a whole machine that the plan also reaches under the name of another host.
func (v inspector) checkSameMachine(_ context.Context, d driver.Driver, host conn.Conn, c plan.Contender) error {
	if !d.Doc().Whole || !reboots(v.plan, v.Workloads) {
		return nil
	}
	of, ok := bootOf(host)
	for name := range v.plan.Hosts {
		if name == c.Host || !ok {
			continue
		}
		other, err := v.Way(name)
		if err != nil {
			continue // what stands there cannot run
		}
		if boot, ok := bootOf(other); ok && boot == of {
			return fault.WithFix(fault.New(fault.Unsupported, "hosts %s and %s are the same machine", c.Host, name),
				"use one name for the machine: a reboot stops everything on it")
		}
	}
	return nil
}

// checkNetwork refuses a contender whose cells need load that cannot reach it: the
// experiment's network exists on Linux only, and a bare machine needs an address.
func (v inspector) checkNetwork(ctx context.Context, d driver.Driver, host conn.Conn, c plan.Contender) error {
	needed := ""
	for _, cell := range v.plan.Cells {
		w := execution.Named(v.Workloads, cell.Workload)
		if w != nil && !w.Doc().Watch && w.Doc().NeedsPeer(c.CellOf(cell.Cell).Params) {
			needed = cell.Name
			break
		}
	}
	switch {
	case needed == "":
		return nil
	case d.Doc().Whole && v.plan.Generator != "":
		generator, err := v.Way(v.plan.Generator)
		if err == nil {
			_, err = env.AddressOf(ctx, host, v.plan.Hosts[c.Host], generator)
		}
		return err
	case !d.Doc().Whole && env.SystemOf(host) != "linux":
		return fault.WithFix(fault.New(fault.Unsupported, "cell %s needs the experiment's network, which bakeoff creates on "+
			"Linux only", needed), "use the driver machine, which has the network of the host, or remove the cell")
	}
	return nil
}

func bootOf(c conn.Conn) (string, bool) {
	m, ok := c.(interface{ Machine() channel.Machine })
	if !ok || m.Machine().Boot == "" {
		return "", false
	}
	return m.Machine().Boot, true
}

// rebootNotes says which machines a run reboots, and how often.
func (v inspector) rebootNotes(able func(string) bool) (out []string) {
	if !reboots(v.plan, v.Workloads) {
		return nil
	}
	var hosts []string
	planned, most := map[string]int{}, map[string]int{}
	for _, b := range v.plan.Blocks {
		for _, s := range b.Slots() {
			c, _ := v.plan.Contender(s.Contender)
			if !isWhole(v.Drivers, c) || !able(c.Name) {
				continue
			}
			h := hostOf(c)
			hosts = lists.AddNew(hosts, h)
			if most[h]++; !b.Spare {
				planned[h]++
			}
		}
	}
	slices.Sort(hosts)
	for _, h := range hosts {
		out = append(out, fmt.Sprintf("a run reboots %s (%s) %s, and at most %s if blocks are void: each reboot stops "+
			"everything that runs there", h, v.plan.Hosts[h].SSH, countTimes(planned[h]), countTimes(most[h])))
	}
	return out
}

func countTimes(n int) string {
	return strings.TrimSuffix(fmt.Sprintf("%d times", n), map[bool]string{true: "s"}[n == 1])
}
