// Package fake is a simulated host: a conn.Conn that answers the commands of a
// technology which this machine does not have.
//
// It serves the contract suite of drivers that cannot run on a Linux test
// machine, and it is strict: it refuses unknown programs, flags that the manual
// does not name, and commands in the wrong order. It keeps its state in a file,
// because environments survive a killed controller. Programs inside an
// environment really run, below a root of their own on this machine.
//
// A driver that passes here has been compared only with the manuals, and only
// as we read them. That is why it is called unproven.
package fake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// Program is a command of the fake. It returns its exit code.
type Program func(c *Call) int

// Call is one execution of a command.
type Call struct {
	conn.Cmd
	Ctx  context.Context
	Host *Host
	// exit is how the program ended that Real or Command ran.
	exit conn.Exit
}

// Failf writes the reason to standard error and returns the exit code 1.
func (c *Call) Failf(format string, args ...any) int {
	if c.Stderr != nil {
		fmt.Fprintf(c.Stderr, "%s: %s\n", filepath.Base(c.Argv[0]), fmt.Sprintf(format, args...))
	}
	return 1
}

// Printf writes to standard output.
func (c *Call) Printf(format string, args ...any) {
	if c.Stdout != nil {
		fmt.Fprintf(c.Stdout, format, args...)
	}
}

// Real runs argv on this machine with the call's streams, for commands that are
// the same on both systems.
func (c *Call) Real(argv ...string) int {
	return c.run(local.Conn{}, c.Ctx, argv)
}

// Command runs argv, which is a command of the fake, with the call's streams: for commands
// that execute what follows them. ctx may carry what the inner command is to know.
func (c *Call) Command(ctx context.Context, argv ...string) int { return c.run(c.Host, ctx, argv) }

func (c *Call) run(on conn.Conn, ctx context.Context, argv []string) int {
	cmd := c.Cmd
	cmd.Argv = argv
	exit, err := on.Exec(ctx, cmd)
	if err != nil {
		return c.Failf("%v", err)
	}
	c.exit = exit
	return exit.Code
}

// Host is the simulated machine.
type Host struct {
	// Dir holds the state, on this machine.
	Dir string
	// Programs are the commands by name. Passed are commands of this machine
	// that the fake has unchanged.
	Programs map[string]Program
	Passed   []string
	// Links maps addresses inside an environment ("tcp 100.64.1.3:7311") to
	// addresses on this machine ("unix /path").
	Links func(network, address string) (string, string, bool)

	mute   atomic.Bool // what is started in environments says nothing
	mu     sync.Mutex
	calls  [][]string
	broken func(n int, argv []string) (before, after bool)
}

var _ conn.Conn = (*Host)(nil)

// Calls returns the executed commands, in order of their start.
func (h *Host) Calls() [][]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls)
}

// KillAt kills this process, as kill -9 does, before the n-th command from now
// starts: between two commands, so that it does not interrupt the fake's own
// work.
func (h *Host) KillAt(n int) {
	n += len(h.Calls())
	h.breakAt(func(call int, _ []string) (before, after bool) {
		if call != n {
			return false, false
		}
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			self.Kill()
		}
		select {} // the signal comes
	})
}

// Exec runs a command of the fake.
func (h *Host) Exec(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	if err := ctx.Err(); err != nil {
		return conn.Exit{}, fault.Op("exec", err)
	}
	h.mu.Lock()
	n, broken := len(h.calls), h.broken
	h.calls = append(h.calls, cmd.Argv)
	h.mu.Unlock()
	var before, after bool
	if broken != nil {
		before, after = broken(n, cmd.Argv)
	}
	if before {
		return conn.Exit{}, fault.New(fault.Lab, "exec %s: the connection to the host broke", cmd.Argv[0])
	}
	exit, err := h.run(ctx, cmd)
	if after && err == nil {
		return conn.Exit{}, fault.New(fault.Lab, "exec %s: the connection to the host broke before the answer came",
			cmd.Argv[0])
	}
	return exit, err
}

func (h *Host) run(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	name := filepath.Base(cmd.Argv[0])
	if slices.Contains(h.Passed, name) {
		return local.Conn{}.Exec(ctx, cmd)
	}
	program, ok := h.Programs[name]
	if !ok {
		return conn.Exit{}, fault.New(fault.NotFound, "exec %s: this host has no such program", cmd.Argv[0])
	}
	code := make(chan int, 1)
	// Streams belong to the caller again once Exec has returned.
	gate := &gate{}
	cmd.Stdout, cmd.Stderr = gate.writer(cmd.Stdout), gate.writer(cmd.Stderr)
	call := &Call{Cmd: cmd, Ctx: ctx, Host: h}
	go func() { code <- program(call) }()
	select {
	case c := <-code:
		if err := ctx.Err(); err != nil {
			return conn.Exit{}, fault.Op("exec "+cmd.Argv[0], err)
		}
		if call.exit.Code == c {
			return call.exit, nil // with its signal
		}
		return conn.Exit{Code: c}, nil
	case <-ctx.Done():
	}
	select { // a command that takes effect does so in a moment
	case <-code:
	case <-time.After(20 * time.Second):
		gate.shut()
	}
	return conn.Exit{}, fault.Op("exec "+cmd.Argv[0], ctx.Err())
}

// gate keeps a program that outlives its Exec from the caller's streams.
type gate struct {
	mu   sync.Mutex
	over bool
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
}

func (g *gate) writer(w io.Writer) io.Writer {
	if w == nil {
		return nil
	}
	return gated{g, w}
}

type gated struct {
	g *gate
	w io.Writer
}

func (w gated) Write(p []byte) (int, error) {
	w.g.mu.Lock()
	over := w.g.over
	w.g.mu.Unlock()
	if over {
		return 0, io.ErrClosedPipe
	}
	return w.w.Write(p)
}

// Push, Pull and Dial reach this machine, which has the fake's directories;
// addresses that lead into an environment are followed.
func (h *Host) Push(ctx context.Context, dst string, mode fs.FileMode, src io.Reader) error {
	return local.Conn{}.Push(ctx, dst, mode, src)
}

// Pull reads a file.
func (h *Host) Pull(ctx context.Context, src string, dst io.Writer) error {
	return local.Conn{}.Pull(ctx, src, dst)
}

// Dial opens a connection.
func (h *Host) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if h.Links != nil {
		if n, a, ok := h.Links(network, address); ok {
			return local.Conn{}.Dial(ctx, n, a)
		}
	}
	if network != "unix" {
		return nil, fault.New(fault.Lab, "dial %s %s: no route to host", network, address)
	}
	return local.Conn{}.Dial(ctx, network, address)
}

// State reads the fake's state into v, runs f, and writes v back if f says
// so, while no other process does: a killed controller and the next share it.
func (h *Host) State(v any, f func() (changed bool)) error {
	path := filepath.Join(h.Dir, "state.json")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	held, err := lock.Wait(ctx, path+".lock")
	if err != nil {
		return err
	}
	defer held.Release()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !f() {
		return nil
	}
	if text, err = json.Marshal(v); err != nil {
		return err
	}
	return local.Conn{}.Push(context.Background(), path, 0o600, readerOf(text))
}
