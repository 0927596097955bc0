package serve

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/hostpath"
	"bakeoff/reach/conn/channel"
	"bakeoff/reach/conn/local"
)

// exec runs a program with its standard streams in frames.
func (s *server) exec(ctx context.Context, r *reply, q channel.Request) {
	path, err := findProgram(q)
	if err != nil {
		r.fault(err)
		return
	}
	pipes, err := newPipes(q.Input)
	if err != nil {
		r.fault(err)
		return
	}
	defer pipes.close()
	attr := &os.ProcAttr{Dir: hostpath.Local(q.Dir), Env: environ(q.Env), Files: pipes.theirs[:], Sys: ownSession()}
	done := local.StartIn(attr.Sys, q.Group)
	p, err := s.options.Launch.Launch(path, q.Argv, attr)
	done()
	pipes.handOver()
	if local.NotExecutable(err) {
		// As a shell does: found, but not executable.
		r.send(channel.FrameErrput, []byte(err.Error()+"\n"))
		r.result(channel.Result{Code: 126})
		return
	}
	if err != nil {
		r.fault(err)
		return
	}
	defer p.Release()
	defer context.AfterFunc(ctx, p.Kill)()
	go func() {
		if q.Input {
			_, err := r.copyIn(pipes.stdin)
			pipes.stdin.Close()
			if err != nil {
				p.Kill() // the host is gone
				return
			}
		}
		// Only the end of the stream can follow.
		if _, _, err := r.receive(); err != nil {
			p.Kill()
		}
	}()
	r.finish(ctx, p, pipes)
}

// finish copies the output of p, waits for its end, and reports it.
func (r *reply) finish(ctx context.Context, p Process, pipes *pipes) {
	var pumps sync.WaitGroup
	var ended atomic.Bool
	pump := func(kind byte, f *os.File) {
		defer pumps.Done()
		if err := r.copyOut(kind, &output{f: f, ended: &ended, left: afterlife}); err != nil {
			f.Close() // so that a program that keeps writing notices
		}
	}
	pumps.Add(2)
	go pump(channel.FrameOutput, pipes.stdout)
	go pump(channel.FrameErrput, pipes.stderr)
	res, err := p.Wait()
	ended.Store(true)
	deadline := time.Now().Add(linger)
	pipes.stdout.SetReadDeadline(deadline)
	pipes.stderr.SetReadDeadline(deadline)
	pumps.Wait()
	if err != nil {
		r.fault(err)
		return
	}
	r.result(res)
}

// linger is how long to wait for output after a program has ended if a
// background process still holds the pipe; afterlife is how much of it is read:
// more than the capacity of the pipe.
const (
	linger    = 100 * time.Millisecond
	afterlife = 1 << 20
)

// output reads a program's output to the end of the pipe or, once the program
// has ended, until the pipe is empty.
type output struct {
	f     *os.File
	ended *atomic.Bool
	left  int
}

func (o *output) Read(p []byte) (int, error) {
	if o.ended.Load() {
		if o.left <= 0 {
			return 0, io.EOF
		}
		// An expired deadline would hide the content of the pipe if the
		// host was slow to read.
		o.f.SetReadDeadline(time.Now().Add(linger))
	}
	n, err := o.f.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		// On a busy machine the deadline may pass before a read begins, or
		// before what came in time is seen.
		n, err = local.ReadNow(o.f, p)
	}
	if o.ended.Load() {
		o.left -= n
	}
	return n, err
}

// findProgram looks Argv[0] up. It distinguishes a missing directory from a
// missing program.
func findProgram(q channel.Request) (string, error) {
	if len(q.Argv) == 0 {
		return "", fault.New(fault.Invalid, "agent: no program given")
	}
	if q.Dir != "" {
		if info, err := os.Stat(hostpath.Local(q.Dir)); err != nil || !info.IsDir() {
			return "", fault.New(fault.Invalid, "agent: working directory %q does not exist", q.Dir)
		}
	}
	if strings.Contains(q.Argv[0], "/") {
		return hostpath.Local(q.Argv[0]), nil
	}
	path, err := exec.LookPath(q.Argv[0])
	if err != nil {
		return "", fault.Wrap(fault.NotFound, "agent", err)
	}
	return path, nil
}

// pipes are the standard streams of a program.
type pipes struct {
	stdin, stdout, stderr *os.File // our ends; stdin is nil if the input is empty
	theirs                [3]*os.File
}

func newPipes(input bool) (*pipes, error) {
	p := &pipes{}
	var err error
	if input {
		p.theirs[0], p.stdin, err = os.Pipe()
	} else {
		p.theirs[0], err = os.Open(os.DevNull)
	}
	if err == nil {
		p.stdout, p.theirs[1], err = local.OutputPipe()
	}
	if err == nil {
		p.stderr, p.theirs[2], err = local.OutputPipe()
	}
	if err != nil {
		p.handOver()
		p.close()
		return nil, err
	}
	return p, nil
}

// handOver closes our copies of the program's ends.
func (p *pipes) handOver() {
	for i, f := range p.theirs {
		if f != nil {
			f.Close()
			p.theirs[i] = nil
		}
	}
}

func (p *pipes) close() {
	for _, f := range []*os.File{p.stdin, p.stdout, p.stderr} {
		if f != nil {
			f.Close()
		}
	}
}

// environ is the agent's environment plus more.
func environ(more []string) []string {
	env := os.Environ()
	for _, m := range more {
		name, _, _ := strings.Cut(m, "=")
		env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
		env = append(env, m)
	}
	return env
}

// singly launches programs as plain children of the agent.
type singly struct{}

func (singly) Launch(path string, argv []string, attr *os.ProcAttr) (Process, error) {
	var p *os.Process
	err := local.Unbusy(func() (err error) {
		p, err = os.StartProcess(path, argv, attr)
		return err
	})
	if err == nil {
		err = local.Contain(p)
	}
	if err != nil {
		return nil, err
	}
	return &child{p: p}, nil
}

type child struct {
	p     *os.Process
	ended atomic.Bool
}

func (c *child) Wait() (channel.Result, error) {
	state, err := c.p.Wait()
	c.ended.Store(true)
	if err != nil {
		return channel.Result{}, err
	}
	end := local.EndOf(state)
	return channel.Result{Code: end.Code, Signal: end.Signal}, nil
}

// Kill kills the session's process group. Processes that have left it are not
// found without cgroups, which the launcher of init uses.
func (c *child) Kill() {
	if !c.ended.Load() {
		local.KillGroup(c.p.Pid)
	}
}

// Release lets what the program left behind run on.
func (c *child) Release() { local.Release(c.p.Pid) }

// Treewise launches programs that are killed with all their descendants,
// including those in other sessions if the system can find them.
type Treewise struct{}

// Launch starts a program as a child of the agent.
func (Treewise) Launch(path string, argv []string, attr *os.ProcAttr) (Process, error) {
	p, err := singly{}.Launch(path, argv, attr)
	if err != nil {
		return nil, err
	}
	return tree{p.(*child)}, nil
}

type tree struct{ *child }

// Kill kills the program and its descendants.
func (t tree) Kill() {
	if !t.ended.Load() {
		local.KillTree(t.p.Pid)
	}
}
