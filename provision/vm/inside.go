package vm

import (
	"context"

	"bakeoff/base/fault"
	"bakeoff/provision/isolation"
	"bakeoff/reach/conn"
)

// Label is the name of the guest's control group.
func (g *Guest) Label() string { return label(g.UUID) }

// WrittenRoot is the folder of this machine with what a container has written.
func (g *Guest) WrittenRoot() string { return g.store.envDir(g.UUID) + "/" + isolation.Upper }

// Inside is the way into a container that runs. Programs have the environment of the image,
// as with Exec.
func (g *Guest) Inside() (conn.Conn, error) {
	if err := g.mustExec(); err != nil {
		return nil, err
	}
	var b Boot
	if err := readJSON(g.Path(fileBoot), &b); err != nil {
		return nil, err
	}
	return inside{isolation.Inside(g.store.Host, g.store.Agent, g.store.envDir(g.UUID)), g, *b.Container}, nil
}

type inside struct {
	conn.Conn
	g *Guest
	c Container
}

// Exec runs a program in the container. That the container has ended is an error of kind
// fault.Subject.
func (in inside) Exec(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	cmd.Env = append(in.c.Start.Env[:len(in.c.Start.Env):len(in.c.Start.Env)], cmd.Env...)
	exit, err := in.Conn.Exec(ctx, cmd)
	if err == nil || ctx.Err() != nil || fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid) {
		return exit, err
	}
	now := *in.g
	if rerr := now.refresh(); rerr != nil || now.State != Running {
		return exit, fault.New(fault.Subject, "guest %s does not run any more: it is %s %s", now.name(), now.State, now.Why)
	}
	return exit, err
}

// mustExec refuses a guest in which bakeoff starts no programs.
func (g *Guest) mustExec() error {
	if g.Brand.Machine() {
		return fault.WithFix(fault.New(fault.Unsupported, "%s is a machine: bakeoff starts no program in it",
			g.UUID), "use `bakeoff vm console`, or SSH")
	}
	return g.mustRun()
}

// Exec runs a program in a container that runs.
func (g *Guest) Exec(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	at, err := g.Inside()
	if err != nil {
		return conn.Exit{}, err
	}
	if in := at.(inside); cmd.Dir == "" {
		cmd.Dir = in.c.Start.Dir
	}
	return at.Exec(ctx, cmd)
}
