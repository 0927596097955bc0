package trial

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/shell"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/measure/execution"
	"bakeoff/provision/driver"
	"bakeoff/provision/image"
	"bakeoff/reach/conn"
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

// twice returns an error for each variable that a cell and a contender both set:
// the cell's value would be used, and the lab file would claim a difference that
// does not exist.
func twice(p *plan.Plan, cell plan.Cell) (out []error) {
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

// variables is an instance whose programs have environment variables of a
// contender. A variable that a command sets itself keeps the command's value.
type variables struct {
	driver.Instance
	conn.Files
	names []string // sorted
	env   map[string]string
}

// environ returns the variables of a contender: those of its image, and its own in place
// of them.
func environ(img driver.Image, own map[string]string) map[string]string {
	if img.Start == nil {
		return own
	}
	out := map[string]string{}
	for _, e := range img.Start.Env {
		name, value, _ := strings.Cut(e, "=")
		out[name] = value
	}
	maps.Copy(out, own)
	return out
}

// withEnv returns in with the variables of a contender; in itself if there are
// none.
func withEnv(in driver.Instance, env map[string]string) driver.Instance {
	if len(env) == 0 {
		return in
	}
	v := variables{Instance: in, Files: conn.FilesOf(in), names: slices.Sorted(maps.Keys(env)), env: env}
	if s, ok := in.(driver.Storer); ok {
		return struct {
			variables
			driver.Storer
		}{v, s}
	}
	return v
}

// Unwrap returns the instance without the variables.
func (v variables) Unwrap() driver.Instance { return v.Instance }

// Exec implements conn.Conn.
func (v variables) Exec(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	var own []string
	for _, name := range v.names {
		if !slices.ContainsFunc(cmd.Env, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			own = append(own, name+"="+v.env[name])
		}
	}
	cmd.Env = append(own, cmd.Env...)
	return v.Instance.Exec(ctx, cmd)
}

// The facts about how the image of a contender starts programs. If they differ, the
// sides of a comparison run different programs, or run them with other rights.
const (
	factUser    = "start.user"
	factFolder  = "start.folder"
	factProgram = "start.program"
)

// startFacts says how the programs of a contender start, if the image of any contender
// decides it. The facts of all contenders then have the same names.
func (r *runner) startFacts(s *side) map[string]string {
	out := map[string]string{}
	if !slices.ContainsFunc(r.Plan.Cells, func(c plan.Cell) bool { return asImage(c.Workload, r.Workloads) }) {
		return out
	}
	own := driver.Start{}
	if s.image.Start != nil {
		own = *s.image.Start
	}
	for _, o := range r.sides {
		if o.image.Start == nil {
			continue
		}
		if o.image.Start.User != "" {
			out[factUser] = cmp.Or(own.User, "root")
		}
		if o.image.Start.Dir != "" {
			out[factFolder] = cmp.Or(own.Dir, "a private folder")
		}
	}
	if len(own.Argv) > 0 && slices.ContainsFunc(r.Plan.Cells, func(c plan.Cell) bool {
		return unnamed(c.Workload, s.CellOf(c.Cell).Params, r.Workloads)
	}) {
		out[factProgram] = shell.Quote(own.Argv...)
	}
	return out
}

// asImage tells whether a workload starts programs as the image says.
func asImage(workload string, workloads []execution.Runner) bool {
	return slices.ContainsFunc(workloads, func(w execution.Runner) bool {
		_, ok := w.(execution.Starter)
		return ok && w.Doc().Name == workload
	})
}

// unnamed tells whether a workload starts the program that the image names.
func unnamed(workload string, p param.Values, workloads []execution.Runner) bool {
	return slices.ContainsFunc(workloads, func(w execution.Runner) bool {
		starter, ok := w.(execution.Starter)
		return ok && w.Doc().Name == workload && !starter.Names(p)
	})
}

// nameless returns an error for each contender whose image cannot say which program a
// cell starts, if the cell does not name it.
func nameless(p *plan.Plan, cell plan.Cell, workloads []execution.Runner) (out []error) {
	for _, c := range p.Contenders {
		if c.TwinOf != "" || !unnamed(cell.Workload, c.CellOf(cell.Cell).Params, workloads) || image.Starts(c.Image) {
			continue
		}
		what := "no image that names one"
		if c.Image != "" {
			what = "the image " + c.Image + ", which names none"
		}
		out = append(out, fault.WithFix(fault.New(fault.Invalid, "cell %s names no program, and contender %s has %s",
			cell.Name,
			c.Name, what), "write argv: [program, argument]"))
	}
	return out
}
