package dryrun

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"time"

	"bakeoff/base/param"
	"bakeoff/lab/env"
	"bakeoff/lab/plan"
	"bakeoff/measure/workload/command"
	"bakeoff/reach/conn"
)

// Timing is how long one execution of a command took that has no estimate.
type Timing struct {
	Contender string `json:"contender"`
	Cell      string `json:"cell"`
	NS        *int64 `json:"ns"`                 // null: Why says why it is not known
	AtLeast   bool   `json:"at_least,omitempty"` // it was killed after NS
	Why       string `json:"why,omitempty"`
}

// The bounds of the timing: of one command with what belongs to it, and of all.
const (
	timingLimit = 10 * time.Second
	timingAll   = 30 * time.Second
)

// timeCommands executes the commands once that have no estimate and that a run would
// execute on this machine itself: in the folder of the lab file, or in a private one,
// with what runs before and after them. Commands in other environments, and those that
// need placed files or a volume, stay unknown.
func timeCommands(ctx context.Context, host conn.Conn, p *plan.Plan, able func(contender string) bool) []Timing {
	ctx, cancel := context.WithTimeout(ctx, timingAll)
	defer cancel()
	var out []Timing
	for _, cell := range p.Cells {
		for _, c := range p.Contenders {
			params := c.CellOf(cell.Cell).Params
			if !guessed(cell.Workload, params) || c.TwinOf != "" || !onThisMachine(c) || !able(c.Name) {
				continue
			}
			t := Timing{Contender: c.Name, Cell: cell.Name}
			if took, err := timeCommand(ctx, host, c, params); err != nil {
				t.Why = err.Error()
			} else {
				t.NS, t.AtLeast = new(took.Nanoseconds()), took == timingLimit
			}
			out = append(out, t)
		}
	}
	return out
}

// guessed tells whether a cell executes a command without an estimate.
func guessed(workload string, p param.Values) bool {
	doc := command.Workload{}.Doc()
	return workload == doc.Name && p["estimate"] == param.Defaults(doc.Params)["estimate"]
}

// onThisMachine tells whether the commands of a contender run on this machine, as they
// are there.
func onThisMachine(c plan.Contender) bool {
	return c.Driver == "host" && (c.Host == "" || c.Host == env.LocalHost) && c.System == "" && len(c.Files) == 0
}

// timeCommand executes one command, with its preparation and its cleanup. It returns
// timingLimit if all together did not end by then.
func timeCommand(all context.Context, host conn.Conn, c plan.Contender,
	p param.Values) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(all, timingLimit)
	defer cancel()
	if p.Text("dir") != "" {
		return 0, errors.New("bakeoff does not time a command that runs in a volume")
	}
	dir := p.Text("workdir")
	if dir == "" {
		if dir, err = os.MkdirTemp("", "bakeoff-plan-"); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	environ := p.List("env")
	for name, value := range c.Env {
		environ = append(environ, name+"="+value)
	}
	for _, name := range []string{"prepare", "reset", "argv", "cleanup"} {
		argv := p.List(name)
		if len(argv) == 0 {
			continue
		}
		start := time.Now()
		exit, err := host.Exec(ctx, conn.Cmd{Argv: argv, Env: environ, Dir: dir})
		want := "0"
		if name == "argv" {
			took, want = time.Since(start), p.Text("exit")
		}
		switch {
		case all.Err() != nil:
			return 0, errors.New("other commands used up the time of the dry run")
		case ctx.Err() != nil:
			return timingLimit, nil
		case err != nil:
			return 0, err
		case exit.Signal != "" || want != "any" && strconv.Itoa(exit.Code) != want:
			return 0, fmt.Errorf("%s: %s", argv[0], exit)
		}
	}
	return took, nil
}

// estimates are the parameter estimate of the contenders at cells whose commands were
// timed. What could not be timed is taken to last as long as the longest at its cell.
func estimates(p *plan.Plan, timed []Timing) map[string]map[string]time.Duration {
	longest := map[string]time.Duration{}
	known := map[[2]string]time.Duration{}
	for _, t := range timed {
		if t.NS != nil {
			took := time.Duration(*t.NS)
			known[[2]string{t.Contender, t.Cell}], longest[t.Cell] = took, max(longest[t.Cell], took)
		}
	}
	out := map[string]map[string]time.Duration{}
	for _, c := range p.Contenders {
		of := c.Name
		if c.TwinOf != "" {
			of = c.TwinOf
		}
		out[c.Name] = map[string]time.Duration{}
		for _, cell := range p.Cells {
			took, ok := known[[2]string{of, cell.Name}]
			if !ok {
				took = longest[cell.Name]
			}
			if took > 0 && guessed(cell.Workload, c.CellOf(cell.Cell).Params) {
				out[c.Name][cell.Name] = took
			}
		}
	}
	return out
}

// withEstimate are parameters in which estimate is what a command took.
func withEstimate(p param.Values, took time.Duration) param.Values {
	if took == 0 {
		return p
	}
	p = maps.Clone(p)
	p["estimate"] = took.String()
	return p
}
