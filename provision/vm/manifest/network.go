package manifest

import (
	"fmt"
	"net/netip"
	"strconv"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/yamltree"
)

// Network is a network of guests; NICs name it by nic_tag. In a manifest it stands between the
// guests, with the property network instead of brand.
type Network struct {
	Name string `json:"network"`
	// Subnets are at most one of IPv4 and one of IPv6, each with the address that this machine
	// has in it: 10.0.0.1/24. A network address stands for its first host.
	Subnets []string `json:"subnet,omitempty"`
	// NAT leads guests out, with the address of this machine at Uplink.
	NAT bool `json:"nat,omitzero"`
	// Uplink is a network interface of this machine. Without NAT it becomes a part of the network.
	Uplink string `json:"uplink,omitzero"`
	VLAN   int    `json:"vlan_id,omitzero"` // tag of the frames at Uplink
	MTU    int    `json:"mtu,omitzero"`     // 0 is 1500
}

var linkForm = lazy.Compile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$`)

// CheckNetwork completes a network and returns what is wrong with it: an error of kind
// fault.Invalid with Problems.
func CheckNetwork(n *Network) error {
	x := &reader{nodes: map[string]*yamltree.Node{}}
	x.checkNetwork(n)
	if len(x.problems) > 0 {
		return fault.Wrap(fault.Invalid, "", x.problems)
	}
	return nil
}

func (x *reader) checkNetwork(n *Network) {
	if !tagForm.MatchString(n.Name) {
		x.add("network", "it is not a name of a network", "use at most 31 letters, digits, _ and /")
	}
	var four, six bool
	for i, text := range n.Subnets {
		at := "subnet." + strconv.Itoa(i)
		p, err := netip.ParsePrefix(text)
		switch {
		case err != nil:
			x.add(at, "it is not a network", "write, for example, 10.0.0.0/24")
			continue
		case p.Addr().Is4() && (p.Bits() < 8 || p.Bits() > 30), p.Addr().Is6() && (p.Bits() < 16 || p.Bits() > 126):
			x.add(at, "the prefix length is out of range", "write /8 to /30, or /16 to /126 for IPv6")
			continue
		case p.Addr().Is4In6() || p.Addr().IsMulticast() || p.Addr().IsLoopback() || p.Addr().IsLinkLocalUnicast() ||
			p.Masked().Addr().IsUnspecified():
			x.add(at, "these addresses cannot be used for hosts", "write a private network such as 10.0.0.0/24")
			continue
		case p.Addr().Is4() && four || p.Addr().Is6() && six:
			x.add(at, "the network already has a subnet of this IP version", "write at most one subnet of IPv4 and one of IPv6")
		}
		four, six = four || p.Addr().Is4(), six || p.Addr().Is6()
		if p.Addr() == p.Masked().Addr() {
			p = netip.PrefixFrom(p.Addr().Next(), p.Bits())
		}
		n.Subnets[i] = p.String()
	}
	switch {
	case n.NAT && n.Uplink == "":
		x.add("nat", "NAT needs an interface to other networks", "add uplink, such as uplink: eth0")
	case n.NAT && !four:
		x.add("nat", "NAT needs an IPv4 subnet", "add subnet, such as subnet: 10.0.0.0/24")
	case n.NAT && n.VLAN != 0:
		x.add("vlan_id", "with NAT, frames of the network do not leave this machine, so a tag has no effect", "remove it")
	case n.VLAN != 0 && n.Uplink == "":
		x.add("vlan_id", "only frames at an uplink have a tag", "add uplink, or write vlan_id at the NICs")
	}
	if n.Uplink != "" && !linkForm.MatchString(n.Uplink) {
		x.add("uplink", "it is not a name of a network interface", "see `ip link`")
	}
	if n.VLAN < 0 || n.VLAN > MaxVLAN {
		x.add("vlan_id", "it is out of range", fmt.Sprintf("write 1 to %d", MaxVLAN))
	}
	if n.MTU != 0 && (n.MTU < 576 || n.MTU > 9000 || six && n.MTU < 1280) {
		x.add("mtu", "it is out of range", "write 576 to 9000, or 1280 to 9000 with IPv6")
	}
}

// MaxVLAN is the greatest tag of a VLAN; 4095 is reserved (IEEE 802.1Q).
const MaxVLAN = 4094
