package network

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/guest"
	"bakeoff/provision/vm/filter"
	"bakeoff/reach/conn"
)

// On FreeBSD a network is a bridge(4) in the network stack of the host. A container is a jail
// with a stack of its own and an epair(4); the tap(4) of a machine is made by its hypervisor
// before Attach. pf(4) keeps the network apart from all others: bakeoff writes only rules in
// anchors below its own one, which the ruleset of the host must name.
//
// Source: bridge(4), epair(4), vlan(4), ifconfig(8), route(8), pf.conf(5), pfctl(8).

// anchor is the one of bakeoff. Below it, each network and each NIC has its own.
const anchor = "bakeoff"

// settings are those that the rules need. All bridges of the host have them in common.
var settings = map[string]string{"net.link.bridge.pfil_member": "1", "net.link.bridge.pfil_local_phys": "1",
	"net.link.bridge.pfil_onlyip": "1", "net.link.bridge.pfil_bridge": "0"}

// checkFreeBSD returns nil if a host can have networks of guests, otherwise an error of kind
// fault.Unsupported with the commands that make it so. It changes nothing.
func checkFreeBSD(ctx context.Context, host conn.Conn, nat bool) error {
	no := func(fix, format string, args ...any) error {
		return fault.WithFix(fault.New(fault.Unsupported, "networks of guests: "+format, args...), fix)
	}
	if a := guest.System(ctx, host, "FreeBSD"); !a.OK {
		return no(a.Fix, "%s", a.Reason)
	}
	wanted := maps.Clone(settings)
	if nat {
		wanted["net.inet.ip.forwarding"] = "1"
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		value, known, err := guest.Ask(ctx, host, "sysctl", "-n", name)
		switch {
		case err != nil:
			return err
		case !known:
			return no("kldload if_bridge", "the kernel has no setting %s", name)
		case value != wanted[name]:
			return no("run sysctl "+name+"="+wanted[name]+", and add that to /etc/sysctl.conf",
				"%s is %s, and it must be %s", name, value, wanted[name])
		}
	}
	lines := `add the lines nat-anchor "` + anchor + `/*" and anchor "` + anchor +
		`/*" to /etc/pf.conf, then run service pf enable and service pf restart`
	for _, x := range []struct{ show, text, lacks string }{{"info", "Status: Enabled", "pf is not enabled"},
		{"nat", `nat-anchor "` + anchor + `/*"`, "the ruleset of pf has no such nat-anchor"},
		{"rules", `anchor "` + anchor + `/*"`, "the ruleset of pf has no such anchor"}} {
		said, ok, err := guest.Ask(ctx, host, "pfctl", "-s", x.show)
		if err != nil {
			return err
		}
		if !ok || !strings.Contains("\n"+said, "\n"+x.text) {
			return no(lines, "%s", x.lacks)
		}
	}
	return nil
}

func (n *Network) run(ctx context.Context, argv ...string) error {
	return guest.Run(ctx, n.store.Host, argv...)
}

func (n *Network) hasInterface(ctx context.Context, name string) (bool, error) {
	_, have, err := guest.Ask(ctx, n.store.Host, "ifconfig", name)
	return have, err
}

// destroy destroys an interface, if it exists.
func (n *Network) destroy(ctx context.Context, name string) error {
	have, err := n.hasInterface(ctx, name)
	if err != nil || !have {
		return err
	}
	return n.run(ctx, "ifconfig", name, "destroy")
}

// pf replaces the rules of an anchor below that of bakeoff, all at once.
func (n *Network) pf(ctx context.Context, name, rules string) error {
	argv := []string{"pfctl", "-q", "-a", anchor + "/" + name, "-f", "-"}
	_, err := conn.OutputOf(ctx, n.store.Host, conn.Cmd{Argv: argv, Stdin: strings.NewReader(rules)})
	return fault.Op("pfctl", err)
}

// noPF removes an anchor below that of bakeoff, if it exists.
func (n *Network) noPF(ctx context.Context, name string) error {
	all, ok, err := guest.Ask(ctx, n.store.Host, "pfctl", "-a", anchor, "-s", "Anchors")
	if err != nil || !ok || !slices.Contains(strings.Fields(all), anchor+"/"+name) {
		return err
	}
	return n.run(ctx, "pfctl", "-q", "-a", anchor+"/"+name, "-F", "all")
}

// vlanLink is the interface for the frames of the uplink with the tag of the network.
func (n *Network) vlanLink() string { return "bov" + n.ID }

func (n *Network) upFreeBSD(ctx context.Context) error {
	if err := checkFreeBSD(ctx, n.store.Host, n.NAT); err != nil {
		return err
	}
	said, have, err := guest.Ask(ctx, n.store.Host, "ifconfig", n.hostLink())
	if err != nil {
		return err
	}
	if have && strings.Contains(said, "description: "+n.fingerprint()) {
		return n.pf(ctx, n.ID, n.rules()) // the ruleset of the host may have been loaded again
	}
	if err := n.down(ctx); err != nil { // of a command that was killed
		return err
	}
	if err := n.makeFreeBSD(ctx); err != nil {
		return fault.Op("network "+n.Name, errors.Join(err, n.down(context.WithoutCancel(ctx))))
	}
	return nil
}

// makeFreeBSD makes the bridge, after its rules. Its description is set last: it says that all
// is there.
func (n *Network) makeFreeBSD(ctx context.Context) error {
	br := n.hostLink()
	if err := n.pf(ctx, n.ID, n.rules()); err != nil {
		return err
	}
	// One command makes and names an interface: a controller that is killed leaves none without
	// its name.
	steps := [][]string{{"ifconfig", "bridge", "create", "name", br}, {"ifconfig", br, "mtu", fmt.Sprint(n.mtu())}}
	for _, p := range []netip.Prefix{n.subnet(false), n.subnet(true)} {
		if p.IsValid() {
			steps = append(steps, []string{"ifconfig", br, familyOf(p), p.String(), "alias"})
		}
	}
	if n.Uplink != "" && !n.NAT {
		member := n.Uplink
		if n.VLAN != 0 {
			member = n.vlanLink()
			steps = append(steps, []string{"ifconfig", "vlan", "create", "name", member},
				[]string{"ifconfig", member, "vlan", fmt.Sprint(n.VLAN), "vlandev", n.Uplink})
		}
		steps = append(steps, []string{"ifconfig", br, "addm", member}, []string{"ifconfig", member, "up"})
	}
	steps = append(steps, []string{"ifconfig", br, "up"}, []string{"ifconfig", br, "description", n.fingerprint()})
	for _, argv := range steps {
		if err := n.run(ctx, argv...); err != nil {
			return err
		}
	}
	return nil
}

// familyOf is what ifconfig calls the version of an address.
func familyOf(p netip.Prefix) string {
	if p.Addr().Is4() {
		return "inet"
	}
	return "inet6"
}

// rules are those of the bridge itself, where pf sees what is for this machine or comes from it.
// Guests reach no service of this machine; packets between guests are not seen here.
func (n *Network) rules() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	br, four := n.hostLink(), n.subnet(false).Masked()
	if n.NAT {
		line("nat on %s inet from %s to any -> (%s)", n.Uplink, four, n.Uplink)
	}
	line("pass in quick on %s inet proto icmp from any to (%s) no state", br, br)
	line("pass in quick on %s inet6 proto icmp6 from any to { (%s), fe80::/10, ff02::/16 } no state", br, br)
	line("block drop in quick on %s from any to (self)", br)
	if n.NAT {
		line("pass in quick on %s inet from %s to any keep state", br, four)
	}
	line("block drop in quick on %s all", br)
	line("pass out quick on %s from (%s) to any keep state", br, br)
	line("pass out quick on %s inet6 proto icmp6 all no state", br)
	line("block drop out quick on %s all", br) // answers have a state
	if n.NAT {
		line("block drop in quick on %s inet from any to %s", n.Uplink, four)
	}
	return b.String()
}

// downFreeBSD removes the bridge and the rules. A bridge that ends gives its members back.
func (n *Network) downFreeBSD(ctx context.Context) error {
	return errors.Join(n.destroy(ctx, n.hostLink()), n.destroy(ctx, n.vlanLink()), n.noPF(ctx, n.ID))
}

// prepareUplinkFreeBSD checks the uplink before anything is made.
func (n *Network) prepareUplinkFreeBSD(ctx context.Context) error {
	if n.Uplink == "" {
		return nil
	}
	said, have, err := guest.Ask(ctx, n.store.Host, "ifconfig", n.Uplink)
	switch {
	case err != nil:
		return err
	case !have:
		return fault.WithFix(fault.New(fault.Invalid, "uplink: this machine has no interface %s", n.Uplink),
			"see `ifconfig -l`")
	case n.NAT:
		return nil
	case n.MTU != 0:
		return fault.WithFix(fault.New(fault.Unsupported, "mtu: all members of a bridge have the MTU of the uplink %s",
			n.Uplink), "leave --mtu out")
	}
	for line := range strings.Lines(said) {
		f := strings.Fields(line)
		if n.VLAN == 0 && len(f) > 1 && (f[0] == "inet" || f[0] == "inet6" && !strings.HasPrefix(f[1], "fe80:")) {
			return fault.WithFix(fault.New(fault.Invalid, "uplink: in a bridge, the interface %s would lose its "+
				"address %s", n.Uplink, f[1]), "use another interface, add --vlan, or use --nat")
		}
	}
	return nil
}

// attachFreeBSD connects a NIC. The bridge gets a fixed place for its MAC address: no other guest
// can draw the frames for it to itself.
func (n *Network) attachFreeBSD(ctx context.Context, p Port, mtu int) error {
	if p.VLAN != 0 {
		return fault.New(fault.Unsupported, "vlan_id: %d: networks on FreeBSD have no VLANs", p.VLAN)
	}
	inner := ""
	if p.Veth != nil {
		// ifconfig prints the name, which tells that of the other end, unless it gives another one.
		outer, err := guest.Output(ctx, n.store.Host, "ifconfig", "epair", "create", "description", p.Link)
		if err != nil {
			return err
		}
		inner = strings.TrimSuffix(outer, "a") + "b"
		for _, argv := range [][]string{{"ifconfig", outer, "name", p.Link}, {"ifconfig", inner, "ether", p.Filter.MAC}} {
			if err := n.run(ctx, argv...); err != nil {
				return err
			}
		}
	}
	if err := n.Filter(ctx, p.Link, p.Filter); err != nil {
		return err
	}
	br := n.hostLink()
	for _, argv := range [][]string{{"ifconfig", p.Link, "mtu", fmt.Sprint(n.mtu())}, {"ifconfig", br, "addm", p.Link},
		{"ifconfig", br, "static", p.Link, p.Filter.MAC}, {"ifconfig", p.Link, "up"}} {
		if err := n.run(ctx, argv...); err != nil {
			return err
		}
	}
	if p.Veth == nil {
		return nil
	}
	return n.insideJail(ctx, *p.Veth, inner, mtu)
}

// insideJail moves the end of an epair into the stack of a jail, and configures it there.
func (n *Network) insideJail(ctx context.Context, v Veth, inner string, mtu int) error {
	steps := [][]string{{"ifconfig", inner, "vnet", v.Namespace}, {"ifconfig", "-j", v.Namespace, inner, "name", v.Name},
		{"ifconfig", "-j", v.Namespace, v.Name, "mtu", fmt.Sprint(mtu)}}
	for _, a := range v.Addresses {
		steps = append(steps, []string{"ifconfig", "-j", v.Namespace, v.Name, familyOf(a), a.String(), "alias"})
	}
	steps = append(steps, []string{"ifconfig", "-j", v.Namespace, v.Name, "up"})
	for _, argv := range steps {
		if err := n.run(ctx, argv...); err != nil {
			return err
		}
	}
	for _, r := range v.Routes {
		near := slices.ContainsFunc(v.Addresses, func(p netip.Prefix) bool { return p.Contains(r.Via) })
		if r.Via.IsValid() && !near { // a router in another network, at the same link
			if err := n.store.addRouteFreeBSD(ctx, v.Namespace, Route{To: r.Via.String(), Device: v.Name}); err != nil {
				return err
			}
		}
		if err := n.store.addRouteFreeBSD(ctx, v.Namespace, r); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) addRouteFreeBSD(ctx context.Context, jail string, r Route) error {
	argv := []string{"route", "-j", jail, "-n", "add"}
	switch {
	case r.To == defaultRoute:
		argv = append(argv, r.To)
	case strings.Contains(r.To, "/"):
		argv = append(argv, "-net", r.To)
	default:
		argv = append(argv, "-host", r.To)
	}
	if r.Via.IsValid() {
		return guest.Run(ctx, s.Host, append(argv, r.Via.String())...)
	}
	return guest.Run(ctx, s.Host, append(argv, "-interface", r.Device)...)
}

func (n *Network) filterFreeBSD(ctx context.Context, link string, f filter.NIC) error {
	rules, err := filter.PF(link, f)
	if err != nil {
		return err
	}
	return n.pf(ctx, link, rules)
}

func (n *Network) detachFreeBSD(ctx context.Context, link string) error {
	all, err := guest.Output(ctx, n.store.Host, "ifconfig", "-a")
	if err != nil {
		return err
	}
	if name := described(all, link); name != "" {
		err = n.destroy(ctx, name)
	}
	return errors.Join(err, n.destroy(ctx, link), n.noPF(ctx, link))
}

// described is the interface with a description in the output of `ifconfig -a`.
func described(list, description string) (name string) {
	for line := range strings.Lines(list) {
		if !strings.HasPrefix(line, "\t") {
			name, _, _ = strings.Cut(line, ":")
		} else if strings.TrimSpace(line) == "description: "+description {
			return name
		}
	}
	return ""
}
