package env

import (
	"context"
	"net"
	"net/netip"
	"runtime"

	"bakeoff/base/fault"
	"bakeoff/lab/manifest"
	"bakeoff/provision/affinity"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
)

// Outside returns the place of the load generator on the host's own network, for contenders
// that are bare machines: on the CPUs that the subject does not use, or on all if subject is
// empty. shared tells that they are the subject's, because there are no others, or because
// the system holds no program to CPUs.
func (m *Manager) Outside(subject []int) (c conn.Conn, agent, dir string, shared bool) {
	c, agent, dir = m.cfg.Host, m.cfg.Agent, m.leases.EnvDir()
	if len(subject) == 0 {
		return c, agent, dir, false
	}
	argv, err := affinity.Prefix(SystemOf(m.cfg.Host), agent, m.layout.Others(subject), "")
	if err != nil {
		return c, agent, dir, true
	}
	return conn.Prefix(c, argv...), agent, dir, m.layout.Shared(len(subject))
}

// SystemOf is the system of a host, as GOOS names it.
func SystemOf(host conn.Conn) string {
	if m, ok := host.(interface{ Machine() channel.Machine }); ok {
		return m.Machine().GOOS
	}
	return runtime.GOOS
}

// direct is a way to a machine over ssh, which knows where ssh reaches the machine.
type direct interface {
	Direct(ctx context.Context) (netip.AddrPort, error)
}

// AddressOf is where a generator on another host reaches a bare machine: at the address in
// the lab file, or where ssh reaches the machine. This machine is reached at the address from
// which it reaches the generator. The error is of kind fault.Unsupported if that is not known.
func AddressOf(ctx context.Context, host conn.Conn, h manifest.Host, generator conn.Conn) (netip.Addr, error) {
	if h.Address != "" {
		a, err := netip.ParseAddr(h.Address)
		return a, fault.Wrap(fault.Invalid, "address", err)
	}
	fix := "write its address into the lab file: hosts: {NAME: {address: 192.0.2.7}}"
	to, ok := host.(direct)
	from, far := generator.(direct)
	if !ok && !far {
		return netip.Addr{}, fault.WithFix(fault.New(fault.Unsupported, "bakeoff does not know the address at "+
			"which the load generator reaches the machine"), fix)
	}
	if !ok {
		to = from
	}
	at, err := to.Direct(ctx)
	if err == nil && !ok {
		at, err = sourceTo(ctx, at)
	}
	if err != nil {
		return netip.Addr{}, fault.WithFix(fault.Wrap(fault.Unsupported,
			"cannot find the address at which the load generator reaches the machine", err), fix)
	}
	return at.Addr(), nil
}

// sourceTo is the address of this machine from which the system would send to another. It sends
// nothing.
func sourceTo(ctx context.Context, to netip.AddrPort) (netip.AddrPort, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp", to.String())
	if err != nil {
		return netip.AddrPort{}, err
	}
	defer c.Close()
	at, err := netip.ParseAddrPort(c.LocalAddr().String())
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port()), err
}

// portStep is the number of ports among which workloads choose, so that two environments never
// choose the same one, and hostPorts the number of environments of a host.
const (
	portStep  = 400
	hostPorts = 8
)

// takePorts returns the smallest number that no other environment of a bare machine has. Hosts
// begin with different numbers: two of them may be one machine.
func (m *Manager) takePorts() uint16 {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := uint16(m.cfg.Place) % 16 * hostPorts * portStep
	for m.ports[n] {
		n += portStep
	}
	m.ports[n] = true
	return n
}

// returnPorts gives the number of an environment back.
func (m *Manager) returnPorts(n uint16) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.ports, n)
}
