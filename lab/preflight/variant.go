package preflight

import (
	"maps"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/measure/execution"
	"bakeoff/provision/image"
)

// variant is a cell as some contenders run it.
type variant struct {
	manifest.Cell
	own        bool // the contenders have parameters of their own
	contenders []string
}

// variantsOf returns the different forms of a cell, in the order of the
// contenders. A form that no contender runs is not among them.
func variantsOf(p *plan.Plan, cell plan.Cell) (out []variant) {
	for _, c := range p.Contenders {
		if c.TwinOf != "" {
			continue
		}
		x := variant{Cell: c.CellOf(cell.Cell), own: len(c.Params[cell.Name]) > 0}
		i := slices.IndexFunc(out, func(v variant) bool { return v.own == x.own && maps.Equal(v.Params, x.Params) })
		if i < 0 {
			i, out = len(out), append(out, x)
		}
		out[i].contenders = append(out[i].contenders, c.Name)
	}
	return out
}

// paramEnv is the parameter that workloads with variables of their own have.
const paramEnv = "env"

// doubleVariables returns an error for each variable that a cell and a contender both set:
// the cell's value would be used, and the lab file would claim a difference that
// does not exist.
func doubleVariables(p *plan.Plan, cell plan.Cell) (out []error) {
	for _, c := range p.Contenders {
		if c.TwinOf != "" {
			continue
		}
		for _, e := range c.CellOf(cell.Cell).Params.List(paramEnv) {
			name, _, _ := strings.Cut(e, "=")
			if _, ok := c.Env[name]; ok {
				out = append(out, fault.WithFix(fault.New(fault.Invalid, "cell %s and contender %s both set the variable %s",
					cell.Name, c.Name, name), "remove it from env of one of them"))
			}
		}
	}
	return out
}

// imagesWithoutProgram returns an error for each contender whose image cannot say which program a
// cell starts, if the cell does not name it.
func imagesWithoutProgram(p *plan.Plan, cell plan.Cell, workloads []execution.Runner) (out []error) {
	runner := execution.Named(workloads, cell.Workload)
	for _, c := range p.Contenders {
		if c.TwinOf != "" || !execution.StartsImage(runner, c.CellOf(cell.Cell).Params) || image.Starts(c.Image) {
			continue
		}
		if c.Image == "" && runner.Doc().StartsNothing(c.CellOf(cell.Cell).Params) {
			continue // the guest's own system may start it
		}
		what := "no image with a program"
		if c.Image != "" {
			what = "the image " + c.Image + ", which names no program"
		}
		out = append(out, fault.WithFix(fault.New(fault.Invalid, "cell %s names no program, and contender %s has %s",
			cell.Name,
			c.Name, what), "write "+execution.ProgramParam(runner, c.CellOf(cell.Cell).Params)+": [program, argument]"))
	}
	return out
}
