package ssh

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
)

// Clock reads the clocks of the machine; see channel.Conn.Clock.
func (c *Conn) Clock(ctx context.Context) (channel.Clock, error) {
	var out channel.Clock
	err := c.through(ctx, func(ch *channel.Conn) (err error) {
		out, err = ch.Clock(ctx)
		return err
	})
	return out, err
}

// Alive asks the agent of the current session for an answer. Unlike a request, it does not
// connect again: the error says that this session no longer answers.
func (c *Conn) Alive(ctx context.Context) error {
	s := c.lastSession()
	if s.gone() {
		return fault.New(fault.Lab, "host %s: the session has ended", c.o.Name)
	}
	_, err := s.Clock(ctx)
	return c.labError(err)
}

// Reconnect ends the current session and connects again, with one attempt. Every request
// does so as well if the session has ended; Reconnect is for a machine that is known to
// reboot, whose session may seem to live for minutes. The errors are those of Open. If it
// is of kind fault.Unsupported, another machine may answer.
func (c *Conn) Reconnect(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return fault.Wrap(fault.Lab, "host "+c.o.Name, ctx.Err())
	}
	defer func() { <-c.turn }()
	if c.closed {
		return fault.New(fault.Lab, "host %s: the connection was closed", c.o.Name)
	}
	c.s.Conn.Close()
	c.s.stop() // an agent that is gone does not end ssh
	c.client.hangUp()
	s, err := c.client.connect(ctx, &c.s.machine, c.held)
	if err != nil {
		return err
	}
	c.s = s
	c.count++
	return nil
}

// resolveTime bounds the question where a machine is.
const resolveTime = 15 * time.Second

// Direct returns where the controller reaches sshd of the machine without a detour. If the
// SSH configuration leads there over another machine or a command, the error is of kind
// fault.Unsupported.
func (c *Conn) Direct(ctx context.Context) (netip.AddrPort, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	out, err := conn.Output(ctx, c.o.Local, c.client.query()...)
	if err != nil {
		return netip.AddrPort{}, fault.Op("ssh -G "+c.o.Target, err)
	}
	name, port, err := endpoint(string(out))
	if err != nil {
		return netip.AddrPort{}, fault.Op("host "+c.o.Name, err)
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil || len(addrs) == 0 {
		return netip.AddrPort{}, fault.Wrap(fault.Lab, "host "+c.o.Name+": cannot resolve "+name, err)
	}
	return netip.AddrPortFrom(addrs[0].Unmap(), port), nil
}

// query is the command that prints the configuration of the client for the machine.
func (c *client) query() []string {
	return append(c.args(c.o.Program), "-G", "--", c.o.Target)
}

// endpoint reads the output of ssh -G.
func endpoint(text string) (name string, port uint16, err error) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "hostname":
			name = value
		case "port":
			n, err := strconv.ParseUint(value, 10, 16)
			if err != nil || n == 0 {
				return "", 0, fault.New(fault.Lab, "ssh -G reports an invalid port: %q", value)
			}
			port = uint16(n)
		case "proxyjump", "proxycommand":
			if value != "" && value != "none" {
				return "", 0, fault.New(fault.Unsupported, "SSH reaches the host through another machine (%s)", key)
			}
		}
	}
	if name == "" || port == 0 {
		return "", 0, fault.New(fault.Lab, "ssh -G reports no host or no port")
	}
	return name, port, nil
}
