// Package ssh is a conn.Conn to a machine that OpenSSH's client reaches.
//
// The client is the user's own program with the user's own configuration, so
// that jump hosts, agents and names work as they do by hand; host keys are
// always verified, and nobody is ever asked for anything. Over the first
// session a shell on the other side takes in bakeoff-agent, which then does
// everything else: it answers over one session, kills what it started when
// that session ends, and holds the lock of the machine while it lasts.
//
// A connection that breaks ends what runs with an error of kind fault.Lab.
// The next request connects anew, and waits for the machine to come back for
// a bounded time: it may be rebooting.
package ssh

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"path"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/probe"
)

// Options say where a machine is and how it is reached.
type Options struct {
	Name   string // of the machine, for messages; "" is the target
	Target string // as ssh takes it: user@host, or a name in ~/.ssh/config
	Port   int    // 0: what the configuration says
	Config string // another file than ~/.ssh/config; "" for that
	// Dir is the folder over there for the agent, state and caches; "" is
	// /var/lib/bakeoff and /var/cache/bakeoff for root, and the XDG folders
	// of a user.
	Dir string
	// Agent returns the path here of bakeoff-agent for a system.
	Agent func(goos, goarch string) (string, error)
	// Patience bounds how long a machine that was there is waited for; 0 is
	// three minutes.
	Patience time.Duration
	// Progress receives a line for a person when something takes long; nil
	// discards.
	Progress func(string)
	// Program is OpenSSH's client; "" is ssh. Local executes it; nil is this
	// machine.
	Program string
	Local   conn.Conn
}

func (o *Options) fill() error {
	if o.Target == "" || o.Target[0] == '-' {
		return fault.New(fault.Invalid, "ssh: %q is no machine; write user@host", o.Target)
	}
	if o.Name == "" {
		o.Name = o.Target
	}
	if o.Program == "" {
		o.Program = "ssh"
	}
	if o.Local == nil {
		o.Local = local.Conn{}
	}
	if o.Patience <= 0 {
		o.Patience = 3 * time.Minute
	}
	if o.Dir != "" && !path.IsAbs(o.Dir) {
		return fault.New(fault.Invalid, "ssh: the folder %q is not absolute", o.Dir)
	}
	if o.Agent == nil {
		return fault.New(fault.Invalid, "ssh: nobody says where bakeoff-agent is")
	}
	return nil
}

func (o *Options) say(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

// Conn reaches a machine over SSH. Its methods may be called concurrently.
type Conn struct {
	o      Options
	client *client
	turn   chan struct{} // held by whoever connects
	s      *session      // the present one; guarded by turn
	closed bool
	held   held // for the next session too
	count  int  // of sessions
}

var (
	_ conn.Conn  = (*Conn)(nil)
	_ conn.Files = (*Conn)(nil)
)

// Open connects, once: a machine that does not answer is not waited for. A
// host key that is not known or has changed, or a user who is not let in, is
// an error of kind fault.Unsupported that says what would help; a machine
// that cannot be reached is fault.Lab.
func Open(ctx context.Context, o Options) (*Conn, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	cl, err := newClient(o)
	if err != nil {
		return nil, err
	}
	c := &Conn{o: o, client: cl, turn: make(chan struct{}, 1)}
	if c.s, err = cl.connect(ctx, nil, held{}); err != nil {
		cl.close()
		return nil, err
	}
	return c, nil
}

// Close ends the session, with what still runs in it, and the connection. The
// machine's lock is free afterwards.
func (c *Conn) Close() error {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	if c.closed {
		return nil
	}
	c.closed = true
	if c.s != nil {
		c.s.close()
	}
	return c.client.close()
}

// Agent is the path over there of bakeoff-agent.
func (c *Conn) Agent() string { return c.last().agent }

// Machine is what the agent said of the machine when it last connected.
func (c *Conn) Machine() channel.Machine { return c.last().machine }

// StateDir and CacheDir are folders of this program over there.
func (c *Conn) StateDir() string { return c.last().site.state }

// CacheDir is the folder for what can be made anew.
func (c *Conn) CacheDir() string { return c.last().site.cache }

func (c *Conn) last() *session {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	return c.s
}

// Exec runs a program; see conn.Conn.
func (c *Conn) Exec(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	if len(cmd.Argv) == 0 || cmd.Argv[0] == "" {
		return conn.Exit{}, fault.New(fault.Invalid, "exec: no program named")
	}
	ch, err := c.channel(ctx)
	if err != nil {
		return conn.Exit{}, err
	}
	exit, err := ch.Exec(ctx, cmd)
	return exit, c.ours(err)
}

// Push writes a file; see conn.Conn.
func (c *Conn) Push(ctx context.Context, dst string, mode fs.FileMode, src io.Reader) error {
	if !path.IsAbs(dst) {
		return fault.New(fault.Invalid, "push %q: not an absolute path", dst)
	}
	ch, err := c.channel(ctx)
	if err != nil {
		return err
	}
	return c.ours(ch.Push(ctx, dst, mode, src))
}

// Pull reads a file; see conn.Conn.
func (c *Conn) Pull(ctx context.Context, src string, dst io.Writer) error {
	if !path.IsAbs(src) {
		return fault.New(fault.Invalid, "pull %q: not an absolute path", src)
	}
	ch, err := c.channel(ctx)
	if err != nil {
		return err
	}
	return c.ours(ch.Pull(ctx, src, dst))
}

// Dial opens a connection from the machine; see conn.Conn.
func (c *Conn) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	ch, err := c.channel(ctx)
	if err != nil {
		return nil, err
	}
	nc, err := ch.Dial(ctx, network, address)
	return nc, c.ours(err)
}

// Counters reads the counters of the machine, of these CPUs; all without.
func (c *Conn) Counters(ctx context.Context, cpus []int) (probe.Counters, error) {
	ch, err := c.channel(ctx)
	if err != nil {
		return probe.Counters{}, err
	}
	out, err := ch.Counters(ctx, cpus)
	return out, c.ours(err)
}

// Session counts the sessions so far: what was started in an earlier one has
// been killed with it.
func (c *Conn) Session() int {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	if c.s.gone() {
		return c.count + 1
	}
	return c.count
}

// Settle moves the agent, and what it starts from then on, to cpus, so that
// it does not disturb what is measured.
func (c *Conn) Settle(ctx context.Context, cpus []int) error {
	ch, err := c.channel(ctx)
	if err != nil {
		return err
	}
	if err := ch.Settle(ctx, cpus); err != nil {
		return c.ours(err)
	}
	c.remember(func(h *held) { h.cpus = cpus })
	return nil
}

// CPUs are those that the agent found for itself when it first came.
func (c *Conn) CPUs() ([]int, error) { return c.Machine().CPUs, nil }

// Memory is what the machine has; 0 where its system does not tell.
func (c *Conn) Memory() unit.Bytes { return c.Machine().Memory }

// Lock takes the lock of the machine and holds it until release or Close,
// over a connection that breaks and comes again too, as long as nobody else
// was faster. Where another has it, the error is of kind fault.Unsupported.
func (c *Conn) Lock(ctx context.Context, path string) (release func(), err error) {
	if err := c.files(ctx, func(f channel.Files) error { return f.Lock(ctx, path) }); err != nil {
		return nil, err
	}
	c.remember(func(h *held) { h.lock = path })
	return func() {
		c.remember(func(h *held) { h.lock = "" })
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = c.files(bounded, func(f channel.Files) error { return f.Unlock(bounded, path) }) // it ends with the agent too
	}, nil
}

// held is what a session has that the next one must have again.
type held struct {
	cpus []int  // of the agent
	lock string // path of the machine's lock
}

func (c *Conn) remember(change func(*held)) {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	change(&c.held)
}

// ours classes an error: on a machine that is driven, what the agent reports
// is the laboratory's failure and no subject's.
func (c *Conn) ours(err error) error {
	if fault.Is(err, fault.Subject) {
		return fault.Wrap(fault.Lab, "host "+c.o.Name, err)
	}
	return fault.Op("host "+c.o.Name, err)
}
