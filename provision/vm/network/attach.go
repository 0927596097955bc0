package network

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"bakeoff/base/fault"
	"bakeoff/provision/netns"
	"bakeoff/provision/vm/filter"
	"bakeoff/reach/conn"
)

// Link is the end of a NIC in the namespace of its network: a tap device or a veth. guest is
// the guest's UUID.
func Link(guest, mac string) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s", guest, mac)
	return fmt.Sprintf("bog%012x", h.Sum64()&(1<<48-1))
}

// Port is a NIC that is connected.
type Port struct {
	Link   string
	VLAN   int
	MTU    int // 0 is that of the network
	Filter filter.NIC
	// Veth is the other end; nil is a tap device, which exists.
	Veth *Veth
}

// Veth is the end of a veth in the namespace of a container; on FreeBSD, that of an epair in the
// jail with this name.
type Veth struct {
	Namespace, Name string
	Addresses       []netip.Prefix
	Autoconf        bool // IPv6 addresses by router advertisements
	Routes          []Route
}

// Route leads to a network by a router, or by an interface alone.
type Route struct {
	To     string // an address or a network of IPv4, or defaultRoute
	Via    netip.Addr
	Device string // "" is the one that reaches Via
}

const defaultRoute = "default"

// DefaultRoute leads to everything else by a router at the link of an interface.
func DefaultRoute(via netip.Addr, device string) Route { return Route{defaultRoute, via, device} }

// words are those of ip(8).
func (r Route) words() string {
	words := "route add " + r.To
	if r.Via.IsValid() {
		words += " via " + r.Via.String()
	}
	if r.Device != "" {
		words += " dev " + r.Device
	}
	if r.Via.IsValid() && r.Device != "" {
		words += " onlink"
	}
	return words
}

// AddRoutes adds routes in the namespace or the jail of a container.
func (s *Store) AddRoutes(ctx context.Context, where string, routes ...Route) error {
	if len(routes) == 0 {
		return nil
	}
	var commands []string
	for _, r := range routes {
		if s.freebsd() {
			if err := s.addRouteFreeBSD(ctx, where, r); err != nil {
				return err
			}
		}
		commands = append(commands, r.words())
	}
	if s.freebsd() {
		return nil
	}
	return netns.IP(ctx, s.Host, where, commands...)
}

// ReplaceRoutes removes the routes to some destinations, and adds others, in the namespace of a container
// that runs. If that fails, the old routes are there again.
func (s *Store) ReplaceRoutes(ctx context.Context, where string, old, new []Route) error {
	err := netns.IP(ctx, s.Host, where, replacing(old, new)...)
	if err != nil {
		err = errors.Join(err, netns.IP(context.WithoutCancel(ctx), s.Host, where, replacing(new, old)...))
	}
	return err
}

// replacing are commands of ip(8). Routes of bakeoff have the protocol boot, and those of addresses have
// the protocol kernel.
func replacing(old, new []Route) (commands []string) {
	for _, r := range old {
		commands = append(commands, "route flush exact "+r.To+" proto boot")
	}
	for _, r := range new {
		commands = append(commands, r.words())
	}
	return commands
}

// ReplaceAddresses gives some NICs in the namespace of a container that runs their addresses, in place of the
// addresses that they have, and all NICs their routes.
func (s *Store) ReplaceAddresses(ctx context.Context, where string, nics []Veth, routes []Route) error {
	var commands []string
	for _, v := range nics {
		commands = append(commands, "addr flush dev "+v.Name+" scope global")
		commands = append(commands, v.addressWords()...)
	}
	commands = append(commands, "route flush proto boot")
	for _, r := range routes {
		commands = append(commands, r.words())
	}
	return netns.IP(ctx, s.Host, where, commands...)
}

// addressWords are the commands of ip(8) that add the addresses.
func (v *Veth) addressWords() (commands []string) {
	for _, a := range v.Addresses {
		flags := ""
		if a.Addr().Is6() {
			flags = " nodad" // nobody else has it: see conflict
		}
		commands = append(commands, fmt.Sprintf("addr add %s dev %s%s", a, v.Name, flags))
	}
	return commands
}

// Ready brings the network up, and gives its members their addresses and names.
func (n *Network) Ready(ctx context.Context, members []Member) error {
	return n.store.locked(ctx, func() error {
		if err := n.renew(); err != nil {
			return err
		}
		if err := n.up(ctx); err != nil {
			return err
		}
		if err := n.reserve(members); err != nil || n.store.freebsd() { // which has no dnsmasq
			return err
		}
		return n.publish(members)
	})
}

// Refresh gives the members of a network that is up their addresses and names.
func (n *Network) Refresh(ctx context.Context, members []Member) error {
	have, err := n.exists(ctx)
	if err != nil || !have {
		return err
	}
	return n.Ready(ctx, members)
}

// renew reads the file again: another process may have changed or removed the network.
func (n *Network) renew() error {
	now, err := n.store.Find(n.Name)
	if err == nil {
		*n = *now
	}
	return err
}

// Serve brings dnsmasq up if it has ended.
func (n *Network) Serve(ctx context.Context) error {
	if len(n.Subnets) == 0 || n.store.freebsd() || n.server() != 0 {
		return nil
	}
	return n.store.locked(ctx, func() error { return errors.Join(n.renew(), n.up(ctx)) })
}

// Attach connects a NIC. Its rules apply before its first frame reaches the bridge.
func (n *Network) Attach(ctx context.Context, p Port) error {
	return n.store.locked(ctx, func() (err error) {
		mtu := n.mtu()
		if p.MTU > mtu {
			return fault.WithFix(fault.New(fault.Invalid, "mtu: %d is more than the MTU of network %s, %d", p.MTU, n.Name, mtu),
				"write a smaller mtu, or create the network with a larger --mtu")
		}
		if p.MTU > 0 {
			mtu = p.MTU
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, n.detach(context.WithoutCancel(ctx), p.Link))
			}
		}()
		if n.store.freebsd() {
			return n.attachFreeBSD(ctx, p, mtu)
		}
		if err := n.addBridge(ctx, p.VLAN); err != nil {
			return err
		}
		if v := p.Veth; v != nil {
			if err := n.ip(ctx, fmt.Sprintf("link add %s mtu %d type veth peer name %s netns %s", p.Link, mtu, v.Name,
				v.Namespace)); err != nil {
				return err
			}
		}
		if err := n.Filter(ctx, p.Link, p.Filter); err != nil {
			return err
		}
		commands := []string{"link set " + p.Link + " addrgenmode none", fmt.Sprintf("link set %s mtu %d", p.Link, mtu),
			"link set " + p.Link + " master " + bridgeOf(p.VLAN), "link set " + p.Link + " up"}
		if err := n.ip(ctx, commands...); err != nil {
			return err
		}
		return n.inside(ctx, p, mtu)
	})
}

// inside configures the end of a veth in a container.
func (n *Network) inside(ctx context.Context, p Port, mtu int) error {
	v := p.Veth
	if v == nil {
		return nil
	}
	commands := []string{fmt.Sprintf("link set %s address %s mtu %d", v.Name, p.Filter.MAC, mtu)}
	commands = append(commands, v.addressWords()...)
	if !v.Autoconf {
		file := "/proc/sys/net/ipv6/conf/" + v.Name + "/accept_ra"
		err := conn.FilesOf(netns.Within(n.store.Host, v.Namespace)).WriteFile(ctx, file, []byte("0"))
		if err != nil && !fault.Is(err, fault.NotFound) { // a kernel without IPv6
			return err
		}
	}
	commands = append(commands, "link set "+v.Name+" up")
	for _, r := range v.Routes {
		commands = append(commands, r.words())
	}
	return netns.IP(ctx, n.store.Host, v.Namespace, commands...)
}

// Filter gives the end of a NIC its rules, in place of those that it has.
func (n *Network) Filter(ctx context.Context, link string, f filter.NIC) error {
	if n.store.freebsd() {
		return n.filterFreeBSD(ctx, link, f)
	}
	f.Near = near.Load()
	rules, err := filter.Rules(link, f)
	if err != nil {
		return err
	}
	err = nft(ctx, n.within(), rules)
	if err == nil || f.Near || !strings.Contains(err.Error(), outOfRange) {
		return err
	}
	if len(f.ClientIDs) > 0 {
		return fault.WithFix(fault.New(fault.Unsupported, "allowed_dhcp_cids: nftables of this kernel do not read packets "+
			"far enough to find the identifier of a DHCP client"), "remove it, or use a newer kernel")
	}
	near.Store(true)
	return n.Filter(ctx, link, f)
}

// outOfRange is what nft says when a place in a packet is too far behind for the kernel.
const outOfRange = "Numerical result out of range"

// near is whether this kernel needs filter.NIC.Near.
var near atomic.Bool

// HasLink reports whether a NIC is connected.
func (n *Network) HasLink(ctx context.Context, link string) (bool, error) {
	if n.store.freebsd() {
		return n.hasInterface(ctx, link)
	}
	have, err := netns.Exists(ctx, n.store.Host, n.Namespace())
	if err != nil || !have {
		return false, err
	}
	return netns.HasLink(ctx, n.store.Host, n.Namespace(), link)
}

// Detach removes the end of a NIC and its rules. What does not exist is not an error.
func (n *Network) Detach(ctx context.Context, links ...string) error {
	return n.store.locked(ctx, func() error {
		var errs []error
		for _, link := range links {
			errs = append(errs, n.detach(ctx, link))
		}
		return errors.Join(errs...)
	})
}

func (n *Network) detach(ctx context.Context, link string) error {
	if n.store.freebsd() {
		return n.detachFreeBSD(ctx, link)
	}
	if up, err := netns.Exists(ctx, n.store.Host, n.Namespace()); err != nil || !up {
		return err
	}
	return errors.Join(netns.DeleteLink(ctx, n.store.Host, n.Namespace(), link),
		nft(ctx, n.within(), filter.Remove(link)))
}

// AddressOf is the address of a member for connections from this machine; invalid if it has
// none in the network.
func (n *Network) AddressOf(m Member) netip.Addr {
	all := slices.Clone(m.Addresses)
	if a, ok := n.Reserved[m.MAC]; ok {
		all = append(all, a)
	}
	for _, a := range all {
		for _, six := range []bool{false, true} {
			if n.subnet(six).IsValid() && n.subnet(six).Contains(a) {
				return a
			}
		}
	}
	return netip.Addr{}
}
