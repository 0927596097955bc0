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
	// Why returns an error for the end of the process with this exit and this end
	// of its output; nil blames the subject.
	Why   func(exit conn.Exit, output []byte) error
	name  string
	out   conn.Tail
	first atomic.Pointer[time.Time] // when its first output arrived
	wrote chan struct{}             // has an element after it has printed something
	kill  context.CancelFunc
	ended chan struct{}
	exit  conn.Exit // valid when ended is closed
	err   error
}

// StartProcess runs cmd on host. The process outlives ctx; End ends it. name is for
// messages. The end of its standard output is kept, unless cmd has another place for it.
// after is called when it has ended; it may be nil.
func StartProcess(ctx context.Context, host conn.Conn, name string, cmd conn.Cmd, after func()) *Process {
	live, kill := context.WithCancel(context.WithoutCancel(ctx))
	p := &Process{name: name, out: conn.Tail{Limit: outputLimit}, kill: kill,
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

// Failure is why the process has ended; nil while it runs, and if it has succeeded.
func (p *Process) Failure() error {
	select {
	case <-p.ended:
		if p.err != nil || !p.exit.OK() {
			return p.explainEnd("")
		}
	default:
	}
	return nil
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Await waits until a guest that was asked to end has ended.
func (p *Process) Await(ctx context.Context) error {
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Subject, "the guest has not ended: %w", ctx.Err())
	}
}

// End kills it and waits for its end.
func (p *Process) End(ctx context.Context) error {
	p.kill()
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
	case <-time.After(endTime):
	}
	return fault.New(fault.Lab, "%s does not end", p.name)
}

// Poll is the time between two attempts of Until.
const Poll = 5 * time.Millisecond

// Until tries until try succeeds, p ends or timeout is over. The error then has
// the end of what p printed. It tries again every 5 ms, and when p has printed.
func (p *Process) Until(ctx context.Context, timeout time.Duration, try func() error) error {
	end := time.After(timeout)
	for {
		err := try()
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(Poll):
		case <-p.wrote:
		case <-p.ended:
			return p.explainEnd("")
		case <-end:
			return p.withOutput(fault.New(fault.Subject, "the guest did not answer within %v: %v", timeout, err))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stuckGuest is what the console of a guest says that waits for somebody at its console.
type stuckGuest string

func (s stuckGuest) Error() string { return string(s) }

const (
	// stuckPoll is the time between two looks at the console.
	stuckPoll = 200 * time.Millisecond
	// stuckTime is how long a guest may take to end by itself after such a message.
	stuckTime = 2 * time.Second
)

// stopHopeless calls stop when an answer cannot be expected any more: the process has ended,
// or the console shows that the guest waits there for an answer.
func (p *Process) stopHopeless(boot context.Context, stop context.CancelCauseFunc) {
	look := time.NewTicker(stuckPoll)
	defer look.Stop()
	var since time.Time
	for {
		select {
		case <-p.Ended():
			stop(nil)
			return
		case <-boot.Done():
			return
		case now := <-look.C:
			why := stuckReason(p.out.Bytes())
			switch {
			case why == "":
				since = time.Time{}
			case since.IsZero():
				since = now
			case now.Sub(since) >= stuckTime:
				stop(stuckGuest(why))
				return
			}
		}
	}
}

// explainEnd returns an error for the end of the process. If the guest ended, that
// is the subject's fault; if the connection to the host broke, it is the lab's.
func (p *Process) explainEnd(op string) error {
	if p.err != nil {
		return fault.Op(p.name, p.err)
	}
	err := fault.New(fault.Subject, "%s has ended (%v)", p.name, p.exit)
	if p.Why != nil {
		err = p.Why(p.exit, p.out.Bytes())
	}
	return fault.Op(op, p.withOutput(err))
}

// withOutput adds the last lines of the output to an error.
func (p *Process) withOutput(err error) error {
	said := Excerpt(p.out.Bytes())
	if said == "" {
		return fault.New(fault.Of(err), "%w (it printed nothing)", err)
	}
	return fault.New(fault.Of(err), "%w\nthe end of its output:\n%s", err, said)
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
