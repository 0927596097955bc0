package network

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/netns"
	"bakeoff/reach/conn"
)

// The names of interfaces in the namespace of a network. The name of an uplink does not begin
// with "_".
const (
	bridge  = "_br0"
	outward = "up0" // its end of the link that NAT uses
)

// hostLink is the end of that link on this machine, and hostTable the table of nft there.
func (n *Network) hostLink() string  { return "bon" + n.ID }
func (n *Network) hostTable() string { return "bakeoff_" + n.ID }

// bridgeOf is the bridge of a VLAN; 0 is that of frames without a tag. taggedOf is the interface
// for the frames of the uplink that have the tag.
func bridgeOf(vlan int) string { return "_br" + strconv.Itoa(vlan) }

func taggedOf(vlan int) string { return "_vlan" + strconv.Itoa(vlan) }

// fingerprint changes with what the namespace depends on.
func (n *Network) fingerprint() string {
	h := fnv.New64a()
	fmt.Fprint(h, n.Subnets, n.NAT, n.Uplink, n.VLAN, n.MTU, n.Link)
	return fmt.Sprintf("ready %x", h.Sum64())
}

// up makes the namespace with the bridge and what leads out of it, unless it is there and
// complete. Its caller holds the lock.
func (n *Network) up(ctx context.Context) error {
	if n.store.freebsd() {
		return n.upFreeBSD(ctx)
	}
	have, err := netns.Exists(ctx, n.store.Host, n.Namespace())
	if err != nil {
		return err
	}
	if have {
		out, err := conn.Output(ctx, n.within(), "ip", "link", "show", "dev", bridge)
		if err == nil && bytes.Contains(out, []byte("alias "+n.fingerprint())) {
			if n.NAT { // the packet filter may have been started again
				err = n.openForward(ctx)
			}
			return errors.Join(err, n.serve(ctx))
		}
		if ctx.Err() != nil {
			return err
		}
	}
	if err := n.down(ctx); err != nil { // of a command that was killed
		return err
	}
	if err := n.make(ctx); err != nil {
		return fault.Op("network "+n.Name, errors.Join(err, n.down(context.WithoutCancel(ctx))))
	}
	return n.serve(ctx)
}

func (n *Network) mtu() int { return cmp.Or(n.MTU, 1500) }

// make makes the namespace. The name of the bridge is set last: it says that all is there.
func (n *Network) make(ctx context.Context) error {
	if _, err := conn.Output(ctx, n.store.Host, "ip", "netns", "add", n.Namespace()); err != nil {
		return fault.WithFix(err, "run as root on a kernel with network namespaces, bridges, veth and tun")
	}
	err := n.ip(ctx, "link set lo up")
	if err == nil {
		err = n.addBridge(ctx, 0)
	}
	for _, six := range []bool{false, true} {
		if p := n.subnet(six); err == nil && p.IsValid() {
			commands := []string{fmt.Sprintf("addr add %s dev %s", p, bridge)}
			if six { // advertisements of routers come from a link-local address
				commands = []string{commands[0] + " nodad", "addr add fe80::1/64 dev " + bridge + " nodad"}
			}
			err = n.ip(ctx, commands...)
		}
	}
	switch {
	case err != nil:
	case n.NAT:
		err = n.leadOut(ctx)
	case n.Uplink != "":
		err = n.takeUplink(ctx)
	}
	if err != nil {
		return err
	}
	_, err = conn.Output(ctx, n.within(), "ip", "link", "set", "dev", bridge, "alias", n.fingerprint())
	return err
}

// complete is the alias of the bridge of a VLAN, set last: it says that all of it is there.
const complete = "complete"

// addBridge makes the bridge of a VLAN, unless it exists.
func (n *Network) addBridge(ctx context.Context, vlan int) error {
	name, tag := bridgeOf(vlan), taggedOf(vlan)
	have, err := netns.HasLink(ctx, n.store.Host, n.Namespace(), name)
	if err != nil || have && vlan == 0 {
		return err
	}
	if have {
		out, err := conn.Output(ctx, n.within(), "ip", "link", "show", "dev", name)
		if err != nil || bytes.Contains(out, []byte("alias "+complete)) {
			return err
		}
	}
	commands := []string{
		fmt.Sprintf("link add %s mtu %d type bridge stp_state 0 forward_delay 0 mcast_snooping 0", name, n.mtu()),
		"link set " + name + " addrgenmode none", "link set " + name + " up"}
	if vlan == 0 {
		return n.ip(ctx, commands...)
	}
	for _, link := range []string{tag, name} { // of a command that failed or was killed
		if err := netns.DeleteLink(ctx, n.store.Host, n.Namespace(), link); err != nil {
			return err
		}
	}
	if n.Uplink != "" && !n.NAT {
		if err := addTagged(ctx, n.store.Host, n.Namespace(), tag, n.Uplink, vlan); err != nil {
			return err
		}
		commands = append(commands, "link set "+tag+" master "+name, "link set "+tag+" up")
	}
	return n.ip(ctx, append(commands, "link set "+name+" alias "+complete)...)
}

// addTagged makes an interface for the frames of another one that have a tag.
func addTagged(ctx context.Context, host conn.Conn, namespace, name, of string, vlan int) error {
	err := netns.IP(ctx, host, namespace, fmt.Sprintf("link add link %s name %s type vlan id %d", of, name, vlan),
		"link set "+name+" addrgenmode none")
	return fault.WithFix(err, "a tag needs a kernel with VLANs (modprobe 8021q)")
}

// prepareUplink checks the uplink before anything is made, and notes its settings.
func (n *Network) prepareUplink(ctx context.Context) error {
	if n.store.freebsd() {
		return n.prepareUplinkFreeBSD(ctx)
	}
	if n.Uplink == "" {
		return nil
	}
	if have, err := netns.HasLink(ctx, n.store.Host, "", n.Uplink); err != nil || !have {
		return errors.Join(err, fault.WithFix(fault.New(fault.Invalid, "uplink: this machine has no interface %s", n.Uplink),
			"see `ip link`"))
	}
	if !n.NAT && n.VLAN == 0 {
		return netns.Unused(ctx, n.store.Host, n.Uplink)
	}
	if !n.NAT {
		return nil
	}
	all, err := n.store.List()
	if err != nil {
		return err
	}
	var taken []netip.Prefix
	for _, o := range all {
		taken = append(taken, o.Link)
		if o.NAT && o.Uplink == n.Uplink {
			n.Forwarding = o.Forwarding
		}
	}
	// Link-local addresses (RFC 3927), which no other network has behind a router.
	for i := 1; i < 254; i++ {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{169, 254, byte(i), 1}), 30)
		if !slices.Contains(taken, p) && !n.hostHas(ctx, p) {
			n.Link = p
			break
		}
	}
	if !n.Link.IsValid() {
		return fault.New(fault.Unsupported, "all addresses for links to networks with NAT are in use")
	}
	if n.Forwarding == "" {
		n.Forwarding, err = n.forwarding(ctx, "")
	}
	return err
}

// hostHas reports whether this machine has a route to a network already.
func (n *Network) hostHas(ctx context.Context, p netip.Prefix) bool {
	out, err := conn.Output(ctx, n.store.Host, "ip", "route", "show", "root", p.Masked().String())
	return err == nil && len(bytes.TrimSpace(out)) > 0
}

// forwarding reads whether this machine forwards packets that arrive at the uplink, and sets
// it if value is not "".
func (n *Network) forwarding(ctx context.Context, value string) (string, error) {
	file, files := "/proc/sys/net/ipv4/conf/"+n.Uplink+"/forwarding", conn.FilesOf(n.store.Host)
	if value != "" {
		return value, files.WriteFile(ctx, file, []byte(value))
	}
	b, err := files.ReadFile(ctx, file)
	return strings.TrimSpace(string(b)), err
}

// leadOut makes the link to this machine, and translates addresses at both of its ends: of the
// guests into that of the link, so that two networks can have the same addresses, and of the
// link into that of the uplink.
func (n *Network) leadOut(ctx context.Context) error {
	ours, link := n.Link, n.hostLink()
	theirs := netip.PrefixFrom(ours.Addr().Next(), ours.Bits())
	err := netns.IP(ctx, n.store.Host, "",
		fmt.Sprintf("link add %s type veth peer name %s netns %s", link, outward, n.Namespace()),
		"link set "+link+" addrgenmode none", fmt.Sprintf("addr add %s dev %s", ours, link), "link set "+link+" up")
	if err == nil {
		err = n.ip(ctx, "link set "+outward+" addrgenmode none", fmt.Sprintf("addr add %s dev %s", theirs, outward),
			"link set "+outward+" up", "route add default via "+ours.Addr().String())
	}
	if err == nil {
		err = conn.FilesOf(n.within()).WriteFile(ctx, "/proc/sys/net/ipv4/ip_forward", []byte("1"))
	}
	if err == nil {
		err = nft(ctx, n.within(), fmt.Sprintf(`table ip bakeoff {
  chain out { type nat hook postrouting priority 100; policy accept; oifname "%s" masquerade; }
  chain through { type filter hook forward priority 0; policy drop;
    iifname "%s" oifname "%s" ip saddr %s accept
    iifname "%s" ct state established,related accept
  }
}
`, outward, bridge, outward, n.subnet(false).Masked(), outward))
	}
	if err == nil {
		err = nft(ctx, n.store.Host, fmt.Sprintf(`table ip %s {
  chain out { type nat hook postrouting priority 100; policy accept; ip saddr %s oifname "%s" masquerade; }
  chain through { type filter hook forward priority 0; policy accept;
    oifname "%s" ct state != { established, related } drop
    iifname "%s" oifname != "%s" drop
  }
}
`, n.hostTable(), ours.Masked(), n.Uplink, link, link, n.Uplink))
	}
	if err == nil {
		err = conn.FilesOf(n.store.Host).WriteFile(ctx, "/proc/sys/net/ipv4/conf/"+link+"/forwarding", []byte("1"))
	}
	if err == nil {
		_, err = n.forwarding(ctx, "1")
	}
	if err == nil {
		err = n.openForward(ctx)
	}
	return err
}

// takeUplink makes the uplink, or its frames with a tag, a part of the network.
func (n *Network) takeUplink(ctx context.Context) error {
	if n.VLAN == 0 {
		return netns.Take(ctx, n.store.Host, n.Namespace(), bridge, n.Uplink)
	}
	link := n.hostLink()
	err := addTagged(ctx, n.store.Host, "", link, n.Uplink, n.VLAN)
	if err == nil {
		err = netns.IP(ctx, n.store.Host, "", fmt.Sprintf("link set %s netns %s", link, n.Namespace()))
	}
	if err != nil {
		return err
	}
	return n.ip(ctx, "link set "+link+" master "+bridge, "link set "+link+" up")
}

func nft(ctx context.Context, in conn.Conn, rules string) error {
	_, err := conn.OutputOf(ctx, in, conn.Cmd{Argv: []string{"nft", "-f", "-"}, Stdin: strings.NewReader(rules)})
	return fault.Op("nft", err)
}

// down removes the namespace and what leads out of it. What does not exist is not an error.
func (n *Network) down(ctx context.Context) error {
	if n.store.freebsd() {
		return n.downFreeBSD(ctx)
	}
	if err := n.endServer(ctx); err != nil {
		return err
	}
	have, err := netns.Exists(ctx, n.store.Host, n.Namespace())
	if err != nil {
		return err
	}
	if have && n.Uplink != "" && !n.NAT {
		if err := n.returnUplink(ctx); err != nil {
			return err
		}
	}
	if err := netns.DeleteLink(ctx, n.store.Host, "", n.hostLink()); err != nil {
		return err
	}
	if err := n.closeHost(ctx); err != nil {
		return err
	}
	return netns.Remove(ctx, n.store.Host, n.Namespace())
}

// returnUplink ends the use of an uplink without NAT.
func (n *Network) returnUplink(ctx context.Context) error {
	// The kernel destroys interfaces for frames with a tag some time after their namespace was
	// deleted, and until then the uplink cannot have another one with the tag.
	tagged, err := netns.Links(ctx, n.store.Host, n.Namespace(), "type", "vlan")
	if err != nil {
		return err
	}
	for _, name := range tagged {
		if err := netns.DeleteLink(ctx, n.store.Host, n.Namespace(), name); err != nil {
			return err
		}
	}
	if n.VLAN != 0 {
		return nil
	}
	// The kernel returns a physical interface by itself, and destroys a virtual one.
	have, err := netns.HasLink(ctx, n.store.Host, n.Namespace(), n.Uplink)
	if err != nil || !have {
		return err
	}
	return n.ip(ctx, "link set "+n.Uplink+" nomaster", fmt.Sprintf("link set %s netns %d", n.Uplink, os.Getpid()))
}

// closeHost removes what NAT changed on this machine.
func (n *Network) closeHost(ctx context.Context) error {
	if !n.NAT && n.Name != "" {
		return nil
	}
	if err := n.closeForward(ctx); err != nil {
		return err
	}
	if err := nft(ctx, n.store.Host, fmt.Sprintf("table ip %s\ndelete table ip %s\n", n.hostTable(),
		n.hostTable())); err != nil {
		return err
	}
	if n.Forwarding == "" || n.Forwarding == "1" {
		return nil
	}
	all, err := n.store.List()
	if err != nil {
		return err
	}
	for _, o := range all {
		if o.ID != n.ID && o.NAT && o.Uplink == n.Uplink {
			return nil // it needs the setting
		}
	}
	if have, err := netns.HasLink(ctx, n.store.Host, "", n.Uplink); err != nil || !have {
		return err
	}
	_, err = n.forwarding(ctx, n.Forwarding)
	return err
}

// runDir is the folder of dnsmasq, which does not run as root and cannot read the state folder.
func (n *Network) runDir() string { return filepath.Join("/run/bakeoff", namespaceOf(n.ID)) }
