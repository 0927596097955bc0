package guest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/reach/conn"
)

// outputLimit bounds what is kept of a process's output, in bytes. It fits into
// a diagnosis.
const outputLimit = 48 << 10

// Process is a program on the host that belongs to an environment: a
// hypervisor, or a command that leads into a jail.
type Process struct {
	env   *Env
	name  string
	out   conn.Tail
	first atomic.Pointer[time.Time] // when its first output arrived
	wrote chan struct{}             // has an element after it has printed something
	kill  context.CancelFunc
	ended chan struct{}
	exit  conn.Exit // valid when ended is closed
	err   error
}

// Start runs argv on the host. The process outlives ctx. The end of its output
// is kept as the environment's console.
func (e *Env) Start(ctx context.Context, argv ...string) *Process {
	return e.start(ctx, argv[0], conn.Cmd{Argv: argv}, nil)
}

func (e *Env) start(ctx context.Context, name string, cmd conn.Cmd, after func()) *Process {
	return e.startOn(ctx, e.Host, name, cmd, after)
}

func (e *Env) startOn(ctx context.Context, host conn.Conn, name string, cmd conn.Cmd, after func()) *Process {
	live, kill := context.WithCancel(context.WithoutCancel(ctx))
	p := &Process{env: e, name: name, out: conn.Tail{Limit: outputLimit}, kill: kill,
		ended: make(chan struct{}), wrote: make(chan struct{}, 1)}
	if cmd.Stdout == nil {
		cmd.Stdout = p
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &p.out
	}
	go func() {
		defer close(p.ended)
		p.exit, p.err = host.Exec(live, cmd)
		if after != nil {
			after()
		}
	}()
	e.mu.Lock()
	e.processes = append(e.processes, p)
	e.mu.Unlock()
	return p
}

// Write keeps the end of the output, and when it began, and wakes Until.
func (p *Process) Write(b []byte) (int, error) {
	if len(b) > 0 && p.first.Load() == nil {
		now := time.Now()
		p.first.CompareAndSwap(nil, &now)
	}
	n, err := p.out.Write(b)
	select {
	case p.wrote <- struct{}{}:
	default:
	}
	return n, err
}

// FirstOutput is when the first byte of the standard output arrived; the zero Time if
// there is none.
func (p *Process) FirstOutput() time.Time {
	if at := p.first.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Printed is the end of what the process has printed.
func (p *Process) Printed() []byte { return p.out.Bytes() }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// end kills it and waits for its end.
func (p *Process) end(ctx context.Context) error {
	p.kill()
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
	case <-time.After(endTime):
	}
	return fault.New(fault.Lab, "%s does not end", p.name)
}

// explain returns an error for the end of the process. If the guest ended, that
// is the subject's fault; if the connection to the host broke, it is the lab's.
func (p *Process) explain(op string) error {
	if p.err != nil {
		return fault.Op(p.name, p.err)
	}
	err := fault.New(fault.Subject, "%s has ended (%v)", p.name, p.exit)
	if p.env.Why != nil {
		err = p.env.Why(p.exit, p.out.Bytes())
	}
	return fault.Op(op, p.withOutput(err))
}

// withOutput adds the last lines of the output to an error.
func (p *Process) withOutput(err error) error {
	said := Excerpt(p.out.Bytes())
	if said == "" {
		return fault.New(fault.Of(err), "%w (it printed nothing)", err)
	}
	return fault.New(fault.Of(err), "%w\nthe end of what it printed:\n%s", err, said)
}

func (p *Process) describe() []byte {
	state := "runs"
	select {
	case <-p.ended:
		state = fmt.Sprintf("has ended: %v", p.exit)
		if p.err != nil {
			state = "has ended: " + p.err.Error()
		}
	default:
	}
	return fmt.Appendf(nil, "%s %s\n%s\n", p.name, state, safetext.Text(string(p.out.Bytes())))
}
