// Package guest is what environments with an agent of their own have in common:
// jails and zones, whose agent is reached through the technology's own command,
// and machines, whose agent is reached over a port. Package qemu below it runs the guests
// of QEMU, with or without an environment.
//
// A driver creates its environment step by step. Whatever a step creates can be
// found again by label and directory alone, so Close, Reap and the removal of a
// failed creation are the same operation.
package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/name"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
	"bakeoff/reach/wire"
)

// Paths inside an environment.
const (
	AgentPath = wire.GuestAgent
	Scratch   = wire.GuestScratch
)

const (
	// closeTime bounds how long removing an environment may take.
	closeTime = time.Minute
	// endTime bounds how long a process may take to end after it was killed, or
	// after its port has closed.
	endTime = 10 * time.Second
	// maxDiagnosis bounds what Diagnose returns, in bytes.
	maxDiagnosis = 64 << 10
)

// Env is an environment whose agent answers, and a driver.Instance. The driver
// fills in the exported fields until Create returns.
type Env struct {
	*channel.Conn
	Host conn.Conn
	Spec driver.Spec
	// Group is the control group of the processes on Host; nil is none.
	Group *cgroup.Group
	// What is the driver's name for it in messages: "jail", "zone".
	What string
	// Properties are the value of Info.
	Properties driver.Info
	// Remove removes everything with the label. It may be called again.
	Remove func(ctx context.Context) error
	// Details returns the driver's part of Diagnose.
	Details func(ctx context.Context) []byte
	// Boot is the agent's report of its start.
	Boot wire.BootReport
	// Seen is what the driver saw while the environment came up. Console is the process
	// whose standard output is the console of the environment, and Observe adds to what
	// was seen; both may be nil.
	Seen    driver.Moments
	Console *Process
	Observe func(ctx context.Context, seen *driver.Moments) error

	began     time.Time // the creation
	answered  time.Time // the first answer of the agent; the zero Time before
	mu        sync.Mutex
	processes []*Process
	closed    bool
}

var (
	_ driver.Instance = (*Env)(nil)
	_ driver.Watched  = (*Env)(nil)
)

// New begins an environment of d, whose Reap removes it. The caller must Close
// it, or call Abandon if the creation fails.
func New(d driver.Driver, host conn.Conn, spec driver.Spec) *Env {
	e := &Env{What: d.Doc().Name, Host: host, Spec: spec, began: time.Now(), Properties: driver.Info{
		Agent: AgentPath, Scratch: Scratch, Volumes: map[string]string{}, HostCache: map[string]string{},
		Facts: map[string]string{}}}
	e.Remove = func(ctx context.Context) error {
		_, err := d.Reap(ctx, host, driver.Leftover{Label: spec.Label, Dir: spec.Dir}, false)
		return err
	}
	for _, v := range spec.Volumes {
		e.Properties.Volumes[v.Path] = v.Path
	}
	if n := spec.Network; n != nil {
		e.Properties.Addr = n.Addr.Addr()
	}
	return e
}

// Check checks the parts of spec that the drivers of this package share. Guests
// have at least leastMemory, in whole MiB; 0 is for drivers without that rule.
func Check(doc driver.Doc, spec driver.Spec, leastMemory unit.Bytes) error {
	switch {
	case !path.IsAbs(spec.Dir) || path.Clean(spec.Dir) == "/":
		return fault.New(fault.Invalid, "directory must be an absolute path below / (got %q)", spec.Dir)
	case spec.CPUs < 1:
		return fault.New(fault.Invalid, "cpus must be at least 1 (got %d)", spec.CPUs)
	case !name.ValidLabel(spec.Label):
		return fault.New(fault.Invalid, "label must have 1 to 40 of the characters a-z, 0-9 and - (got %q)", spec.Label)
	case leastMemory > 0 && (spec.Memory%unit.MiB != 0 || spec.Memory < leastMemory):
		return fault.New(fault.Invalid, "memory must be a whole number of MiB and at least %v (got %v)",
			leastMemory, spec.Memory)
	}
	if n := spec.Network; n != nil && (!name.ValidMAC(n.MAC) || n.Bridge != "" &&
		!validLink.MatchString(n.Bridge)) {
		return fault.New(fault.Invalid, "network: invalid bridge %q or MAC address %q", n.Bridge, n.MAC)
	}
	for _, v := range spec.Volumes {
		switch {
		case !path.IsAbs(v.Path) || path.Clean(v.Path) == "/":
			return fault.New(fault.Invalid, "volume %q: write an absolute path below /", v.Path)
		case !slices.Contains(doc.Backings, v.Backing):
			return fault.New(fault.Unsupported, "volume %s: driver %s does not support backing %s; use %s",
				v.Path, doc.Name, v.Backing, strings.Join(doc.Backings, " or "))
		case v.Backing == volume.Disk && !path.IsAbs(v.Device):
			return fault.New(fault.Invalid, "volume %s: %q is not the absolute path of a block device", v.Path, v.Device)
		}
	}
	return doc.Tuning.Check(spec.Tuning)
}

// Values that become a part of a command's argument.
var validLink = lazy.Compile(`^[A-Za-z][A-Za-z0-9_.-]{0,14}$`)

// Abandon removes what a failed creation has created, and returns err.
func (e *Env) Abandon(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = ctx.Err() // what was asked to stop has stopped for that reason
	}
	// The end of ctx may be the reason for err.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	return e.Refuse(errors.Join(err, e.Close(ctx)))
}

// Refuse returns err, which came before anything was created, as the error of
// Create.
func (e *Env) Refuse(err error) error { return fault.Op(e.What+": create "+e.Spec.Label, err) }

// Info says what this environment is.
func (e *Env) Info() driver.Info { return e.Properties }

// Prepare executes commands in the guest, one after another.
func (e *Env) Prepare(ctx context.Context, steps ...[]string) error {
	for _, argv := range steps {
		if _, err := conn.Output(ctx, e, argv...); err != nil {
			return fault.Wrap(fault.Subject, "in the guest", err)
		}
	}
	return nil
}

// Machine is an Env with its own kernel, and so with its own clock.
type Machine struct{ *Env }

var _ driver.Clocked = Machine{}

// Clock reads the guest's monotonic clock.
func (m Machine) Clock(ctx context.Context) (time.Duration, error) {
	c, err := m.Conn.Clock(ctx)
	return time.Duration(c.MonotonicNS), err
}

// Start runs argv on the host. The process outlives ctx. The end of its output
// is kept as the environment's console.
func (e *Env) Start(ctx context.Context, argv ...string) *Process {
	p := StartProcess(ctx, e.Host, argv[0], conn.Cmd{Argv: argv}, nil)
	e.ownProcess(p)
	return p
}

// ownProcess has Close end p, and Diagnose describe it.
func (e *Env) ownProcess(p *Process) {
	e.mu.Lock()
	e.processes = append(e.processes, p)
	e.mu.Unlock()
}

// Session starts a program on the host whose standard streams lead to an agent.
// It returns the stream and the process.
func (e *Env) Session(ctx context.Context, argv ...string) (io.ReadWriteCloser, *Process) {
	rw, p := Connect(ctx, e.Host, argv...)
	e.ownProcess(p)
	return rw, p
}

// Connect starts a program on host whose standard streams lead to an agent. It returns the
// stream, whose end ends the agent, and the process.
func Connect(ctx context.Context, host conn.Conn, argv ...string) (io.ReadWriteCloser, *Process) {
	theirIn, ourOut := io.Pipe()
	ourIn, theirOut := io.Pipe()
	p := StartProcess(ctx, host, argv[0], conn.Cmd{Argv: argv, Stdin: theirIn, Stdout: theirOut}, func() {
		theirIn.Close()
		theirOut.Close()
	})
	return stream{ourIn, ourOut}, p
}

// stream is what is read from one pipe and written to another.
type stream struct {
	*io.PipeReader
	w *io.PipeWriter
}

func (s stream) Write(p []byte) (int, error) { return s.w.Write(p) }

// Close ends both directions.
func (s stream) Close() error { return errors.Join(s.w.Close(), s.PipeReader.Close()) }

// Meet opens the channel to the agent at the other end of rw, which p carries,
// and asks for its boot report. timeout bounds both.
func (e *Env) Meet(ctx context.Context, rw io.ReadWriteCloser, p *Process, timeout time.Duration) error {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	boot, stop := context.WithCancelCause(bounded)
	defer stop(nil)
	go p.stopHopeless(boot, stop)
	c, err := channel.Open(boot, rw, channel.Options{Reason: func() error { return e.explainLoss(p) }})
	if err == nil {
		e.answered = time.Now()
		e.Conn = c
		err = c.Call(boot, "boot", nil, &e.Boot)
	}
	if err == nil && e.Boot.Error != "" {
		err = fault.New(fault.Subject, "the guest's init process failed: %s", safetext.Line(e.Boot.Error))
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	if e.Conn != nil {
		e.Conn.Fail(err)
	}
	return e.explainSilence(p, boot, timeout, err)
}

// explainSilence returns the error for an agent that does not answer. That the environment did
// not come up is for the caller to say: the error says why.
func (e *Env) explainSilence(p *Process, boot context.Context, timeout time.Duration, err error) error {
	// The end of the process explains more than that of the channel. It follows
	// soon, on a busy machine later.
	patience := 50 * time.Millisecond
	if boot.Err() == nil && e.Boot.Error == "" {
		patience = endTime
	}
	var stuck stuckGuest
	if errors.As(context.Cause(boot), &stuck) {
		return p.withOutput(fault.New(fault.Subject, "%w", stuck))
	}
	select {
	case <-p.Ended():
		return p.explainEnd("")
	case <-time.After(patience):
	}
	if errors.Is(boot.Err(), context.DeadlineExceeded) {
		why := fmt.Sprintf("the agent in the guest did not answer within %v", timeout)
		if said := Diagnose(p.out.Bytes()); said != "" {
			why += "; " + said
		}
		err = fault.New(fault.Subject, "%s", why)
	}
	return p.withOutput(err)
}

// explainLoss returns why the environment is gone. A stream closes a moment before
// its process has ended.
func (e *Env) explainLoss(p *Process) error {
	select {
	case <-p.Ended():
		return fault.Op(e.What+": "+e.Spec.Label, p.explainEnd(""))
	case <-time.After(endTime):
		return nil
	}
}

// Diagnose returns the last output of the environment's processes.
func (e *Env) Diagnose(ctx context.Context) []byte {
	out := fmt.Appendf(nil, "%s %s (%s) in %s\n", e.What, e.Spec.Label, e.Spec.Name, e.Spec.Dir)
	if e.Details != nil {
		out = append(out, e.Details(ctx)...)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.processes {
		out = append(out, p.describe()...)
	}
	return out[max(0, len(out)-maxDiagnosis):]
}

// Close ends the environment and removes everything. A second Close does
// nothing; after an error Close can be called again.
func (e *Env) Close(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	if e.Conn != nil {
		e.Conn.Fail(fault.New(fault.Lab, "%s: %s is closed", e.What, e.Spec.Label))
	}
	var err error
	if e.Group != nil {
		err = e.Group.Kill(ctx) // also what is frozen
	}
	for _, p := range e.processes {
		err = errors.Join(err, p.End(ctx))
	}
	err = errors.Join(err, e.Remove(ctx))
	e.closed = err == nil
	return err
}
