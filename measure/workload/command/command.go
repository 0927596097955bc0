// Package command measures any command line of the user's: its time, its CPU,
// its memory, how it ends, and a number out of what it prints. It does for
// whole environments what hyperfine does for commands:
//
//	cells:
//	  - name: unpack
//	    workload: command
//	    params:
//	      argv: [tar, -xf, /data/linux.tar, -C, out]
//	      reset: [mkdir, out]
//	      cleanup: [rm, -r, out]
//	      dir: /data
//	    primary: true
//	  - name: bench
//	    workload: command
//	    params:
//	      argv: [sysbench, cpu, run]
//	      score: 'regexp:events per second: +([0-9.]+)'
//	    primary: [score]
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/workload"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// New returns the workload.
func New() workload.Workload { return command{} }

type command struct{}

// The blobs of a trial, each an wire.ExecResult.
const (
	execBlob    = "exec.json"
	cleanupBlob = "cleanup.json" // where there is a cleanup
)

func (command) Doc() workload.Doc {
	metric := func(name, unit string, better sample.Better, doc string) sample.Metric {
		return sample.Metric{Name: name, Unit: unit, Better: better, Scale: sample.Ratio, Doc: doc}
	}
	wall := metric("wall", "s", sample.Lower, "from the start of the command to its end, on the clock of the environment")
	wall.Primary = true
	cpu := metric("cpu", "s", sample.Lower, "user and system time of the command and its children, as the environment's kernel counts it; absent where that counts in ticks")
	cpu.CPUTime = true
	return workload.Doc{
		Name: "command", Parser: 3, // 2: no share is told by ticks, and none is needed without a cleanup; 3: failures quote two lines
		Summary: "Any command line: its time, CPU and memory, and a number out of what it prints",
		Metrics: []sample.Metric{
			wall,
			cpu,
			metric("memory", "B", sample.Lower, "largest resident set of one of its processes"),
			metric("score", "1", sample.Higher, "the number that the parameter score finds: larger is better"),
			metric("cost", "1", sample.Lower, "the number that the parameter cost finds: smaller is better"),
			workload.CPUPerOp,
			workload.JoulesPerOp,
		},
		Params: params(),
		Within: "dir",
		State:  "carried",
		Cache:  "as the parameter reset leaves it",
		Time: func(p param.Values) time.Duration {
			return p.Duration("estimate") + 100*time.Millisecond
		},
		Source: []string{
			"hyperfine does this for commands on one system; here the same command runs in every environment. wait4(2) and getrusage(2) tell what it spent.",
		},
	}
}

func params() []param.Spec {
	list := func(name, doc string) param.Spec {
		return param.Spec{Name: name, Kind: param.List, Doc: doc}
	}
	const finds = ": last-line (the last number of the last line), regexp:RE (the group of its first match in the last line that matches), or json:PATH ($.a.b[0]); of its standard output"
	argv := list("argv", "the command and its arguments; no shell reads them")
	argv.Required = true
	return []param.Spec{
		argv,
		list("prepare", "a command that runs once in each environment beforehand"),
		list("reset", "a command that runs before each trial"),
		list("cleanup", "a command that runs after each trial"),
		list("env", "NAME=VALUE, added to the environment of all of them"),
		{Name: "dir", Kind: param.Text, Doc: "the declared path of a volume to run them in; without it a directory of their own"},
		{Name: "exit", Kind: param.Text, Default: "0", Doc: "the exit code that is right, or any"},
		{Name: "score", Kind: param.Text, Doc: "where the metric score is" + finds},
		{Name: "cost", Kind: param.Text, Doc: "where the metric cost is" + finds},
		{Name: "seconds", Kind: param.Text, Doc: "where the command says how many seconds it measured, in what it prints to either stream; one that says its CPU time fails the gate cpu-time"},
		{Name: "timeout", Kind: param.Duration, Default: "10m0s", Doc: "after this a command is killed, and has failed"},
		{Name: "estimate", Kind: param.Duration, Default: "5s", Doc: "how long the command is expected to take, for the plan"},
	}
}

// check refuses parameters that no kind can describe, before anything runs.
func check(p param.Values) error {
	if len(p.List("argv")) == 0 || p.List("argv")[0] == "" {
		return fault.New(fault.Invalid, "command: argv is empty; write argv: [program, argument]")
	}
	if e := p.Text("exit"); e != "any" {
		if n, err := strconv.Atoi(e); err != nil || n < 0 || n > 255 {
			return fault.New(fault.Invalid, "command: exit=%q is no exit code; write a number from 0 to 255, or any", e)
		}
	}
	for _, env := range p.List("env") {
		if name, _, ok := strings.Cut(env, "="); !ok || name == "" {
			return fault.New(fault.Invalid, "command: env has %q; write NAME=VALUE", env)
		}
	}
	for _, name := range []string{"score", "cost", "seconds"} {
		if p.Text(name) == "" {
			continue
		}
		if _, err := newExtractor(p.Text(name)); err != nil {
			return fault.Wrap(fault.Invalid, "command: "+name, err)
		}
	}
	return nil
}

// Check is check, for workload.Checker.
func (command) Check(p param.Values) error { return check(p) }

// Files is the program that runs first, for workload.Finder: the others may be
// what it makes. Where the lab file sets a PATH, only that knows the program.
func (command) Files(p param.Values) []workload.File {
	if slices.ContainsFunc(p.List("env"), func(e string) bool { return strings.HasPrefix(e, "PATH=") }) {
		return nil
	}
	for _, name := range []string{"prepare", "reset", "argv"} {
		argv := p.List(name)
		if len(argv) == 0 {
			continue
		}
		if program := argv[0]; path.IsAbs(program) || program != "" && !strings.Contains(program, "/") {
			return []workload.File{{Param: name, Path: program}}
		}
		return nil
	}
	return nil
}

func (command) Prepare(ctx context.Context, t workload.Target, p param.Values) error {
	if err := check(p); err != nil {
		return err
	}
	_, err := aside(ctx, t, p, "prepare")
	return err
}

func (command) Reset(ctx context.Context, t workload.Target, p param.Values) error {
	_, err := aside(ctx, t, p, "reset")
	return err
}

// Run runs the command, and the cleanup even when the command failed.
func (command) Run(ctx context.Context, t workload.Target, p param.Values) (workload.Raw, error) {
	raw := workload.Raw{}
	out, said, err := run(ctx, t, p, "argv")
	if len(out) > 0 {
		raw[execBlob] = out
	}
	if len(said) > 0 {
		raw[workload.Stderr] = said
	}
	if ctx.Err() != nil {
		return raw, err
	}
	cleaned, cleanErr := aside(ctx, t, p, "cleanup")
	if len(cleaned) > 0 {
		raw[cleanupBlob] = cleaned
	}
	if err == nil {
		err = cleanErr
	}
	return raw, err
}

// aside runs a command that is not measured; it must end with 0.
func aside(ctx context.Context, t workload.Target, p param.Values, name string) ([]byte, error) {
	if len(p.List(name)) == 0 {
		return nil, nil
	}
	out, _, err := run(ctx, t, p, name)
	if err != nil {
		return out, err
	}
	res, err := decode(out)
	if err != nil {
		return out, fault.Wrap(fault.Lab, "command: "+name, err)
	}
	if res.Code != 0 {
		return out, fault.New(fault.Subject, "command: %s: %q ended with %s%s", name, res.Argv[0], ended(res), quoted(res.Stderr))
	}
	return out, nil
}

// run runs the command that the parameter called name holds, through the
// agent, and returns the agent's result and what it said to people.
func run(ctx context.Context, t workload.Target, p param.Values, name string) (stdout, stderr []byte, err error) {
	op := "command: " + name
	info := t.Subject.Info()
	dir := info.Scratch
	if v := p.Text("dir"); v != "" {
		var ok bool
		if dir, ok = info.Volumes[v]; !ok {
			return nil, nil, fault.WithFix(fault.New(fault.Unsupported, "%s: the contender declares no volume %s", op, v),
				fmt.Sprintf("write volumes: {%s: {backing: …, size: …}}", v))
		}
	}
	limit := p.Duration("timeout")
	ctx, cancel := context.WithTimeoutCause(ctx, limit+time.Minute, errTooLong)
	defer cancel()
	argv := []string{info.Agent, "exec", "--json", "--dir", dir, "--timeout", limit.String(), "--"}
	out, said := &limited{limit: 8 << 20}, &limited{limit: 64 << 10}
	exit, err := t.Subject.Exec(ctx, conn.Cmd{
		Argv: append(argv, p.List(name)...), Env: p.List("env"), Stdout: out, Stderr: said,
	})
	switch {
	case errors.Is(context.Cause(ctx), errTooLong):
		err = fault.New(fault.Subject, "%s: the agent did not answer a minute after its timeout of %v", op, limit)
	case fault.Is(err, fault.NotFound):
		err = fault.Wrap(fault.Lab, op, fmt.Errorf("the agent is missing in the environment: %w", err))
	case err != nil:
		err = fault.Op(op, err)
	case exit.Code == wire.ExitNotFound, exit.Code == wire.ExitSubject:
		err = fault.New(fault.Subject, "%s: it cannot be started%s", op, quoted(said.buf.Bytes()))
	case exit.Signal != "" || exit.Code > 128:
		err = fault.New(fault.Subject, "%s: the agent was ended by %s%s", op, exit, quoted(said.buf.Bytes()))
	case !exit.OK():
		err = fault.New(fault.Lab, "%s: the agent ended with %s%s", op, exit, quoted(said.buf.Bytes()))
	}
	return out.buf.Bytes(), said.buf.Bytes(), err
}

var errTooLong = errors.New("the agent's own deadline passed")

// limited keeps the first limit bytes written to it and takes the rest.
type limited struct {
	buf   bytes.Buffer
	limit int
}

var _ io.Writer = (*limited)(nil)

func (l *limited) Write(p []byte) (int, error) {
	l.buf.Write(p[:min(len(p), l.limit-l.buf.Len())])
	return len(p), nil
}
