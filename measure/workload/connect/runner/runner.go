// Package runner runs the workload connect.
package runner

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"strconv"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/connect"
	"bakeoff/reach/conn"
	"bakeoff/reach/readiness"
	"bakeoff/reach/wire"
)

// Runner runs the workload.
type Runner struct{ connect.Workload }

// New returns the runner.
func New() execution.Runner { return Runner{} }

// Check refuses an answer that cannot be waited for.
func (Runner) Check(p param.Values) error {
	_, err := readiness.Parse(p.Text(connect.ParamAnswer))
	return fault.Op(connect.ParamAnswer, err)
}

// Ports implements execution.Server.
func (Runner) Ports(p param.Values) []uint16 {
	s, err := readiness.Parse(p.Text(connect.ParamAnswer))
	if err != nil {
		return nil // Check says why
	}
	return []uint16{uint16(s.Port)}
}

// forwardKey is the key in Target.State of the address of a server in an environment
// without one.
const forwardKey = "connect.forward"

// patience bounds the wait for a server that the environment's own system starts, and
// knockStep is the time between two attempts.
const (
	patience  = time.Minute
	knockStep = 20 * time.Millisecond
)

// Prepare waits until the server answers.
func (r Runner) Prepare(ctx context.Context, t execution.Target, p param.Values) error {
	s, err := readiness.Parse(p.Text(connect.ParamAnswer))
	if err != nil {
		return fault.Op(connect.ParamAnswer, err)
	}
	if t.Forward != nil && t.State[forwardKey] == "" {
		at, err := t.Forward(ctx, uint16(s.Port))
		if err != nil {
			return fault.Op(connect.Name, err)
		}
		t.State[forwardKey] = at.String()
	}
	at, err := address(t, s)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	k := readiness.Knock{Step: knockStep, Forwarded: t.Forward != nil, Dial: func(ctx context.Context) (net.Conn, error) {
		return t.Peer.Dial(ctx, "tcp", at.String())
	}}
	_, _, err = k.Wait(ctx, s)
	return fault.Op(connect.Name, err)
}

// address is where the peer reaches the server.
func address(t execution.Target, s readiness.Server) (netip.AddrPort, error) {
	switch text := t.State[forwardKey]; {
	case t.Peer == nil || t.PeerAgent == "":
		return netip.AddrPort{}, fault.New(fault.Lab, "%s: the trial has no place to run the load generator", connect.Name)
	case text != "":
		return netip.ParseAddrPort(text)
	case !t.Addr.IsValid():
		return netip.AddrPort{}, fault.New(fault.Unsupported, "%s: the environment has no address", connect.Name)
	}
	return netip.AddrPortFrom(t.Addr.Unmap(), uint16(s.Port)), nil
}

// Reset does nothing: the state of the server is carried over between trials.
func (Runner) Reset(context.Context, execution.Target, param.Values) error { return nil }

// Run runs one trial: the loop on the peer.
func (Runner) Run(ctx context.Context, t execution.Target, p param.Values) (workload.Raw, error) {
	s, err := readiness.Parse(p.Text(connect.ParamAnswer))
	if err != nil {
		return nil, fault.Op(connect.ParamAnswer, err)
	}
	at, err := address(t, s)
	if err != nil {
		return nil, err
	}
	args := param.Values{"addr": at.String(), "forwarded": strconv.FormatBool(t.Forward != nil)}
	for _, name := range []string{connect.ParamAnswer, connect.ParamTime, connect.ParamTimeout} {
		args[name] = p.Text(name)
	}
	limit := p.Duration(connect.ParamTime) + 5*p.Duration(connect.ParamTimeout) + 30*time.Second
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, said := &conn.Head{Limit: execution.MaxGenerated}, &conn.Tail{Limit: 4 << 10}
	exit, err := t.Peer.Exec(limited, conn.Cmd{Stdout: out, Stderr: said,
		Argv: append([]string{t.PeerAgent, "work", connect.Name, "--json"}, args.Args()...)})
	raw := workload.Raw{workload.Work: out.Bytes()}
	switch {
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		return raw, fault.New(fault.Lab, "%s: the loop did not end within %v", connect.Name, limit)
	case err != nil:
		return raw, fault.Op(connect.Name, err)
	case exit.Code == wire.ExitUnsupported:
		return raw, fault.New(fault.Unsupported, "%s: %s", connect.Name, bytes.TrimSpace(said.Bytes()))
	case !exit.OK():
		return raw, fault.New(fault.Lab, "%s: %s: %s", connect.Name, exit, bytes.TrimSpace(said.Bytes()))
	}
	return raw, nil
}
