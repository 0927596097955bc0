package qemu

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/netns"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
	"bakeoff/reach/probe"
	"bakeoff/reach/wire"
)

const (
	// closeTime bounds how long removing a machine may take.
	closeTime = 30 * time.Second
	// monitorTime bounds a conversation with QEMU's monitor, which answers
	// in milliseconds.
	monitorTime = 15 * time.Second
	// endTime is how long QEMU may take to end after it has closed its
	// sockets.
	endTime = 5 * time.Second
)

// Instance is a machine whose agent answers.
type Instance struct {
	*channel.Conn
	host conn.Conn
	spec driver.Spec
	info driver.Info
	boot wire.BootReport
	// hostCache is that of Info, once the disks are made.
	hostCache map[string]string

	group   *cgroup.Group
	tap     bool
	kill    context.CancelFunc
	console *console
	stderr  *console
	ended   chan struct{} // closed when QEMU has ended
	ending  ending        // valid then

	closing sync.Mutex
	closed  bool
}

var (
	_ driver.Instance = (*Instance)(nil)
	_ driver.Freezer  = (*Instance)(nil)
	_ driver.Meter    = (*Instance)(nil)
)

// Info says what the machine is.
func (in *Instance) Info() driver.Info { return in.info }

// Diagnose returns the output of QEMU and the end of the machine's console.
func (in *Instance) Diagnose(context.Context) []byte {
	var out []byte
	select {
	case <-in.ended:
		out = fmt.Appendf(out, "QEMU has ended: %v\n", in.ending.exit)
	default:
		out = append(out, "QEMU runs\n"...)
	}
	if said := in.stderr.Bytes(); len(said) > 0 {
		out = fmt.Appendf(out, "it said:\n%s\n", safetext.Text(string(said)))
	}
	out = append(out, "console:\n"...)
	return append(out, safetext.Text(string(in.console.Bytes()))...)
}

// Freeze freezes QEMU's control group. The guest's clocks continue, so they
// stay correct.
func (in *Instance) Freeze(ctx context.Context) error {
	in.Conn.Rest(true)
	if err := in.group.Freeze(ctx); err != nil {
		in.Conn.Rest(false)
		return err
	}
	return nil
}

// Thaw resumes it.
func (in *Instance) Thaw(ctx context.Context) error {
	if err := in.group.Thaw(ctx); err != nil {
		return err
	}
	in.Conn.Rest(false)
	return nil
}

// Usage is what QEMU has used for the guest and for itself.
func (in *Instance) Usage(ctx context.Context) (probe.Scope, error) { return in.group.Usage(ctx) }

// Close kills the machine and removes what belongs to it on the host. The guest
// is not shut down, because its disk is discarded.
func (in *Instance) Close(ctx context.Context) error {
	in.closing.Lock()
	defer in.closing.Unlock()
	if in.closed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	if in.Conn != nil {
		in.Conn.Fail(fault.New(fault.Lab, "qemu: %s is closed", in.spec.Label))
	}
	var errs []error
	if in.group != nil {
		errs = append(errs, in.group.Remove(ctx)) // kills, also what is frozen
	}
	if in.kill != nil {
		in.kill()
		select {
		case <-in.ended:
		case <-ctx.Done():
			errs = append(errs, fault.New(fault.Lab, "qemu: %s does not end: %w", in.spec.Label, ctx.Err()))
		}
	}
	if in.tap {
		errs = append(errs, netns.DetachTap(ctx, in.host, in.spec.Network.Namespace, in.spec.Label))
	}
	err := errors.Join(errs...)
	in.closed = err == nil
	return err
}
