package env

import (
	"context"
	"net"

	"bakeoff/reach/agent"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// inside makes c, which executes in the network namespace ns, open its
// connections there too. Outside of it the same address may lead elsewhere.
func (m *Manager) inside(c conn.Conn, ns string) conn.Conn {
	if _, ok := m.at.(Here); ok {
		return peer{c, local.Conn{Netns: ns}.Dial}
	}
	program := m.cfg.Agent
	return peer{c, func(ctx context.Context, network, address string) (net.Conn, error) {
		return agent.DialBy(ctx, c, program, network, address)
	}}
}

// peer executes programs and opens connections in the same network namespace.
type peer struct {
	conn.Conn
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Dial opens a connection from the experiment's network.
func (p peer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return p.dial(ctx, network, address)
}
