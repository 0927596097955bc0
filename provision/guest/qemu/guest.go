package qemu

import (
	"cmp"
	"context"
	"errors"
	"net"
	"path"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/provision/guest"
	"bakeoff/reach/conn"
)

// monitorTime bounds a conversation with QEMU's monitor, which answers in
// milliseconds.
const monitorTime = 15 * time.Second

// Place is where a guest runs.
type Place struct {
	Host conn.Conn
	// Launch starts the process of QEMU on Host, for instance in a control group. nil
	// starts it like any program.
	Launch func(ctx context.Context, cmd conn.Cmd) (*guest.Process, error)
	// Namespace is the network namespace that QEMU runs in; "" is that of Host. Agent is the
	// path of the agent on Host, which opens connections in it.
	Namespace, Agent string
	// Timeout is the maximum time until the guest answers.
	Timeout time.Duration
}

// Guest is a machine that QEMU runs.
type Guest struct {
	Machine
	Place
	// Process is QEMU's. Its standard output is the console of the guest, but with
	// Instructions the port of the clock programs.
	Process *guest.Process
	said    conn.Tail // QEMU's messages
	events  *events   // of a guest that is watched
	writes  *writes   // to the debug port; nil without
}

// Start starts the guest that m describes. The caller ends it with Stop or Kill.
func Start(ctx context.Context, at Place, m Machine) (g *Guest, err error) {
	if at.Launch == nil {
		at.Launch = func(ctx context.Context, cmd conn.Cmd) (*guest.Process, error) {
			return guest.StartProcess(ctx, at.Host, "qemu", cmd, nil), nil
		}
	}
	g = &Guest{Machine: m, Place: at, said: conn.Tail{Limit: 8 << 10}}
	cmd := conn.Cmd{Argv: m.CommandLine(), Env: []string{"TMPDIR=" + m.Dir}, Stderr: &g.said}
	if m.Watch {
		g.events = &events{rest: &g.said}
		cmd.Stderr = g.events
	}
	if g.Process, err = at.Launch(ctx, cmd); err != nil {
		return nil, err
	}
	g.Process.Why = func(exit conn.Exit, console []byte) error { return explainEnd(exit, g.said.Bytes(), console) }
	if err := g.openDebugPort(ctx); err != nil {
		return nil, errors.Join(err, g.Kill(context.WithoutCancel(ctx)))
	}
	return g, nil
}

// Messages are the last messages of QEMU.
func (g *Guest) Messages() string { return safetext.Text(string(g.said.Bytes())) }

// Stop presses the power button of the guest and waits until it has powered itself off. It
// is an error if ctx ends before; Kill then ends the guest.
func (g *Guest) Stop(ctx context.Context) error {
	if err := g.Execute(ctx, "system_powerdown", nil, nil); err != nil {
		return err
	}
	select {
	case <-g.Process.Ended():
		return nil
	case <-ctx.Done():
		return fault.New(fault.Subject, "the guest has not powered itself off: %w", ctx.Err())
	}
}

// Kill ends QEMU at once.
func (g *Guest) Kill(ctx context.Context) error { return g.Process.End(ctx) }

// DialAgent connects to the channel of the agent, as soon as QEMU listens.
func (g *Guest) DialAgent(ctx context.Context) (net.Conn, error) {
	return g.dialSocket(ctx, socketChannel)
}

// DialAgentAt connects to the channel of the agent in a machine that another process started,
// whose folder on this machine is dir. QEMU serves one connection after the other.
func DialAgentAt(ctx context.Context, dir string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", path.Join(dir, socketChannel))
}

// dialSocket connects to one of the machine's sockets, as soon as QEMU listens.
func (g *Guest) dialSocket(ctx context.Context, name string) (rw net.Conn, err error) {
	err = g.Process.Until(ctx, g.Timeout, func() (err error) {
		rw, err = g.Host.Dial(ctx, "unix", path.Join(g.Dir, name))
		return err
	})
	return rw, err
}

// Execute runs a command of QEMU's monitor. arguments and result are JSON values or nil. If
// QEMU refuses the command, the error is a *MonitorError.
func (g *Guest) Execute(ctx context.Context, command string, arguments, result any) error {
	_, err := g.askMonitor(ctx, command, arguments, result)
	return err
}

func (g *Guest) askMonitor(ctx context.Context, command string, arguments, result any) (version string, err error) {
	rw, err := g.dialSocket(ctx, socketMonitor)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, monitorTime)
	defer cancel()
	return executeOn(ctx, rw, command, arguments, result)
}

// ExecuteAt runs a command of the monitor of a machine that another process started, whose
// folder on this machine is dir.
func ExecuteAt(ctx context.Context, dir, command string, arguments, result any) error {
	ctx, cancel := context.WithTimeout(ctx, monitorTime)
	defer cancel()
	var d net.Dialer
	rw, err := d.DialContext(ctx, "unix", path.Join(dir, socketMonitor))
	if err != nil {
		return fault.Op("QEMU's monitor", err)
	}
	_, err = executeOn(ctx, rw, command, arguments, result)
	return err
}

// Verify asks QEMU for its version. It is an error if something else than the accelerator
// of the description runs the guest's instructions.
func (g *Guest) Verify(ctx context.Context) (version string, err error) {
	var kvm struct{ Enabled bool }
	version, err = g.askMonitor(ctx, "query-kvm", nil, &kvm)
	if accel := map[bool]string{true: KVM, false: TCG}[kvm.Enabled]; err == nil && accel != g.Accel {
		err = fault.New(fault.Lab, "QEMU runs with the accelerator %s instead of %s", accel, g.Accel)
	}
	return version, err
}

// explainEnd classifies the end of QEMU from its messages and the guest's console.
//
// QEMU ends with code 0 if the guest restarted, panicked or powered itself off:
// that is the subject's fault. If QEMU refuses its arguments it ends with
// another code: that is the lab's fault.
func explainEnd(exit conn.Exit, stderr, console []byte) error {
	said := safetext.LastLines(string(stderr), 3)
	if said != "" {
		said = ": " + said
	}
	switch {
	case exit.OK():
		return fault.New(fault.Subject, "%s", cmp.Or(guest.Diagnose(console), "the guest powered itself off"))
	case exit.Signal != "":
		return fault.New(fault.Lab, "QEMU was killed by a signal: %s%s", exit.Signal, said)
	}
	return fault.New(fault.Lab, "QEMU failed (exit code %d)%s", exit.Code, said)
}
