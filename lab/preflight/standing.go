package preflight

import (
	"context"

	"bakeoff/base/fault"
	"bakeoff/lab/plan"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

// checkStanding refuses cells that an environment which exists already cannot run: those that
// create environments, that need the experiment's network, or a program that it lacks.
func (v inspector) checkStanding(ctx context.Context, d driver.Driver, host conn.Conn, c plan.Contender) error {
	r, ok := d.(driver.Reacher)
	if !ok || !c.Options.Match(d.Doc().Standing) {
		return nil
	}
	in, err := r.Reach(ctx, host, v.specOf(d.Doc(), c))
	if err != nil {
		return err
	}
	for _, cell := range v.plan.Cells {
		w := execution.Named(v.Workloads, cell.Workload)
		if w == nil {
			continue
		}
		doc, params := w.Doc(), c.CellOf(cell.Cell).Params
		switch {
		case doc.State == workload.Fresh:
			return fault.WithFix(fault.New(fault.Unsupported, "the workload %s of cell %s must create its "+
				"environments, but this environment exists already", doc.Name, cell.Name), "remove the cell, or let "+
				"bakeoff create the environment")
		case doc.NeedsPeer(params):
			return fault.WithFix(fault.New(fault.Unsupported, "cell %s needs the experiment's network, but this environment "+
				"has its own network", cell.Name), "remove the cell, or let bakeoff create the environment")
		}
		programs, packages := doc.Needed(params)
		for _, program := range programs {
			if have, err := Has(ctx, in, program); err == nil && !have {
				return lacking(cell.Name, program, packages["debian"])
			} else if err != nil && !fault.Is(err, fault.NotFound) { // without sh, the trial will tell
				return err
			}
		}
	}
	return nil
}

// standingNotes says which contenders exist before the run: the scope of the verdicts depends on
// them.
func (v inspector) standingNotes(able func(string) bool) (out []string) {
	for _, c := range v.plan.Contenders {
		d := v.driver(c)
		if d != nil && c.TwinOf == "" && able(c.Name) && c.Options.Match(d.Doc().Standing) {
			out = append(out, c.Name+" exists before and after the run and is measured as it is: the same environments serve "+
				"all blocks, and the verdicts hold for these instances only")
		}
	}
	return out
}

func lacking(cell, program string, packages []string) error {
	fix := "install it there, or remove the cell"
	if len(packages) > 0 {
		fix = "install it there (on Debian: apt-get install " + packages[0] + "), or remove the cell"
	}
	return fault.WithFix(fault.New(fault.Unsupported, "cell %s needs the program %s, which the environment lacks", cell,
		program), fix)
}
