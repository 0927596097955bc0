package trial

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"bakeoff/base/shell"
	"bakeoff/lab/plan"
	"bakeoff/measure/execution"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

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
	if !slices.ContainsFunc(r.Plan.Cells, func(c plan.Cell) bool {
		return execution.ProgramParam(execution.Named(r.Workloads, c.Workload), s.CellOf(c.Cell).Params) != ""
	}) {
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
		return execution.StartsImage(execution.Named(r.Workloads, c.Workload), s.CellOf(c.Cell).Params)
	}) {
		out[factProgram] = shell.Quote(own.Argv...)
	}
	return out
}
