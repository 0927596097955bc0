package agent

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/reach/probe"
)

// The stages of a loop, as `work --stage` names them.
const (
	StagePrepare = "prepare"
	StageReset   = "reset"
	StageRun     = "run"
)

// runWork is `work NAME [--json] [--dir D] [--stage S] [--hash-file F]
// [PARAM=VALUE…]`.
func runWork(c call) int {
	if len(c.args) == 0 || strings.HasPrefix(c.args[0], "-") {
		return c.fail(usageError("work: no workload is named; write: work NAME [--json] [--dir D] [PARAM=VALUE…]"))
	}
	name := c.args[0]
	f, asJSON := c.flags("work")
	dir := f.String("dir", "", "a directory the workload may write to")
	stage := f.String("stage", StageRun, "prepare, reset or run")
	remembered := f.String("hash-file", "", "a file of this environment's own that remembers the agent's hash")
	if err := f.Parse(c.args[1:]); err != nil {
		return ExitInvalid
	}
	i := slices.IndexFunc(c.loops, func(l Loop) bool { return l.Name == name })
	if i < 0 {
		return c.fail(usageError("work: there is no native workload %q; `bakeoff-agent list` names them", name))
	}
	loop := c.loops[i]
	values, err := param.ParseArgs(loop.Params, f.Args())
	if err != nil {
		return c.fail(fault.Wrap(fault.Invalid, "work "+name, err))
	}
	env := Env{Dir: *dir, Log: c.stderr}
	if *remembered != "" {
		env.Scratch = filepath.Dir(*remembered)
	}
	res, err := loop.stage(*stage, values, env)
	if err == nil && *stage == StageRun {
		res.Agent, err = HashOnce(*remembered)
		err = fault.Wrap(fault.Lab, "hash the agent", err)
	}
	if err != nil {
		if *asJSON && *stage == StageRun && diskFull(err) {
			// The trial failed, and why is for a gate: it tells a volume that
			// was too small from a subject that cannot do it.
			c.print(Result{Schema: WorkSchema, Loop: name, Params: values, Errors: map[string]int64{DiskFull: 1}})
		}
		return c.fail(fault.Op("work "+name, classed(err)))
	}
	switch {
	case *stage != StageRun:
		return ExitOK
	case *asJSON:
		return c.print(res)
	}
	for _, v := range res.Values {
		fmt.Fprintf(c.stdout, "%s %g %s\n", v.Metric, v.Value, v.Unit)
	}
	return ExitOK
}

// diskFull tells that an operation found no space.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// stage runs one stage of the loop; only StageRun has a result.
func (l Loop) stage(stage string, p param.Values, env Env) (Result, error) {
	ctx, stop := interruptible()
	defer stop()
	switch stage {
	case StageRun:
		return l.measured(func() (Result, error) { return l.Run(ctx, p, env) }, p)
	case StagePrepare:
		if l.Prepare != nil {
			return Result{}, l.Prepare(ctx, p, env)
		}
		return Result{}, nil
	case StageReset:
		if l.Reset != nil {
			return Result{}, l.Reset(ctx, p, env)
		}
		return Result{}, nil
	}
	return Result{}, usageError("%q is not a stage; write prepare, reset or run", stage)
}

// measured runs the loop between two readings of the system's counters and
// adds what the agent knows of itself.
func (l Loop) measured(run func() (Result, error), p param.Values) (Result, error) {
	before := probe.ReadHost(nil)
	res, err := run()
	after := probe.ReadHost(nil)
	if err != nil {
		return res, err
	}
	res.Schema, res.Loop, res.Params = WorkSchema, l.Name, p
	res.Counters = &Span{Before: before, After: after}
	if u, err := probe.Process(); err == nil {
		res.Usage = &u
	}
	return res, nil
}
