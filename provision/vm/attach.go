package vm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/lists"
	"bakeoff/provision/driver/jail"
	"bakeoff/provision/netns"
	"bakeoff/provision/vm/filter"
	"bakeoff/provision/vm/manifest"
	"bakeoff/provision/vm/network"
	"bakeoff/reach/conn"
)

// Networks are the networks of guests of this machine.
func (s *Store) Networks() *network.Store {
	return &network.Store{State: s.State, Host: s.Host, At: leaseMachine{}, System: s.System}
}

// Tags finds the network that a nic_tag names; nil if there is none.
type Tags func(tag string) *network.Network

// Tags finds networks that exist, and those that are declared beside the guests.
func (s *Store) Tags(declared ...manifest.Network) Tags {
	return func(tag string) *network.Network {
		if i := slices.IndexFunc(declared, func(d manifest.Network) bool { return d.Name == tag }); i >= 0 {
			return &network.Network{Network: declared[i]}
		}
		if n, err := s.Networks().Find(tag); err == nil {
			return n
		}
		return nil
	}
}

// nameForm is what a name server can say of a guest.
var nameForm = lazy.Compile(`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$`)

// members are the NICs of all guests in a network.
func (s *Store) members(n *network.Network) ([]network.Member, error) {
	all, err := s.List()
	var out []network.Member
	for _, g := range all {
		for _, nic := range g.NICs {
			if nic.NicTag == n.Name {
				out = append(out, memberOf(g.Guest, nic, n))
			}
		}
	}
	return out, err
}

// MembersOf are the names of the guests that have a NIC in a network.
func (s *Store) MembersOf(tag string) (out []string, err error) {
	all, err := s.List()
	for _, g := range all {
		if slices.ContainsFunc(g.NICs, func(n manifest.NIC) bool { return n.NicTag == tag }) {
			out = append(out, g.name())
		}
	}
	return out, err
}

// name is what people call the guest.
func (g *Guest) name() string {
	if g.Alias != "" {
		return g.Alias
	}
	return g.UUID
}

func memberOf(g manifest.Guest, nic manifest.NIC, n *network.Network) network.Member {
	m := network.Member{MAC: nic.MAC, VLAN: nic.VLAN, MTU: nic.MTU, DHCP: wantsAddress(nic)}
	for _, name := range []string{g.Alias, g.Hostname} {
		if nameForm.MatchString(name) && !slices.Contains(m.Names, name) {
			m.Names = append(m.Names, name)
		}
	}
	for _, text := range nic.IPs {
		if p, err := netip.ParsePrefix(text); err == nil {
			m.Addresses = append(m.Addresses, p.Addr())
		}
	}
	if slices.Contains(nic.IPs, "addrconf") && n.Prefix6().IsValid() && nic.VLAN == 0 {
		m.Addresses = append(m.Addresses, filter.EUI64(n.Prefix6(), nic.MAC)) // also by DHCPv6
	}
	m.Routers = addresses(nic.Gateways)
	if nic.Primary {
		m.Resolvers = addresses(g.Resolvers)
		if len(m.Routers) == 0 && n.NAT {
			m.Routers = []netip.Addr{n.Gateway()}
		}
	} else {
		m.Routers = nil
	}
	return m
}

// wantsAddress reports whether the network gives the NIC its IPv4 address.
func wantsAddress(n manifest.NIC) bool { return len(n.IPs) == 0 || slices.Contains(n.IPs, "dhcp") }

func addresses(texts []string) (out []netip.Addr) {
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, a)
		}
	}
	return out
}

// connection is a NIC of a guest in a network.
type connection struct {
	*network.Network
	nic    manifest.NIC
	member network.Member
	link   string
	// firewall is nil without one.
	firewall *filter.Firewall
}

// connections are those of the NICs whose networks exist.
func (g *Guest) connections() (out []connection, err error) {
	for i, nic := range g.NICs {
		n, err := g.store.Networks().Find(nic.NicTag)
		if fault.Is(err, fault.NotFound) && g.Brand.Machine() {
			continue // a network of its own
		}
		if err != nil {
			return nil, fault.Op(fmt.Sprintf("nics.%d.nic_tag", i), err)
		}
		c := connection{Network: n, nic: nic, member: memberOf(g.Guest, nic, n), link: network.Link(g.UUID, nic.MAC)}
		if g.FirewallEnabled {
			c.firewall = firewallOf(g.Guest, nic, n)
		}
		out = append(out, c)
	}
	return out, nil
}

// firewallOf is the firewall of a NIC: this machine reaches the ports that it publishes.
func firewallOf(g manifest.Guest, nic manifest.NIC, n *network.Network) *filter.Firewall {
	var f filter.Firewall
	if !nic.Primary || nic.VLAN != 0 {
		return &f
	}
	for _, text := range n.Subnets {
		if p, err := netip.ParsePrefix(text); err == nil {
			f.Hosts = append(f.Hosts, p.Addr())
		}
	}
	for _, text := range g.Ports {
		if p, err := ParsePort(text); err == nil {
			f.Ports = append(f.Ports, int(p.Guest))
		}
	}
	return &f
}

// ready brings the networks of the guest up.
func (g *Guest) ready(ctx context.Context) ([]connection, error) {
	all, err := g.connections()
	if err != nil {
		return nil, err
	}
	up := map[string]*network.Network{}
	for i, c := range all {
		if up[c.ID] == nil {
			members, err := g.store.members(c.Network)
			if err == nil {
				err = c.Ready(ctx, members)
			}
			if err != nil {
				return nil, err
			}
			up[c.ID] = c.Network
		}
		all[i].Network = up[c.ID]
	}
	return all, nil
}

// refreshNetworks tells the networks of some NICs about a change.
func (s *Store) refreshNetworks(ctx context.Context, nics ...manifest.NIC) error {
	var errs []error
	for _, tag := range tagsOf(nics) {
		n, err := s.Networks().Find(tag)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		var members []network.Member
		if err == nil {
			members, err = s.members(n)
		}
		if err == nil {
			err = n.Refresh(ctx, members)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func tagsOf(nics []manifest.NIC) (out []string) {
	return lists.AddNew(out, lists.Map(nics, func(n manifest.NIC) string { return n.NicTag })...)
}

// filter is what the guest may send from the NIC.
func (c connection) filter() filter.NIC {
	n := c.nic
	f := filter.NIC{MAC: n.MAC, BlockedPorts: n.BlockedOutgoingPorts, AllowMACSpoofing: n.AllowMACSpoofing,
		AllowRestrictedTraffic: n.AllowRestrictedTraffic, AllowIPSpoofing: n.AllowIPSpoofing,
		AllowDHCPSpoofing: n.AllowDHCPSpoofing || n.DHCPServer, AllowUnfilteredPromisc: n.AllowUnfilteredPromisc,
		Firewall: c.firewall}
	all := c.addresses()
	if slices.Contains(n.IPs, "addrconf") && c.Prefix6().IsValid() {
		f.Autoconf = []netip.Prefix{c.Prefix6()}
	}
	for _, p := range all {
		f.Addresses = append(f.Addresses, netip.PrefixFrom(p.Addr(), p.Addr().BitLen()))
	}
	for _, text := range n.AllowedIPs {
		if p, err := netip.ParsePrefix(text); err == nil {
			f.Addresses = append(f.Addresses, p)
		} else if a, err := netip.ParseAddr(text); err == nil {
			f.Addresses = append(f.Addresses, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	if a, err := netip.ParseAddr(n.VRRPPrimaryIP); err == nil {
		f.Addresses = append(f.Addresses, netip.PrefixFrom(a, a.BitLen()))
	}
	for _, text := range n.AllowedDHCPCIDs {
		if id, err := filter.ParseClientID(text); err == nil { // Fit has checked it
			f.ClientIDs = append(f.ClientIDs, id)
		}
	}
	f.AnyClientID = len(f.ClientIDs) == 0 && (wantsAddress(n) || slices.Contains(n.IPs, "addrconf"))
	return f
}

// addresses are those of the NIC with the lengths of their networks.
func (c connection) addresses() (out []netip.Prefix) {
	for _, text := range c.nic.IPs {
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p)
		}
	}
	if a, ok := c.Reserved[c.nic.MAC]; ok && c.member.DHCP {
		out = append(out, netip.PrefixFrom(a, c.Subnet4().Bits()))
	}
	return out
}

// attachTap connects the tap device of a machine.
func (c connection) attachTap(ctx context.Context) error {
	return c.Attach(ctx, network.Port{Link: c.link, VLAN: c.nic.VLAN, MTU: c.nic.MTU, Filter: c.filter()})
}

// detach removes what is left of the NICs of a guest in networks.
func (s *Store) detach(ctx context.Context, all []connection) error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.Detach(ctx, c.link))
	}
	return errors.Join(errs...)
}

// connectContainer gives a container its NICs, routes and name servers.
func (v *supervisor) connectContainer(ctx context.Context, inside conn.Conn) (err error) {
	if v.joined, err = v.g.ready(ctx); err != nil {
		return err
	}
	own := netns.Own(label(v.g.UUID))
	if jailed(v.g.Guest) {
		own = jail.Name(label(v.g.UUID))
	}
	for _, c := range v.joined {
		veth := network.Veth{Namespace: own, Name: c.nic.Interface, Addresses: c.addresses(),
			Autoconf: slices.Contains(c.nic.IPs, "addrconf")}
		if len(c.member.Routers) > 0 {
			veth.Routes = []network.Route{network.DefaultRoute(c.member.Routers[0], c.nic.Interface)}
		}
		if err := c.Attach(ctx, network.Port{Link: c.link, VLAN: c.nic.VLAN, MTU: c.nic.MTU, Filter: c.filter(),
			Veth: &veth}); err != nil {
			return err
		}
	}
	routes, err := routesOf(v.g.Guest)
	if err == nil {
		err = v.g.store.Networks().AddRoutes(ctx, own, routes...)
	}
	if err != nil {
		return err
	}
	if err := v.forwardInside(ctx, own); err != nil {
		return err
	}
	if text := v.resolvConf(v.g.Resolvers); text != "" {
		return inside.Push(ctx, fileResolvers, 0o644, strings.NewReader(text))
	}
	return nil
}

// fileResolvers names the name servers of a container.
const fileResolvers = "/etc/resolv.conf"

// resolvConf is the text of that file: the resolvers of a manifest, or else the name server of a network.
func (v *supervisor) resolvConf(resolvers []string) string {
	all := addresses(resolvers)
	for _, c := range v.joined {
		if a := v.g.store.resolverOf(c); a.IsValid() && len(all) == 0 {
			all = []netip.Addr{a}
		}
	}
	var text strings.Builder
	for _, a := range all {
		fmt.Fprintf(&text, "nameserver %s\n", a)
	}
	return text.String()
}

// applyResolvers gives a running container with maintain_resolvers the name servers of its manifest, if they
// differ from those of an old one.
func (g *Guest) applyResolvers(ctx context.Context, old manifest.Guest) error {
	if g.State != Running || !g.InNamespaces() || !g.MaintainResolvers ||
		old.MaintainResolvers && slices.Equal(old.Resolvers, g.Resolvers) {
		return nil
	}
	return g.ask(ctx, request{Do: "resolvers", Resolvers: g.Resolvers})
}

// routesOf are the routes of the manifest of a container.
func routesOf(g manifest.Guest) (routes []network.Route, err error) {
	for _, to := range slices.Sorted(maps.Keys(g.Routes)) {
		by := fmt.Sprint(g.Routes[to])
		r := network.Route{To: to}
		if kind, rest, ok := strings.Cut(strings.TrimSuffix(by, "]"), "["); ok {
			i, err := strconv.Atoi(rest)
			if kind == "macs" || err != nil {
				i = slices.IndexFunc(g.NICs, func(n manifest.NIC) bool { return n.MAC == strings.ToLower(rest) })
			}
			if i < 0 || i >= len(g.NICs) {
				return nil, fault.New(fault.Invalid, "routes.%s: %s is not a NIC of the guest", to, by)
			}
			r.Device = g.NICs[i].Interface
		} else if a, err := netip.ParseAddr(by); err == nil {
			r.Via = a
		} else {
			return nil, fault.New(fault.Invalid, "routes.%s: %s is not an address", to, by)
		}
		routes = append(routes, r)
	}
	return routes, nil
}

// addressing are the NICs of a container with their addresses, and all its routes.
func (g *Guest) addressing(m manifest.Guest) (nics []network.Veth, routes []network.Route, err error) {
	all, err := (&Guest{Guest: m, store: g.store}).connections()
	if err != nil {
		return nil, nil, err
	}
	for _, c := range all {
		nics = append(nics, network.Veth{Name: c.nic.Interface, Addresses: c.addresses()})
		if len(c.member.Routers) > 0 {
			routes = append(routes, network.DefaultRoute(c.member.Routers[0], c.nic.Interface))
		}
	}
	more, err := routesOf(m)
	return nics, append(routes, more...), err
}

// applyAddresses gives the NICs of a running container the addresses of its manifest, and their routes. If
// that fails, it has the old ones.
func (g *Guest) applyAddresses(ctx context.Context, old manifest.Guest) error {
	before, oldRoutes, err := g.addressing(old)
	if err != nil {
		return err
	}
	after, routes, err := g.addressing(g.Guest)
	if err != nil {
		return err
	}
	own, networks := netns.Own(label(g.UUID)), g.store.Networks()
	changed := func(all, others []network.Veth) (out []network.Veth) {
		for i, v := range all {
			if !slices.Equal(v.Addresses, others[i].Addresses) {
				out = append(out, v)
			}
		}
		return out
	}
	if err = networks.ReplaceAddresses(ctx, own, changed(after, before), routes); err != nil {
		err = errors.Join(fault.Wrap(fault.Invalid, "nics", err),
			networks.ReplaceAddresses(context.WithoutCancel(ctx), own, changed(before, after), oldRoutes))
	}
	return err
}

// applyRoutes gives a running container the addresses and routes of its manifest in place of those of an old
// one. If that fails, it has the old ones.
func (g *Guest) applyRoutes(ctx context.Context, old manifest.Guest) error {
	live := func(c manifest.Change) bool { return c.When == manifest.Live && strings.HasPrefix(c.Path, "routes.") }
	if g.State == Running && manifest.AddressesLive(old, g.Guest) {
		return g.applyAddresses(ctx, old)
	}
	if g.State != Running || !slices.ContainsFunc(manifest.Diff(old, g.Guest), live) {
		return nil
	}
	before, err := routesOf(old)
	if err != nil {
		return err
	}
	after, err := routesOf(g.Guest)
	if err != nil {
		return err
	}
	without := func(all, others []network.Route) []network.Route {
		return slices.DeleteFunc(slices.Clone(all), func(r network.Route) bool { return slices.Contains(others, r) })
	}
	err = g.store.Networks().ReplaceRoutes(ctx, netns.Own(label(g.UUID)), without(before, after), without(after, before))
	return fault.WithFix(fault.Wrap(fault.Invalid, "routes", err),
		"if a route needs an update that takes effect at the next boot, stop the guest first")
}

// forwardInside makes a container a gateway if it may send packets of others: its programs
// cannot change that setting.
func (v *supervisor) forwardInside(ctx context.Context, own string) error {
	if jailed(v.g.Guest) { // root in a jail has that setting itself
		return nil
	}
	speaksForOthers := func(n manifest.NIC) bool { return n.AllowIPSpoofing || len(n.AllowedIPs) > 0 }
	if !slices.ContainsFunc(v.g.NICs, speaksForOthers) {
		return nil
	}
	in := conn.FilesOf(netns.Within(v.g.store.Host, own))
	err := in.WriteFile(ctx, "/proc/sys/net/ipv4/ip_forward", []byte("1"))
	if err == nil {
		err = in.WriteFile(ctx, "/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"))
	}
	if fault.Is(err, fault.NotFound) { // a kernel without IPv6
		return nil
	}
	return err
}

// applyFilters gives the NICs that are connected the rules of the manifest.
func (g *Guest) applyFilters(ctx context.Context) error {
	all, err := g.connections()
	if err != nil {
		return err
	}
	for _, c := range all {
		if have, err := c.HasLink(ctx, c.link); err != nil {
			return err
		} else if have {
			if err := c.Filter(ctx, c.link, c.filter()); err != nil {
				return err
			}
		}
	}
	return nil
}

// taps are the arguments of the agent that opens the tap devices of a machine.
func taps(all []connection) (argv []string) {
	for _, c := range all {
		argv = append(argv, netns.Path(c.Namespace())+"="+c.link)
	}
	return argv
}
