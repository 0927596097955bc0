package guest

import (
	"context"
	"io"
	"io/fs"
	"net"
	"net/netip"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

// Outside is a machine without an agent. It can be measured from outside, frozen and
// removed. Everything that would happen inside is refused.
type Outside struct {
	hosted  *Hosted
	forward func(ctx context.Context, port uint16) (netip.AddrPort, error)
}

var (
	_ driver.Instance  = Outside{}
	_ driver.Freezer   = Outside{}
	_ driver.Meter     = Outside{}
	_ driver.Forwarder = Outside{}
)

// WithoutAgent is m as a machine without an agent. forward is its Forward; nil if it has
// no network.
func WithoutAgent(m *Hosted, forward func(ctx context.Context, port uint16) (netip.AddrPort, error)) Outside {
	m.Properties.Addr = netip.Addr{}
	return Outside{m, forward}
}

// Forward returns where a port of the guest is reached.
func (o Outside) Forward(ctx context.Context, port uint16) (netip.AddrPort, error) {
	if o.forward == nil {
		return netip.AddrPort{}, fault.New(fault.Unsupported, "%s: the guest %s has no network", o.hosted.What,
			o.hosted.Spec.Name)
	}
	return o.forward(ctx, port)
}

func (o Outside) refuse(what string) error {
	return fault.New(fault.Unsupported, "%s: %s: the guest %s has no agent", o.hosted.What, what, o.hosted.Spec.Name)
}

// Exec is refused.
func (o Outside) Exec(context.Context, conn.Cmd) (conn.Exit, error) {
	return conn.Exit{}, o.refuse("start a program")
}

// Push is refused.
func (o Outside) Push(context.Context, string, fs.FileMode, io.Reader) error {
	return o.refuse("write a file")
}

// Pull is refused.
func (o Outside) Pull(context.Context, string, io.Writer) error { return o.refuse("read a file") }

// Dial is refused.
func (o Outside) Dial(context.Context, string, string) (net.Conn, error) {
	return nil, o.refuse("open a connection from inside")
}

// Info says what the machine is.
func (o Outside) Info() driver.Info { return o.hosted.Info() }

// Diagnose returns the end of its console.
func (o Outside) Diagnose(ctx context.Context) []byte { return o.hosted.Diagnose(ctx) }

// Close ends the machine and removes everything.
func (o Outside) Close(ctx context.Context) error { return o.hosted.Close(ctx) }

// Freeze stops the guest.
func (o Outside) Freeze(ctx context.Context) error { return o.hosted.pause(ctx, true) }

// Thaw lets it run again.
func (o Outside) Thaw(ctx context.Context) error { return o.hosted.pause(ctx, false) }

// Moments returns what was seen from outside while the guest came up.
func (o Outside) Moments(ctx context.Context) (driver.Moments, error) { return o.hosted.Moments(ctx) }

// Usage is what the hypervisor has used for the guest and for itself.
func (o Outside) Usage(ctx context.Context) (facts.Scope, error) { return o.hosted.Usage(ctx) }
