package trial

import (
	"context"
	"maps"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/provision/driver"
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
