package vm

import (
	"net/netip"
	"path/filepath"

	"bakeoff/base/fault"
)

// portSSH is the port of SSH servers.
const portSSH = 22

// SSHServer is where the SSH server of a running guest is reached: by a published port, or,
// in a network namespace of this machine ("" for none), at an address of the guest. An error
// of kind fault.Unsupported says what would make it reachable.
func (g *Guest) SSHServer() (namespace string, at netip.AddrPort, err error) {
	if g.State != Running {
		return "", at, fault.WithFix(fault.New(fault.Unsupported, "guest %s is %s", g.UUID, g.State),
			"run bakeoff vm start "+g.UUID)
	}
	for _, text := range g.Reached {
		if p, err := ParsePort(text); err == nil && p.Guest == portSSH {
			return "", p.Host, nil
		}
	}
	for _, nic := range g.NICs {
		n, err := g.store.Networks().Find(nic.NicTag)
		if err != nil || nic.VLAN != 0 { // this machine has no address in a VLAN
			continue
		}
		if a := n.AddressOf(memberOf(g.Guest, nic, n)); a.IsValid() {
			return filepath.Join("/run/netns", n.Namespace()), netip.AddrPortFrom(a, portSSH), nil
		}
	}
	return "", at, fault.WithFix(fault.New(fault.Unsupported, "this machine does not reach port %d of guest %s", portSSH,
		g.UUID), `publish the port (ports: ["2222:22"]), or put a NIC into a network of bakeoff vm network`)
}
