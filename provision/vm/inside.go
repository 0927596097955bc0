package vm

import (
	"context"
	"io"
	"path/filepath"

	"bakeoff/base/fault"
	"bakeoff/provision/isolation"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/conn"
)

// Label is the name of the guest's control group.
func (g *Guest) Label() string { return label(g.UUID) }

// Folder is the folder of this machine with the root of a container and what runs it.
func (g *Guest) Folder() string { return g.store.envDir(g.UUID) }

// WrittenRoot is the folder of this machine with what a container has written, which may be missing.
func (g *Guest) WrittenRoot(ctx context.Context) (string, error) {
	dir, err := g.written(ctx)
	return filepath.Join(dir, isolation.Upper), err
}

// Inside is the way into a guest that runs. Programs in a container have the environment of
// the image, as with Exec. A machine serves one operation after the other.
func (g *Guest) Inside() (conn.Conn, error) {
	var b Boot
	if err := readJSON(g.Path(fileBoot), &b); err != nil {
		return nil, err
	}
	agent := b.Agent || g.Driver == manifest.DriverBhyve // its console has a port for an agent
	if b.Container == nil && !agent {
		return nil, fault.WithFix(fault.New(fault.Unsupported, "guest %s is a machine without bakeoff's agent, so bakeoff "+
			"starts no program in it", g.UUID), "create the guest from a service folder or a container image, or reach "+
			"it by SSH: with `bakeoff vm ssh`, or as a contender with driver: machine")
	}
	if err := g.mustRun(); err != nil {
		return nil, err
	}
	if agent {
		return answering{g}, nil
	}
	if jailed(g.Guest) {
		return inside{answering{g}, g, *b.Container}, nil
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
		return exit, fault.New(fault.Subject, "guest %s is no longer running: it is %s %s", now.name(), now.State, now.Why)
	}
	return exit, err
}

// Terminal runs a program in a terminal of its own in a guest that runs. keys has the messages
// of package wire, the size first.
func (g *Guest) Terminal(ctx context.Context, argv, env []string, keys io.Reader, out io.Writer) (conn.Exit, error) {
	agent := isolation.AgentPath
	if g.Driver == manifest.DriverBhyve {
		return conn.Exit{}, fault.WithFix(fault.New(fault.Unsupported, "guest %s runs in bhyve; a terminal needs "+
			"the agent in the guest, and bakeoff does not know the path of the agent", g.name()), "leave out -t, or "+
			"use `bakeoff vm console`")
	}
	if g.Brand.Machine() {
		agent = "/proc/1/exe" // wherever it started from
	}
	return g.Exec(ctx, conn.Cmd{Argv: append([]string{agent, "terminal", "--"}, argv...), Env: env, Stdin: keys,
		Stdout: out, Stderr: out})
}

// Exec runs a program in a guest that runs.
func (g *Guest) Exec(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	at, err := g.Inside()
	if err != nil {
		return conn.Exit{}, err
	}
	if in, ok := at.(inside); ok && cmd.Dir == "" {
		cmd.Dir = in.c.Start.Dir
	}
	return at.Exec(ctx, cmd)
}
