// Package ssh is a conn.Conn to a machine that the OpenSSH client reaches.
//
// It runs the user's client with the user's configuration, so jump hosts,
// agents and names work as they do by hand. Host keys are always verified, and
// nothing is ever prompted for. In the first session a shell on the other side
// installs bakeoff-agent, which does everything else: it answers over one
// session, kills what it started when that session ends, and holds the lock of
// the machine meanwhile.
//
// A broken connection ends what runs with an error of kind fault.Lab. The next
// request reconnects, and waits a bounded time for the machine to come back: it
// may be rebooting.
package ssh

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"path"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/base/unit"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
	"bakeoff/reach/conn/local"
)

// Options say where a machine is and how to reach it.
type Options struct {
	Name   string // of the machine, for messages; "" is the target
	Target string // as ssh takes it: user@host, or a name in ~/.ssh/config
	Port   int    // 0: from the configuration
	// HostKey is the name under which ssh stores the host key; "" is the target's.
	HostKey string
	Config  string // replaces ~/.ssh/config; "" uses that file
	// Dir is the remote folder for the agent, state and caches; "" is
	// /var/lib/bakeoff and /var/cache/bakeoff for root, and the XDG folders
	// for a user.
	Dir string
	// Agent returns the local path of bakeoff-agent for a system.
	Agent func(goos, goarch string) (string, error)
	// Silence is how long the machine may give no answer; 0 is two minutes.
	Silence time.Duration
	// Patience bounds the wait for a machine that was connected before; 0 is
	// a minute more than Silence.
	Patience time.Duration
	// Progress receives a line for the user when something takes long; nil
	// discards it.
	Progress func(string)
	// Program is the OpenSSH client; "" is ssh. Local executes it; nil is
	// this machine.
	Program string
	Local   conn.Conn
}

func (o *Options) fill() error {
	if o.Target == "" || o.Target[0] == '-' {
		return fault.New(fault.Invalid, "ssh: invalid target %q; write user@host", o.Target)
	}
	o.Name = cmp.Or(o.Name, o.Target)
	o.Program = cmp.Or(o.Program, "ssh")
	if o.Local == nil {
		o.Local = local.Conn{}
	}
	if o.Silence <= 0 {
		o.Silence = 2 * time.Minute
	}
	if o.Patience <= 0 {
		o.Patience = o.Silence + time.Minute
	}
	if o.Dir != "" && !path.IsAbs(o.Dir) {
		return fault.New(fault.Invalid, "ssh: folder %q must be an absolute path", o.Dir)
	}
	if o.Agent == nil {
		return fault.New(fault.Invalid, "ssh: Options.Agent is missing")
	}
	return nil
}

func (o *Options) reportProgress(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

// Conn reaches a machine over SSH. Its methods may be called concurrently.
type Conn struct {
	o      Options
	client *client
	turn   chan struct{} // held while connecting
	s      *session      // the current one; guarded by turn
	closed bool
	held   held // carried over to the next session
	count  int  // of sessions
}

var (
	_ conn.Conn  = (*Conn)(nil)
	_ conn.Files = (*Conn)(nil)
)

// Open connects, without waiting for a machine that does not answer. A host key
// that is unknown or has changed, or a refused login, is an error of kind
// fault.Unsupported that says what helps. An unreachable machine is fault.Lab.
func Open(ctx context.Context, o Options) (*Conn, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	cl, err := newClient(o)
	if err != nil {
		return nil, err
	}
	c := &Conn{o: o, client: cl, turn: make(chan struct{}, 1), held: held{locks: map[string]lock.Owner{}}}
	if c.s, err = cl.connect(ctx, nil, held{}); err != nil {
		cl.close()
		return nil, err
	}
	return c, nil
}

// Close ends the session, including what still runs in it, closes the
// connection, and releases the machine's lock.
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

// Agent is the remote path of bakeoff-agent.
func (c *Conn) Agent() string { return c.lastSession().agent }

// Machine is the machine as the agent described it when it last connected.
func (c *Conn) Machine() channel.Machine { return c.lastSession().machine }

// StateDir is the remote folder for bakeoff's state.
func (c *Conn) StateDir() string { return c.lastSession().site.state }

// CacheDir is the remote folder for what can be rebuilt.
func (c *Conn) CacheDir() string { return c.lastSession().site.cache }

func (c *Conn) lastSession() *session {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	return c.s
}

// Exec runs a program; see conn.Conn.
func (c *Conn) Exec(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	if len(cmd.Argv) == 0 || cmd.Argv[0] == "" {
		return conn.Exit{}, fault.New(fault.Invalid, "exec: no program given")
	}
	var exit conn.Exit
	err := c.through(ctx, func(ch *channel.Conn) (err error) {
		exit, err = ch.Exec(ctx, cmd)
		return err
	})
	return exit, err
}

// through does something with the channel and classifies its error.
func (c *Conn) through(ctx context.Context, do func(ch *channel.Conn) error) error {
	ch, err := c.channel(ctx)
	if err != nil {
		return err
	}
	return c.labError(do(ch))
}

// Push writes a file; see conn.Conn.
func (c *Conn) Push(ctx context.Context, dst string, mode fs.FileMode, src io.Reader) error {
	if !path.IsAbs(dst) {
		return fault.New(fault.Invalid, "push %q: not an absolute path", dst)
	}
	return c.through(ctx, func(ch *channel.Conn) error { return ch.Push(ctx, dst, mode, src) })
}

// Pull reads a file; see conn.Conn.
func (c *Conn) Pull(ctx context.Context, src string, dst io.Writer) error {
	if !path.IsAbs(src) {
		return fault.New(fault.Invalid, "pull %q: not an absolute path", src)
	}
	return c.through(ctx, func(ch *channel.Conn) error { return ch.Pull(ctx, src, dst) })
}

// Dial opens a connection from the machine; see conn.Conn.
func (c *Conn) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var nc net.Conn
	err := c.through(ctx, func(ch *channel.Conn) (err error) {
		nc, err = ch.Dial(ctx, network, address)
		return err
	})
	return nc, err
}

// Counters reads the counters of the machine, for these CPUs; for all if none
// are given.
func (c *Conn) Counters(ctx context.Context, cpus []int) (facts.Counters, error) {
	var out facts.Counters
	err := c.through(ctx, func(ch *channel.Conn) (err error) {
		out, err = ch.Counters(ctx, cpus)
		return err
	})
	return out, err
}

// Session numbers the current session. What an earlier session started was
// killed at its end.
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
	if err := c.through(ctx, func(ch *channel.Conn) error { return ch.Settle(ctx, cpus) }); err != nil {
		return err
	}
	c.remember(func(h *held) { h.cpus = cpus })
	return nil
}

// CPUs are the ones that the agent was allowed to use when it connected.
func (c *Conn) CPUs() ([]int, error) { return c.Machine().CPUs, nil }

// Memory is the size of the machine's memory; 0 if unknown.
func (c *Conn) Memory() unit.Bytes { return c.Machine().Memory }

// HostLock is the file of the machine's lock, which its local runs also take; "" if there
// is none.
func (c *Conn) HostLock() string { return c.Machine().HostLock }

// Holder returns the process that holds the lock at path; nil if the lock is free.
func (c *Conn) Holder(ctx context.Context, path string) (by *lock.Holder, err error) {
	err = c.files(ctx, func(f channel.Files) error {
		by, err = f.Holder(ctx, path)
		return err
	})
	return by, err
}

// Lock takes a lock of the machine and holds it until release or Close. A new
// session takes it again, unless another process was faster. If another process
// holds it, the error is of kind fault.Unsupported. The error of release says that
// another process had it in the meantime.
func (c *Conn) Lock(ctx context.Context, path string, owner lock.Owner) (release func() error, err error) {
	if err := c.files(ctx, func(f channel.Files) error { return f.Lock(ctx, path, owner) }); err != nil {
		return nil, err
	}
	c.remember(func(h *held) { h.locks[path] = owner })
	return func() error {
		c.remember(func(h *held) { delete(h.locks, path) })
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err := c.files(bounded, func(f channel.Files) error { return f.Unlock(bounded, path) })
		if lock.Refused(err) {
			return err
		}
		return nil // the end of the agent also releases it
	}, nil
}

// held is the state that the next session must restore.
type held struct {
	cpus  []int                 // of the agent
	locks map[string]lock.Owner // by path
}

func (c *Conn) remember(change func(*held)) {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	change(&c.held)
}

// labError classifies an error: on a host, what the agent reports is a failure of
// the lab, not of a subject.
func (c *Conn) labError(err error) error {
	if fault.Is(err, fault.Subject) {
		return fault.Wrap(fault.Lab, "host "+c.o.Name, err)
	}
	return fault.Op("host "+c.o.Name, err)
}
