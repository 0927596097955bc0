package runner

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"bakeoff/base/param"
	"bakeoff/base/shell"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload/command"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// identifyTime bounds the time for hashing a program. An emulated machine reads some
// MB per second.
const identifyTime = time.Minute

// identify records in t.State which files the command starts. It asks the agent once
// per environment, because cells often have the same program.
func identify(ctx context.Context, t execution.Target, p param.Values) error {
	dir, err := workFolder(t, p)
	if err != nil {
		return err
	}
	program := program(t, p)
	key := "executable " + shell.Quote(append([]string{dir, program}, p.List("env")...)...)
	var facts map[string]string
	if _, ok := t.Shared[key]; ok {
		err = execution.Recall(t.Shared, key, &facts)
	} else {
		facts = command.Executable(askExecutable(ctx, t, p, dir, program))
		err = execution.Remember(t.Shared, key, facts)
	}
	if err != nil || ctx.Err() != nil {
		return err
	}
	return execution.Remember(t.State, stateKey, facts)
}

// stateKey is where identify keeps the facts of a trial.
const stateKey = "command.executable"

// askExecutable asks the agent which file program is. After a failure, the command is still measured:
// the result says why the file is not known.
func askExecutable(ctx context.Context, t execution.Target, p param.Values, dir, program string) wire.Executable {
	limited, cancel := context.WithTimeout(ctx, identifyTime)
	defer cancel()
	out, said := &conn.Head{Limit: 64 << 10}, &conn.Head{Limit: 1024}
	exit, err := t.Subject.Exec(limited, conn.Cmd{Env: p.List("env"), Stdout: out, Stderr: said,
		Argv: []string{t.Subject.Info().Agent, "probe", "executable", "--json", "--dir", dir, "--", program}})
	why := ""
	switch {
	case limited.Err() != nil:
		why = fmt.Sprintf("bakeoff-agent did not read it within %v", identifyTime)
	case err != nil:
		why = err.Error()
	case !exit.OK():
		why = fmt.Sprintf("bakeoff-agent ended with %s: %s", exit, bytes.TrimSpace(said.Bytes()))
	}
	if why == "" {
		x, err := wire.ParseExecutable(out.Bytes())
		if err == nil {
			return x
		}
		why = "the answer of bakeoff-agent cannot be read: " + err.Error()
	}
	return wire.Executable{Program: program, Unknown: why}
}
