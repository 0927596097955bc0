package guest

import (
	"context"
	"io"
	"io/fs"
	"net"
	"net/netip"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

// Outside is a machine without an agent. It can be measured from outside, frozen and
// removed. Everything that would happen inside is refused.
type Outside struct {
	visible
	hosted  *Hosted
	forward func(ctx context.Context, port uint16) (netip.AddrPort, error)
}

// visible is what can be done with a machine from outside.
type visible interface {
	driver.Freezer
	driver.Meter
	driver.Watched
	Info() driver.Info
	Diagnose(ctx context.Context) []byte
	Close(ctx context.Context) error
}

var (
	_ driver.Instance  = Outside{}
	_ driver.Forwarder = Outside{}
)

// WithoutAgent is m as a machine without an agent. forward is its Forward; nil if it has
// no network.
func WithoutAgent(m *Hosted, forward func(ctx context.Context, port uint16) (netip.AddrPort, error)) Outside {
	m.Properties.Addr = netip.Addr{}
	return Outside{m, m, forward}
}

// Forward returns where a port of the guest is reached.
func (o Outside) Forward(ctx context.Context, port uint16) (netip.AddrPort, error) {
	if o.forward == nil {
		return netip.AddrPort{}, fault.New(fault.Unsupported, "%s: the guest %s has no network", o.hosted.What,
			o.hosted.Spec.Name)
	}
	return o.forward(ctx, port)
}

func (o Outside) refuseInside(what string) error {
	return fault.New(fault.Unsupported, "%s: %s: the guest %s has no agent", o.hosted.What, what, o.hosted.Spec.Name)
}

// Exec is refused.
func (o Outside) Exec(context.Context, conn.Cmd) (conn.Exit, error) {
	return conn.Exit{}, o.refuseInside("start a program")
}

// Push is refused.
func (o Outside) Push(context.Context, string, fs.FileMode, io.Reader) error {
	return o.refuseInside("write a file")
}

// Pull is refused.
func (o Outside) Pull(context.Context, string, io.Writer) error { return o.refuseInside("read a file") }

// Dial is refused.
func (o Outside) Dial(context.Context, string, string) (net.Conn, error) {
	return nil, o.refuseInside("open a connection from inside")
}
