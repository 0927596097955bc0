package vm

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/sleep"
	"bakeoff/provision/driver/jail"
	"bakeoff/provision/guest"
	"bakeoff/provision/guest/bhyve"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
)

// answerTime bounds the time until the agent in a machine answers: one that boots under
// emulation on a busy host is slow. Tests shorten it.
var answerTime = 3 * time.Minute

// Agent connects to the agent in a machine that runs. Nobody else can until the connection is
// closed. In a jail, each connection has an agent of its own.
func (g *Guest) Agent(ctx context.Context) (*channel.Conn, error) {
	bounded, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var rw io.ReadWriteCloser
	var err error
	switch {
	case g.Driver == manifest.Firecracker:
		rw, err = g.dialFirecracker(bounded)
	case g.Driver == manifest.DriverBhyve:
		rw, err = g.store.Host.Dial(ctx, "unix", g.Path(bhyve.SocketAgent))
	case jailed(g.Guest):
		rw, err = jail.Connect(ctx, g.store.Host, label(g.UUID))
	default:
		rw, err = qemu.DialAgentAt(ctx, g.store.dirOf(g.UUID))
	}
	if err != nil && bounded.Err() == nil {
		return nil, fault.Wrap(fault.Subject, "guest "+g.name(), err)
	}
	var c *channel.Conn
	if err == nil {
		c, err = channel.Open(bounded, rw, channel.Options{Reason: func() error { return g.ended(ctx) }})
	}
	if err != nil && ctx.Err() == nil && errors.Is(bounded.Err(), context.DeadlineExceeded) {
		console := "its console is empty"
		if said := guest.Excerpt([]byte(tailOf(g.ConsoleLog(), 16<<10))); said != "" {
			console = "the end of its console:\n" + said
		}
		fix := "run `bakeoff vm logs " + g.UUID + "`"
		if g.Driver == manifest.DriverBhyve {
			fix = "let the system of the guest run bakeoff-agent serve /dev/vtcon/" + bhyve.PortName +
				" (on Linux /dev/virtio-ports/" + bhyve.PortName + ") when it boots"
		}
		err = fault.WithFix(fault.New(fault.Subject, "the agent in guest %s did not answer within %v: the guest does not "+
			"boot, or another command uses its agent; %s", g.name(), answerTime, console), fix)
	}
	return c, err
}

// ended says why the guest has ended; nil while it runs. It waits for its supervisor for a
// short time, until ctx ends.
func (g *Guest) ended(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	for {
		now := *g
		if err := now.refresh(); err != nil || now.State != Running {
			return fault.New(fault.Subject, "guest %s is no longer running: it is %s %s", now.name(), now.State, now.Why)
		}
		if sleep.For(ctx, endStep) != nil {
			return nil
		}
	}
}

// How long a supervisor may take to write down that its guest has ended, and how often that is
// looked for.
const (
	endTime = 5 * time.Second
	endStep = 10 * time.Millisecond
)

// answering is the way into a machine or a jail whose agent answers: each operation has a
// connection of its own.
type answering struct{ g *Guest }

func (a answering) with(ctx context.Context, do func(*channel.Conn) error) error {
	c, err := a.g.Agent(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.Close())
}

// Exec runs a program in the machine.
func (a answering) Exec(ctx context.Context, cmd conn.Cmd) (exit conn.Exit, err error) {
	err = a.with(ctx, func(c *channel.Conn) (err error) { exit, err = c.Exec(ctx, cmd); return err })
	return exit, err
}

// Push writes a file in the machine.
func (a answering) Push(ctx context.Context, dst string, mode fs.FileMode, src io.Reader) error {
	return a.with(ctx, func(c *channel.Conn) error { return c.Push(ctx, dst, mode, src) })
}

// Pull reads a file of the machine.
func (a answering) Pull(ctx context.Context, src string, dst io.Writer) error {
	return a.with(ctx, func(c *channel.Conn) error { return c.Pull(ctx, src, dst) })
}

// Dial opens a connection from inside the machine.
func (a answering) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := a.g.Agent(ctx)
	if err != nil {
		return nil, err
	}
	to, err := c.Dial(ctx, network, address)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return dialed{to, c}, nil
}

// dialed is a connection that has the agent until it is closed.
type dialed struct {
	net.Conn
	c *channel.Conn
}

// Close ends both.
func (d dialed) Close() error { return errors.Join(d.Conn.Close(), d.c.Close()) }
