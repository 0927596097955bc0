package agent

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/hostpath"
	"bakeoff/base/param"
	"bakeoff/reach/agent/command"
	"bakeoff/reach/loop"
	"bakeoff/reach/probe"
	"bakeoff/reach/wire"
)

// runWork is `work NAME [--json] [--dir D] [--stage S] [--hash-file F]
// [PARAM=VALUE…]`.
func runWork(c command.Call) int {
	if len(c.Args) == 0 || strings.HasPrefix(c.Args[0], "-") {
		return c.Fail(command.UsageError("work: no workload given; usage: work NAME [--json] [--dir D] [PARAM=VALUE…]"))
	}
	name := c.Args[0]
	f, asJSON := c.Flags("work")
	dir := f.String("dir", "", "a directory the workload may write to")
	stage := f.String("stage", wire.StageRun, "prepare, reset or run")
	remembered := f.String("hash-file", "", "a file of this environment's own that remembers the agent's hash")
	if err := f.Parse(c.Args[1:]); err != nil {
		return wire.ExitInvalid
	}
	i := slices.IndexFunc(c.Loops, func(l loop.Loop) bool { return l.Name == name })
	if i < 0 {
		return c.Fail(command.UsageError("work: unknown native workload %q; run `bakeoff-agent list`", name))
	}
	l := c.Loops[i]
	values, err := param.ParseArgs(l.Params, f.Args())
	if err == nil && l.Check != nil {
		err = l.Check(values)
	}
	if err != nil {
		return c.Fail(fault.Wrap(fault.Invalid, "work "+name, err))
	}
	env := loop.Env{Dir: hostpath.Local(*dir), Log: c.Stderr}
	if *remembered != "" {
		*remembered = hostpath.Local(*remembered)
		env.Scratch = filepath.Dir(*remembered)
	}
	res, err := runStage(l, *stage, values, env)
	if err == nil && *stage == wire.StageRun {
		res.Agent, err = HashOnce(*remembered)
		err = fault.Wrap(fault.Lab, "hash the agent", err)
	}
	if err != nil {
		if *asJSON && *stage == wire.StageRun && noSpace(err) {
			// The trial failed; a gate distinguishes a full volume
			// from other failures.
			c.Print(wire.Result{Schema: wire.WorkSchema, Loop: name, Params: values, Errors: map[string]int64{wire.DiskFull: 1}})
		}
		return c.Fail(fault.Op("work "+name, command.Classed(err)))
	}
	switch {
	case *stage != wire.StageRun:
		return wire.ExitOK
	case *asJSON:
		return c.Print(res)
	}
	for _, v := range res.Values {
		fmt.Fprintf(c.Stdout, "%s %g %s\n", v.Metric, v.Value, v.Unit)
	}
	return wire.ExitOK
}

// runStage runs one stage of a loop; only wire.StageRun has a result.
func runStage(l loop.Loop, stage string, p param.Values, env loop.Env) (wire.Result, error) {
	ctx, stop := command.Interruptible()
	defer stop()
	switch stage {
	case wire.StageRun:
		return measured(l, func() (wire.Result, error) { return l.Run(ctx, p, env) }, p)
	case wire.StagePrepare:
		if l.Prepare != nil {
			return wire.Result{}, l.Prepare(ctx, p, env)
		}
		return wire.Result{}, nil
	case wire.StageReset:
		if l.Reset != nil {
			return wire.Result{}, l.Reset(ctx, p, env)
		}
		return wire.Result{}, nil
	}
	return wire.Result{}, command.UsageError("unknown stage %q; write prepare, reset or run", stage)
}

// measured runs the loop between two readings of the system's counters, and
// adds the agent's own data.
func measured(l loop.Loop, run func() (wire.Result, error), p param.Values) (wire.Result, error) {
	probe.AccountChildren()
	before := probe.ReadHere()
	res, err := run()
	after := probe.ReadHere()
	if err != nil {
		return res, err
	}
	res.Schema, res.Loop, res.Params = wire.WorkSchema, l.Name, p
	res.Counters = &wire.Span{Before: before, After: after}
	if u, err := probe.Process(); err == nil {
		res.Usage = &u
	}
	return res, nil
}
