package isolation

import (
	"bytes"
	"context"
	"io"
	"strings"
	"time"

	"bakeoff/base/fault"
	agentcontainer "bakeoff/reach/agent/container"
	"bakeoff/reach/agent/setup"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/nsenter"
	"bakeoff/reach/wire"
)

// Program is a program of the host that creates an environment, or the first
// program of one.
type Program struct {
	// Netns and Group tell that it starts in the network namespace and in the
	// control group of the environment.
	Netns, Group bool
	Env          []string // variables, as NAME=VALUE, besides those of the host
	// Flags are flags of `bakeoff-agent enter` for what else it needs.
	Flags []string
	Argv  []string
}

// flags are all flags of `enter`.
func (p Program) flags(e *Env) []string {
	var out []string
	if p.Netns {
		out = append(out, "--netns", e.Netns())
	}
	if p.Group {
		out = append(out, e.Group.EnterArgs()...)
	}
	for _, v := range p.Env {
		out = append(out, "--env", v)
	}
	return append(out, p.Flags...)
}

// SetUpThen creates what g describes and then lets run execute a command line on
// a connection to the host, which starts p. On another machine one process does
// both: starting another program would take as long as the whole setup. On the
// controller's own machine an `enter` starts during the setup and waits for its
// end. A program without Flags starts when the setup has ended, which is sooner
// than `enter` could execute it.
func (e *Env) SetUpThen(ctx context.Context, g wire.Setup, run func(conn.Conn, conn.Cmd) error, p Program) error {
	done := func() error { return nil }
	host, args := e.Host, append(append(p.flags(e), "--"), p.Argv...)
	var cmd conn.Cmd
	var err error
	if l, ok := host.(local.Conn); !ok {
		cmd, err = setup.Command(g, e.Spec.Agent, args...)
	} else if e.Start(g); len(p.Flags) == 0 {
		if err = e.begun(); err == nil {
			host, cmd, err = e.direct(l, p)
		}
	} else {
		done = e.begun
		cmd = conn.Command(append([]string{e.Spec.Agent, "enter", "--await"}, args...)...)
		cmd.Stdin = after{done, strings.NewReader(nsenter.Ready)}
	}
	if err != nil {
		return err
	}
	if e.Group != nil {
		cmd.Group = e.Group.StartDir()
	}
	err = run(host, cmd)
	if serr := done(); serr != nil {
		return serr // which is why the program could not start
	}
	if err != nil {
		return err
	}
	return e.tune(ctx)
}

// direct returns how the controller starts p on its own machine without an agent:
// the thread that starts programs is in the network namespace meanwhile, and a
// shell joins the control group and becomes the program. A shell starts in a
// third of an agent's time.
//
// The thread does not join the group as well, although that would save the shell.
// A group of version 1 with one thread of the controller lists the controller as
// its process. Whoever kills the group at that moment kills the controller: a
// Close after the creation was canceled, for instance. And a thread that cannot
// leave the group again could be frozen with it. The child between fork and exec
// shares the controller's memory, while the group's limit already applies to it.
func (e *Env) direct(host local.Conn, p Program) (_ conn.Conn, cmd conn.Cmd, err error) {
	if p.Netns {
		host.Netns = e.Netns()
	}
	cmd = conn.Cmd{Argv: p.Argv, Env: p.Env}
	if p.Group {
		cmd.Argv, err = e.Group.Join(p.Argv)
	}
	return host, cmd, err
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
	return e.SetUpThen(ctx, g, func(host conn.Conn, cmd conn.Cmd) error {
		said := conn.Tail{Limit: 4 << 10}
		cmd.Stderr = &said
		exit, err := agentcontainer.Entered(cmd, func(cmd conn.Cmd) (conn.Exit, error) { return host.Exec(life, cmd) })
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
