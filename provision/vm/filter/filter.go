// Package filter writes the nftables rules that keep a guest from deceiving others: SmartOS's
// protections against spoofing, for the frames that a NIC sends.
//
// The rules are a table of the family netdev at the end of the NIC on the host, the tap device
// of a machine or the veth of a container. A frame that a rule drops reaches nobody, not even
// the bridge. Options of DHCP and of neighbor discovery are found where they are: the rules
// walk over them, with the number of bytes to the next option in the packet's mark.
package filter

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/name"
)

// NIC is what a guest may send from a NIC. The zero value of a flag keeps its protection on.
type NIC struct {
	MAC string // six pairs of lower-case hexadecimal digits with colons
	// Addresses are those of the NIC, those that DHCP has given it, and those of other hosts
	// that it may have.
	Addresses []netip.Prefix
	// Autoconf are the IPv6 networks in which it makes its own address of its MAC address.
	Autoconf []netip.Prefix
	// AnyClientID permits every identifier of a client of DHCP; ClientIDs those, as bytes, and
	// the one that contains the MAC address.
	AnyClientID bool
	ClientIDs   [][]byte
	// BlockedPorts are ports of TCP and UDP that it must not send to.
	BlockedPorts []int

	// AllowRestrictedTraffic also gives it frames with the tag of a VLAN.
	AllowMACSpoofing, AllowRestrictedTraffic, AllowIPSpoofing, AllowDHCPSpoofing bool
	// AllowUnfilteredPromisc gives it frames for other hosts, too.
	AllowUnfilteredPromisc bool
	// Near is for a kernel that reads only what begins in the first 256 bytes of a packet
	// behind the header of its network, such as that of Debian 12. The options of DHCP for IPv4 are
	// behind them: identifiers of clients are then not checked.
	Near bool
	// Firewall limits what it receives; nil does not.
	Firewall *Firewall
}

// ParseClientID reads an identifier of a client of DHCP: 0x and hexadecimal digits, or a text.
func ParseClientID(s string) ([]byte, error) {
	b := []byte(s)
	if digits, ok := strings.CutPrefix(s, "0x"); ok {
		var err error
		if b, err = hex.DecodeString(digits); err != nil {
			return nil, fault.WithFix(fault.New(fault.Invalid, "%q is not an identifier of a DHCP client", s),
				"write 0x and pairs of hexadecimal digits, or a text")
		}
	}
	if len(b) < 1 || len(b) > maxClientID {
		return nil, fault.New(fault.Invalid, "%q is not an identifier of a DHCP client: it must have 1 to %d bytes", s,
			maxClientID)
	}
	return b, nil
}

// maxClientID bounds an identifier of a client, in bytes: RFC 8415 has the longest ones.
const maxClientID = 130

var linkForm = lazy.Compile(`^[a-z0-9]{1,15}$`)

// table is the name of the table of a link.
func table(link string) string { return "bakeoff_" + link }

// Remove is the input of nft that removes the rules of a link, if it has any.
func Remove(link string) string {
	return fmt.Sprintf("table netdev %s\ndelete table netdev %s\n", table(link), table(link)) + firewall(link, nil)
}

// Rules is the input of nft that gives a link these rules, in place of those that it has. nft
// changes all of them at once.
func Rules(link string, n NIC) (string, error) {
	if !linkForm.MatchString(link) || !name.ValidMAC(n.MAC) {
		return "", fault.New(fault.Invalid, "filter: %q is not a link, or %q is not a MAC address", link, n.MAC)
	}
	w := &writer{mac: n.MAC, hexMAC: strings.ReplaceAll(n.MAC, ":", "")}
	w.chain("guest", "type filter hook ingress device \""+link+"\" priority -300; policy accept;", func() {
		w.link(n)
		if !n.AllowIPSpoofing && !n.AllowDHCPSpoofing {
			w.addresses(n)
		}
		if !n.AllowDHCPSpoofing {
			w.rule("udp dport { 67, 68 } jump dhcp4")
			w.rule("udp dport 547 jump dhcp6")
		}
		if len(n.BlockedPorts) > 0 {
			w.rule("meta l4proto { tcp, udp } th dport { " + numbers(n.BlockedPorts) + " } drop")
		}
	})
	if !n.AllowIPSpoofing && !n.AllowDHCPSpoofing {
		w.neighborDiscovery(n)
	}
	if !n.AllowDHCPSpoofing {
		w.dhcp4(n)
		w.dhcp6(n)
	}
	w.chain("to", "type filter hook egress device \""+link+"\" priority 0; policy accept;", func() {
		if !n.AllowRestrictedTraffic { // those of other VLANs at an uplink; 0 is a priority only
			w.rule("vlan id != 0 drop")
			w.rule("ether type 8021ad drop")
			w.rule("vlan type { 8021q, 8021ad } drop") // a tag inside that of a priority
		}
		if !n.AllowUnfilteredPromisc && !n.AllowMACSpoofing {
			w.rule("ether daddr != " + n.MAC + " ether daddr & 01:00:00:00:00:00 == 00:00:00:00:00:00 drop")
		}
	})
	return fmt.Sprintf("table netdev %[1]s\ndelete table netdev %[1]s\ntable netdev %[1]s {\n%[2]s%[3]s}\n", table(link),
		w.maps, strings.Join(w.chains, "")) + firewall(link, n.Firewall), nil
}

type writer struct {
	strings.Builder
	mac, hexMAC string
	maps        string
	chains      []string
}

func (w *writer) rule(format string, args ...any) {
	fmt.Fprintf(&w.Builder, "    "+format+"\n", args...)
}

func (w *writer) chain(name, head string, body func()) {
	w.Reset()
	body()
	w.chains = append(w.chains, "  chain "+name+" {\n    "+head+"\n"+w.String()+"  }\n")
}

func numbers(list []int) string {
	out := make([]string, len(list))
	for i, n := range list {
		out[i] = fmt.Sprint(n)
	}
	return strings.Join(out, ", ")
}

// link checks the header of Ethernet.
func (w *writer) link(n NIC) {
	if !n.AllowMACSpoofing {
		w.rule("ether saddr != %s drop", n.MAC)
	}
	if !n.AllowRestrictedTraffic {
		w.rule("ether type != { ip, ip6, arp } drop")
	}
}

// addresses checks the source of packets, and what ARP and neighbor discovery say about it.
func (w *writer) addresses(n NIC) {
	four, six := n.sources()
	w.rule("ip saddr != { %s } drop", join(four))
	w.rule("arp htype != 1 drop")
	w.rule("arp ptype != 0x0800 drop")
	w.rule("arp hlen != 6 drop")
	w.rule("arp plen != 4 drop")
	w.rule("arp saddr ether != %s drop", n.MAC)
	w.rule("arp saddr ip != { %s } drop", join(four))
	w.rule("ip6 saddr != { %s } drop", join(six))
	for _, m := range messages {
		w.rule("icmpv6 type %s jump nd%d", m.name, m.number)
	}
}

// sources are the addresses that the guest may have, of IPv4 and IPv6, without those that are
// in a network of the same list: nft refuses overlaps.
func (n NIC) sources() (four, six []netip.Prefix) {
	whole := func(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
	four, six = []netip.Prefix{whole(netip.IPv4Unspecified())}, []netip.Prefix{whole(netip.IPv6Unspecified()),
		whole(EUI64(netip.MustParsePrefix("fe80::/64"), n.MAC))}
	for _, p := range n.Addresses {
		if p = p.Masked(); p.Addr().Is4() {
			four = append(four, p)
		} else {
			six = append(six, p)
		}
	}
	for _, p := range n.Autoconf {
		six = append(six, whole(EUI64(p, n.MAC)))
	}
	return distinct(four), distinct(six)
}

func distinct(all []netip.Prefix) (out []netip.Prefix) {
	slices.SortFunc(all, func(a, b netip.Prefix) int {
		if a.Bits() != b.Bits() {
			return a.Bits() - b.Bits()
		}
		return a.Addr().Compare(b.Addr())
	})
	for _, p := range all {
		if !slices.ContainsFunc(out, func(q netip.Prefix) bool { return q.Contains(p.Addr()) }) {
			out = append(out, p)
		}
	}
	return out
}

func join(all []netip.Prefix) string {
	out := make([]string, len(all))
	for i, p := range all {
		out[i] = p.String()
		if p.IsSingleIP() {
			out[i] = p.Addr().String()
		}
	}
	return strings.Join(out, ", ")
}

// EUI64 is the address that a host with this MAC address makes itself in an IPv6 network
// (RFC 4291, appendix A).
func EUI64(p netip.Prefix, mac string) netip.Addr {
	a := p.Masked().Addr().As16()
	m, err := net.ParseMAC(mac)
	if err != nil || len(m) != 6 {
		return p.Masked().Addr()
	}
	copy(a[8:], []byte{m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]})
	return netip.AddrFrom16(a)
}

// message is one of neighbor discovery (RFC 4861): where its options begin in ICMPv6, in
// bytes, and the one with the MAC address of its sender.
type message struct {
	name                   string
	number, begins, option int
}

var messages = []message{{"nd-router-solicit", 133, 8, 1}, {"nd-router-advert", 134, 16, 1},
	{"nd-neighbor-solicit", 135, 24, 1}, {"nd-neighbor-advert", 136, 24, 2}, {"nd-redirect", 137, 40, 2}}

// maxOptions bounds the options of neighbor discovery, in units of 8 bytes. A message with
// more is dropped.
const maxOptions = 24

func (w *writer) neighborDiscovery(n NIC) {
	_, six := n.sources()
	for _, m := range messages {
		w.chain(fmt.Sprint("nd", m.number), "meta mark set 0", func() {
			if m.number == 136 {
				w.rule("jump target")
			}
			for i := range maxOptions {
				at := 8 * (m.begins + 8*i)
				w.rule("meta mark 0 @th,%d,8 %d @th,%d,48 != 0x%s drop", at, m.option, at+16, w.hexMAC)
				w.rule("meta mark 0 @th,%d,8 0 drop", at+8)
				w.rule("meta mark 0 meta mark set @th,%d,8 map @same", at+8)
				w.rule("meta mark != 0 meta mark set meta mark map @less")
			}
			w.dropIfLonger(m.begins + 8*maxOptions)
			w.rule("meta mark set 0")
		})
	}
	w.chain("target", "", func() {
		for _, p := range six {
			if p.IsSingleIP() {
				w.rule("@th,64,128 0x%s return", hex.EncodeToString(p.Addr().AsSlice()))
			} else {
				w.rule("@th,64,128 & 0x%s == 0x%s return", hex.EncodeToString(net.CIDRMask(p.Bits(), 128)),
					hex.EncodeToString(p.Addr().AsSlice()))
			}
		}
		w.rule("drop")
	})
	w.counter("less", "type mark : mark", 256, func(i int) (int, int) { return i + 1, i })
	w.counter("same", "typeof @th,0,8 : meta mark", 255, func(i int) (int, int) { return i + 1, i + 1 })
}

// counter is a map of numbers, which the rules lack arithmetic for.
func (w *writer) counter(name, kind string, n int, of func(i int) (from, to int)) {
	if strings.Contains(w.maps, "map "+name+" ") {
		return
	}
	parts := make([]string, n)
	for i := range parts {
		from, to := of(i)
		parts[i] = fmt.Sprintf("%d : %d", from, to)
	}
	w.maps += "  map " + name + " {\n    " + kind + "\n    elements = { " + strings.Join(parts, ", ") + " }\n  }\n"
}

// dropIfLonger drops a packet that has a byte after the header of its network layer at a place.
func (w *writer) dropIfLonger(at int) {
	w.rule("@th,%d,8 0 drop", 8*at)
	w.rule("@th,%d,8 != 0 drop", 8*at)
}

// maxWalk4 and maxWalk6 bound the options of a message of DHCP, in bytes. A longer one is
// dropped. A server must accept 312 bytes of a client (RFC 2131, 2).
const (
	maxWalk4 = 312
	maxWalk6 = maxNear - 12 - 12 // the MAC address in a DUID is 12 bytes behind its option
	maxNear  = 255               // the last place that every kernel reads
)

// dhcp4 checks messages of DHCP (RFC 2131): only a client sends them, with the MAC address of
// the NIC, and without the identifier of another one.
func (w *writer) dhcp4(n NIC) {
	const options = 8 + 240 // behind the headers of UDP and BOOTP and the cookie
	w.chain("dhcp4", "", func() {
		w.rule("ip frag-off & 0x3fff != 0 drop") // its options could be in another one
		w.rule("@th,64,8 != 1 drop")             // only requests
		w.rule("@th,80,8 != 6 drop")
		w.rule("@th,288,48 != 0x%s drop", w.hexMAC)
		if n.AnyClientID || n.Near {
			return
		}
		w.rule("@th,%d,32 != 0x63825363 return", 8*(options-4)) // BOOTP
		w.rule("meta mark set 0")
		ids := append([][]byte{w.bytes("01" + w.hexMAC)}, n.ClientIDs...)
		for i := range maxWalk4 {
			at := options + i
			for _, id := range ids {
				w.option(at, append([]byte{61, byte(len(id))}, id...))
			}
			w.rule("meta mark 0 @th,%d,8 { 52, 61 } drop", 8*at) // 52: options in other fields
			w.rule("meta mark 0 @th,%d,8 255 meta mark set 0 return", 8*at)
			w.rule("meta mark 0 @th,%d,8 != 0 meta mark set @th,%d,8 map @behind4", 8*at, 8*at+8)
			w.rule("meta mark != 0 meta mark set meta mark map @less4")
		}
		w.rule("drop") // it has no end
	})
	if n.AnyClientID || n.Near {
		return
	}
	w.counter("less4", "type mark : mark", 257, func(i int) (int, int) { return i + 1, i })
	w.counter("behind4", "typeof @th,0,8 : meta mark", 256, func(i int) (int, int) { return i, i + 2 })
}

// dhcp6 checks messages of clients of DHCPv6 (RFC 8415): the client is identified by the MAC
// address of the NIC. A relay could name another one.
func (w *writer) dhcp6(n NIC) {
	const options = 8 + 4
	w.chain("dhcp6", "", func() {
		if n.AnyClientID {
			return
		}
		w.rule("ip6 nexthdr 44 drop") // fragments
		w.rule("@th,64,8 12 drop")    // a relay
		w.rule("meta mark set 0")
		ids := append([][]byte{w.bytes("00030001" + w.hexMAC)}, n.ClientIDs...)
		for i := range maxWalk6 {
			at := options + i
			for _, id := range ids {
				if at+4+len(id) <= maxNear { // a message with it further behind is dropped
					w.option(at, append([]byte{0, 1, 0, byte(len(id))}, id...))
				}
			}
			w.rule("meta mark 0 @th,%d,64 0x0001000e00010001 @th,%d,48 0x%s meta mark set 18", 8*at, 8*at+96, w.hexMAC)
			w.rule("meta mark 0 @th,%d,16 1 drop", 8*at)
			w.rule("meta mark 0 @th,%d,8 != 0 drop", 8*at+16) // 256 bytes or more
			w.rule("meta mark 0 meta mark set @th,%d,8 map @behind6", 8*at+24)
			w.rule("meta mark != 0 meta mark set meta mark map @less6")
		}
		w.dropIfLonger(options + maxWalk6)
		w.rule("meta mark set 0")
	})
	if n.AnyClientID {
		return
	}
	w.counter("less6", "type mark : mark", 259, func(i int) (int, int) { return i + 1, i })
	w.counter("behind6", "typeof @th,0,8 : meta mark", 256, func(i int) (int, int) { return i, i + 4 })
}

func (w *writer) bytes(digits string) []byte {
	b, err := hex.DecodeString(digits)
	if err != nil {
		panic(err) // Rules has checked the MAC address
	}
	return b
}

// option skips an option at a place if it has these bytes.
func (w *writer) option(at int, b []byte) {
	var match strings.Builder
	const most = 8 // nft compares at most 16, and joins neighbors
	for i := 0; i < len(b); i += most {
		part := b[i:min(len(b), i+most)]
		fmt.Fprintf(&match, "@th,%d,%d 0x%s ", 8*(at+i), 8*len(part), hex.EncodeToString(part))
	}
	w.rule("meta mark 0 %smeta mark set %d", match.String(), len(b))
}
