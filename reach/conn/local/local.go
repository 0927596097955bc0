// Package local is a conn.Conn to the machine that this program runs on.
package local

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// Conn reaches this machine. The zero value is ready for use.
//
// Each program gets a process group of its own; on Linux it gets a session of
// its own and dies with this process.
type Conn struct {
	// Netns is the network namespace in which programs start and
	// connections open: a name (ip netns) or an absolute path; "" is that
	// of this process. Linux only.
	Netns string
	// CPUs are the ones on which programs may run; empty means no
	// restriction. Linux only.
	CPUs []int
}

// reapTime bounds how long Exec waits for a killed program to end.
const reapTime = 10 * time.Second

// Exec runs a program and waits for its end. Its output is what the program,
// and what it started, had written by then. A process that stays behind and
// keeps the streams open does not delay Exec, and must not write to them later.
// A Read of cmd.Stdin in progress may outlast Exec.
//
// When ctx ends first, Exec kills the process group and all descendants of the
// program, and returns ctx's error.
func (c Conn) Exec(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	if len(cmd.Argv) == 0 || cmd.Argv[0] == "" {
		return conn.Exit{}, fault.New(fault.Invalid, "exec: no program given")
	}
	op := "exec " + cmd.Argv[0]
	if err := ctx.Err(); err != nil {
		return conn.Exit{}, fault.Op(op, err)
	}
	p, err := c.command(cmd)
	if err != nil {
		return conn.Exit{}, fault.Op(op, err)
	}
	pipes, err := plumb(p, cmd)
	if err != nil {
		return conn.Exit{}, fault.Op(op, err)
	}
	defer pipes.close()
	done := StartIn(p.SysProcAttr, cmd.Group)
	err = Unbusy(func() error {
		err := start(p, c)
		if errors.Is(err, syscall.ETXTBSY) {
			p = again(p)
		}
		return err
	})
	done()
	if err != nil {
		return startFailed(op, cmd, err)
	}
	defer Release(p.Process.Pid)
	pipes.run()
	return wait(ctx, op, p, pipes)
}

// command looks the program up and sets what does not depend on streams.
func (c Conn) command(cmd conn.Cmd) (*exec.Cmd, error) {
	if cmd.Dir != "" {
		if s, err := os.Stat(cmd.Dir); err != nil || !s.IsDir() {
			return nil, fault.New(fault.Invalid, "working directory %q does not exist", cmd.Dir)
		}
	}
	p := exec.Command(cmd.Argv[0], cmd.Argv[1:]...)
	if p.Err != nil {
		if errors.Is(p.Err, exec.ErrNotFound) || errors.Is(p.Err, fs.ErrNotExist) {
			return nil, fault.Wrap(fault.NotFound, "", p.Err)
		}
		return nil, p.Err
	}
	p.Env = append(os.Environ(), cmd.Env...)
	p.Dir = cmd.Dir
	p.SysProcAttr = attributes()
	return p, nil
}

// busyTime bounds how long Unbusy waits.
const busyTime = time.Second

// Unbusy calls start until it fails with something else than ETXTBSY, for up to
// a second. A program that this process has just written is busy while a child
// that was forked in the middle of it has the file open, until that child
// executes its own program (golang.org/issue/22315).
func Unbusy(start func() error) error {
	end := time.Now().Add(busyTime)
	for pause := time.Millisecond; ; pause *= 2 {
		if err := start(); !errors.Is(err, syscall.ETXTBSY) || time.Now().After(end) {
			return err
		}
		time.Sleep(pause)
	}
}

// again is p before it was started: a Cmd starts once.
func again(p *exec.Cmd) *exec.Cmd {
	return &exec.Cmd{Path: p.Path, Args: p.Args, Env: p.Env, Dir: p.Dir, Stdin: p.Stdin,
		Stdout: p.Stdout, Stderr: p.Stderr,
		ExtraFiles: p.ExtraFiles, SysProcAttr: p.SysProcAttr}
}

// startFailed classifies an error of starting a program.
func startFailed(op string, cmd conn.Cmd, err error) (conn.Exit, error) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return conn.Exit{}, fault.Wrap(fault.NotFound, op, err)
	case NotExecutable(err):
		// As a shell does: found, but not executable.
		if cmd.Stderr != nil {
			io.WriteString(cmd.Stderr, err.Error()+"\n")
		}
		return conn.Exit{Code: 126}, nil
	}
	return conn.Exit{}, fault.Op(op, err)
}

// wait waits for the end of p or of ctx, whichever comes first.
func wait(ctx context.Context, op string, p *exec.Cmd, pipes *plumbing) (conn.Exit, error) {
	ended := make(chan error, 1)
	go func() { ended <- p.Wait() }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		select {
		case err = <-ended: // ended: its PID may belong to another process by now
		default:
			return kill(ctx, op, p, pipes, ended)
		}
	}
	if werr := pipes.drain(ctx); werr != nil {
		return EndOf(p.ProcessState), fault.Wrap(fault.Lab, op, werr)
	}
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		return conn.Exit{}, fault.Op(op, err)
	}
	return EndOf(p.ProcessState), nil
}

// kill ends a program after ctx has ended.
func kill(ctx context.Context, op string, p *exec.Cmd, pipes *plumbing, ended <-chan error) (conn.Exit, error) {
	KillTree(p.Process.Pid)
	select {
	case <-ended:
	case <-time.After(reapTime):
		return conn.Exit{}, fault.New(fault.Lab, "%s: process %d does not end after SIGKILL: %w", op, p.Process.Pid,
			ctx.Err())
	}
	pipes.stop()
	return EndOf(p.ProcessState), fault.Wrap(fault.Lab, op, ctx.Err())
}

// Push writes a temporary file next to dst and renames it, so that a reader
// sees either the old file or the new one.
func (c Conn) Push(ctx context.Context, dst string, mode fs.FileMode, src io.Reader) error {
	if !filepath.IsAbs(dst) {
		return fault.New(fault.Invalid, "push %q: not an absolute path", dst)
	}
	op := "push " + dst
	f, err := atomicfile.Create(dst, 0o600)
	if err != nil {
		return fault.Wrap(missing(err), op, err)
	}
	defer f.Discard()
	if _, err = io.Copy(f, until(ctx, src)); err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.CommitUnsynced()
	}
	return fault.Op(op, err)
}

// Pull reads a regular file.
func (c Conn) Pull(ctx context.Context, src string, dst io.Writer) error {
	if !filepath.IsAbs(src) {
		return fault.New(fault.Invalid, "pull %q: not an absolute path", src)
	}
	op := "pull " + src
	// A pipe without a writer is refused instead of blocking.
	f, err := os.OpenFile(src, os.O_RDONLY|NonBlocking, 0)
	if err != nil {
		return fault.Wrap(missing(err), op, err)
	}
	defer f.Close()
	if s, err := f.Stat(); err != nil || !s.Mode().IsRegular() {
		return fault.New(fault.Invalid, "%s: not a regular file", op)
	}
	_, err = io.Copy(dst, until(ctx, f))
	return fault.Op(op, err)
}

// Dial opens a connection in the Conn's network namespace. In another namespace
// the address must be numeric, or the path of a socket.
func (c Conn) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	nc, err := dialIn(ctx, c.Netns, network, address)
	return nc, fault.Op("dial "+network+" "+address, err)
}

// missing returns NotFound if err says that a file does not exist.
func missing(err error) fault.Kind {
	if errors.Is(err, fs.ErrNotExist) {
		return fault.NotFound
	}
	return fault.Of(err)
}

// reader is a function as an io.Reader.
type reader func(p []byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

// until returns r, which fails when ctx ends.
func until(ctx context.Context, r io.Reader) io.Reader {
	return reader(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(p)
	})
}
