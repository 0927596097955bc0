package isolation

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"path"
	"sync"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/reach/agent"
	agentcontainer "bakeoff/reach/agent/container"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// environ is the environment of programs inside. It has nothing of the
// environment of bakeoff: LANG and MALLOC_ARENA_MAX are confounders.
var environ = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
	"LANG=C.UTF-8"}

// Exec runs a program inside.
func (e *Env) Exec(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	if len(cmd.Argv) == 0 || cmd.Argv[0] == "" {
		return conn.Exit{}, fault.New(fault.Invalid, "exec: no program named")
	}
	if cmd.Dir != "" && !path.IsAbs(cmd.Dir) {
		return conn.Exit{}, fault.New(fault.Invalid, "exec: directory %q is not absolute", cmd.Dir)
	}
	argv := append([]string{}, e.In...)
	argv = append(argv, "--clear-env")
	for _, v := range append(append([]string{}, environ...), cmd.Env...) {
		argv = append(argv, "--env", v)
	}
	dir := cmp.Or(cmd.Dir, "/")
	what, run := cmd.Argv, e.through()
	cmd.Argv = append(append(argv, "--dir", dir, "--"), cmd.Argv...)
	cmd.Env, cmd.Dir, cmd.Group = nil, "", e.start
	exit, err := agentcontainer.Entered(cmd, func(cmd conn.Cmd) (conn.Exit, error) {
		said := conn.Tail{Limit: 1024}
		cmd.Stderr = conn.Both(&said, cmd.Stderr)
		exit, err := run(ctx, cmd)
		e.log.add(what, exit, err, said.Bytes())
		return exit, err
	})
	if dead := e.dead(ctx, exit, err); dead != nil {
		err = dead
	}
	if err != nil {
		return exit, fault.Op("exec "+what[0], err)
	}
	return exit, nil
}

// through executes a command line that begins with In.
func (e *Env) through() func(context.Context, conn.Cmd) (conn.Exit, error) {
	if e.Run != nil {
		return e.Run
	}
	return e.Host.Exec
}

// deathTime is how long the other processes of an environment may live after
// its sandbox has ended.
const deathTime = 300 * time.Millisecond

// dead returns an error if the whole environment has ended: it exceeded its
// memory, or a program killed its init process. That is the subject's fault,
// and a result.
func (e *Env) dead(ctx context.Context, exit conn.Exit, err error) error {
	if !e.Resident || e.Group == nil || err == nil && (exit.OK() || exit.Signal != "") || fault.Is(err, fault.NotFound) ||
		ctx.Err() != nil {
		return nil
	}
	// Most programs fail in an environment that lives, and are not delayed.
	// Runtimes that cannot tell return 128, or fail.
	end := time.Now()
	if err != nil || exit.Code == 128 {
		end = end.Add(deathTime)
	}
	for {
		pids, perr := e.Group.PIDs(ctx)
		if perr != nil || len(pids) > 0 && !time.Now().Before(end) {
			return nil
		}
		if len(pids) == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	why := ""
	if u, uerr := e.Group.Usage(ctx); uerr == nil {
		if killed := facts.OutOfMemory(nil, &u, e.Group.Limits().Memory); killed != "" {
			why = "; " + killed
		}
	}
	return fault.New(fault.Subject, "the environment has ended: no process runs in it%s", why)
}

// Push writes a file inside. The agent writes it there, so that symbolic links
// in the image cannot lead outside.
func (e *Env) Push(ctx context.Context, dst string, mode fs.FileMode, src io.Reader) error {
	if !path.IsAbs(dst) {
		return fault.New(fault.Invalid, "push %q: not an absolute path", dst)
	}
	cmd := conn.Command(e.info.Agent, "put", "--mode", fmt.Sprintf("0%o", mode.Perm()), "--", dst)
	broken := &remember{r: src}
	cmd.Stdin = agent.Blocks(broken)
	err := e.transfer(ctx, cmd, nil)
	if berr := broken.get(); berr != nil {
		err = berr // the cause of what the agent then said
	}
	return fault.Op("push "+dst, err)
}

// Pull reads a file inside.
func (e *Env) Pull(ctx context.Context, src string, dst io.Writer) error {
	if !path.IsAbs(src) {
		return fault.New(fault.Invalid, "pull %q: not an absolute path", src)
	}
	return fault.Op("pull "+src, e.transfer(ctx, conn.Command(e.info.Agent, "get", src), dst))
}

// transfer runs a subcommand of the agent and classifies its error.
func (e *Env) transfer(ctx context.Context, cmd conn.Cmd, out io.Writer) error {
	said := conn.Tail{Limit: 1024}
	cmd.Stdout, cmd.Stderr = out, &said
	exit, err := e.Exec(ctx, cmd)
	switch {
	case err != nil:
		return err
	case exit.Code == wire.ExitNotFound:
		return fault.New(fault.NotFound, "%s", said.Bytes())
	case !exit.OK():
		return fault.New(fault.Lab, "%s: %s", exit, said.Bytes())
	}
	return nil
}

// remember keeps the error of a reader that is read on another goroutine.
type remember struct {
	r   io.Reader
	mu  sync.Mutex
	err error
}

func (m *remember) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	if err != nil && err != io.EOF {
		m.mu.Lock()
		m.err = err
		m.mu.Unlock()
	}
	return n, err
}

func (m *remember) get() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// Dial opens a connection from inside.
func (e *Env) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := agent.DialThrough(ctx, func(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
		said := conn.Tail{Limit: 1024}
		exit, err := e.Exec(ctx, conn.Cmd{Argv: []string{e.info.Agent, "dial", network, address}, Stdin: stdin,
			Stdout: stdout, Stderr: &said})
		if err == nil && !exit.OK() {
			err = fault.New(fault.Lab, "%s: %s", exit, said.Bytes())
		}
		return err
	})
	return c, fault.Op("dial "+network+" "+address, err)
}
