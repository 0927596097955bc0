package env

import (
	"context"
	"net/netip"
	"testing"

	"bakeoff/lab/manifest"
	"bakeoff/reach/conn/local"
)

// No two environments have ports in common, also on two hosts that are one machine, and what
// is given back is taken again.
func TestPorts(t *testing.T) {
	seen := map[uint16]bool{}
	for place := range byte(3) {
		m := &Manager{cfg: Config{Place: place}, ports: map[uint16]bool{}}
		first := m.takePorts()
		for _, n := range []uint16{first, m.takePorts(), m.takePorts()} {
			if seen[n] || n%portStep != 0 {
				t.Errorf("host %d: ports %d", place, n)
			}
			seen[n] = true
		}
		m.returnPorts(first)
		if n := m.takePorts(); n != first {
			t.Errorf("host %d: %d instead of %d", place, n, first)
		}
	}
}

// far is a machine that ssh reaches at the loopback address.
type far struct{ local.Conn }

func (far) Direct(context.Context) (netip.AddrPort, error) {
	return netip.MustParseAddrPort("127.0.0.1:22"), nil
}

// The address in the lab file is the one of the machine. Without it, this machine has one for a
// generator that ssh reaches only.
func TestAddressOf(t *testing.T) {
	a, err := AddressOf(t.Context(), local.Conn{}, manifest.Host{Address: "192.0.2.7"}, nil)
	if err != nil || a.String() != "192.0.2.7" {
		t.Errorf("%v, %v", a, err)
	}
	if a, err := AddressOf(t.Context(), local.Conn{}, manifest.Host{}, local.Conn{}); err == nil {
		t.Errorf("this machine has the address %v", a)
	}
	if a, err := AddressOf(t.Context(), local.Conn{}, manifest.Host{}, far{}); err != nil || a.String() != "127.0.0.1" {
		t.Errorf("for a generator at the loopback address: %v, %v", a, err)
	}
}
