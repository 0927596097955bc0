package confine

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/reach/agent"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/enter"
	"bakeoff/reach/wire"
)

// Program is a program of the host that creates an environment, or the first
// program of one.
type Program struct {
	// Flags are the flags of `bakeoff-agent enter` that it is started with. A
	// program without flags starts without `enter` on the controller's own machine.
	Flags []string
	Argv  []string
}

// args are the arguments of `enter`.
func (p Program) args() []string { return append(append(slices.Clone(p.Flags), "--"), p.Argv...) }

// SetUpThen creates what g describes and then lets run execute a command line
// that starts p. On another machine one process does both: starting another
// program would take as long as the whole setup. On the controller's own machine
// an `enter` starts during the setup and waits for its end. A program that does
// not need `enter` starts when the setup has ended, which is sooner than `enter`
// could execute it.
func (e *Env) SetUpThen(ctx context.Context, g wire.Setup, run func(conn.Cmd) error, p Program) error {
	cmd, done, err := e.started(g, p)
	if err != nil {
		return err
	}
	if e.Group != nil {
		cmd.Group = e.Group.StartDir()
	}
	err = run(cmd)
	if serr := done(); serr != nil {
		return serr // which is why the program could not start
	}
	if err != nil {
		return err
	}
	return e.tune(ctx)
}

// started returns the command line that starts p after the setup g. done waits
// for a setup that the command line does not do itself.
func (e *Env) started(g wire.Setup, p Program) (cmd conn.Cmd, done func() error, err error) {
	done = func() error { return nil }
	if _, ok := e.Host.(local.Conn); !ok {
		cmd, err = agent.SetupCommand(g, e.Spec.Agent, p.args()...)
		return cmd, done, err
	}
	e.Start(g)
	if len(p.Flags) == 0 {
		return conn.Command(p.Argv...), done, e.begun()
	}
	cmd = conn.Command(append([]string{e.Spec.Agent, "enter", "--await"}, p.args()...)...)
	cmd.Stdin = after{e.begun, strings.NewReader(enter.Ready)}
	return cmd, e.begun, nil
}

// after reads from a reader once done has returned without an error.
type after struct {
	done func() error
	io.Reader
}

func (a after) Read(p []byte) (int, error) {
	if err := a.done(); err != nil {
		return 0, err
	}
	return a.Reader.Read(p)
}

// SetUpThenRun is SetUpThen for a program that ends when its work is done. If
// it fails, the error is of kind fault.Lab and has its exit code and the end of
// its output.
//
// When ctx ends, the program has grace to end by itself: a runtime that goes on in the
// background, as a process without a parent, cannot be found and killed with it, and
// would create control groups while Close removes them.
func (e *Env) SetUpThenRun(ctx context.Context, g wire.Setup, p Program) error {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })()
	return e.SetUpThen(ctx, g, func(cmd conn.Cmd) error {
		said := conn.Tail{Limit: 4 << 10}
		cmd.Stderr = &said
		exit, err := agent.Entered(cmd, func(cmd conn.Cmd) (conn.Exit, error) { return e.Host.Exec(life, cmd) })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && !exit.OK() {
			err = fault.New(fault.Lab, "%v: %s", exit, bytes.TrimSpace(said.Bytes()))
		}
		return err
	}, p)
}

// grace is how long a runtime may take to start a container that is not needed any more.
const grace = 10 * time.Second
