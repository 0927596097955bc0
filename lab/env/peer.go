package env

import (
	"context"
	"io"
	"net"

	"bakeoff/base/fault"
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
		nc, err := agent.DialThrough(ctx, func(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
			said := conn.Tail{Limit: 1024}
			exit, err := c.Exec(ctx, conn.Cmd{Argv: []string{program, "dial", network, address}, Stdin: stdin, Stdout: stdout,
				Stderr: &said})
			if err == nil && !exit.OK() {
				err = fault.New(fault.Lab, "%s: %s", exit, said.Bytes())
			}
			return err
		})
		return nc, fault.Op("dial "+network+" "+address, err)
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
