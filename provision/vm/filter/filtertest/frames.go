// Package filtertest has the frames by which tests show what the filter of a NIC drops.
package filtertest

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// What the frames are about: the NIC that sends them, and a stranger that it pretends to be.
const (
	MAC      = "02:00:00:00:00:0a"
	Address  = "10.9.0.10"
	Address6 = "fd00:9::a"
	// AllowedNetwork is one of other hosts that the NIC may speak for, and ClientID the
	// identifier of a client of DHCP that it may have.
	AllowedNetwork  = "10.9.5.0/24"
	AllowedNetwork6 = "fd00:9:0:5::/64"
	ClientID        = "another client of this guest"
	BlockedPort     = 25

	stranger  = "02:00:00:00:00:0b"
	stranger4 = "10.9.0.11"
	stranger6 = "fd00:9::b"
	own6      = "fe80::ff:fe00:a" // of MAC
)

// Flag is a protection that a NIC can do without.
type Flag string

// The flags.
const (
	MACSpoofing       Flag = "allow_mac_spoofing"
	RestrictedTraffic Flag = "allow_restricted_traffic"
	IPSpoofing        Flag = "allow_ip_spoofing"
	DHCPSpoofing      Flag = "allow_dhcp_spoofing"
	AnyPort           Flag = "blocked_outgoing_ports"
)

// Frame is a frame of Ethernet.
type Frame struct {
	Name string
	// Needs are the flags without which it must not pass.
	Needs []Flag
	Bytes []byte
}

// Passes reports whether the frame passes with some flags. DHCPSpoofing includes IPSpoofing.
func (f Frame) Passes(with []Flag) bool {
	for _, need := range f.Needs {
		if !slices.Contains(with, need) && (need != IPSpoofing || !slices.Contains(with, DHCPSpoofing)) {
			return false
		}
	}
	return true
}

// Marked is the frame with its number and that of a round in the address that it goes to, one
// of a group: bridges may cut what is behind a packet.
func (f Frame) Marked(number int, round uint32) []byte {
	out := slices.Clone(f.Bytes)
	binary.BigEndian.PutUint16(out[1:], uint16(number))
	out[0], out[3], out[4], out[5] = group, byte(round>>16), byte(round>>8), byte(round)
	return out
}

// group is the first byte of the address.
const group = 0x0b

// Read returns what Marked has written into a frame.
func Read(b []byte) (number int, round uint32, ok bool) {
	if len(b) < 14 || b[0] != group {
		return 0, 0, false
	}
	return int(binary.BigEndian.Uint16(b[1:])), uint32(b[3])<<16 | uint32(b[4])<<8 | uint32(b[5]), true
}

// Text is all frames for Sender, one in a line, in hexadecimal digits.
func Text(all []Frame) string {
	var b strings.Builder
	for i, f := range all {
		b.WriteString(hex.EncodeToString(f.Marked(i, 0)) + "\n")
	}
	return b.String()
}

func mac(s string) []byte {
	m, err := net.ParseMAC(s)
	if err != nil {
		panic(err)
	}
	return m
}

func ip(s string) []byte { return netip.MustParseAddr(s).AsSlice() }

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

func two(n int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(n)) }

// all is the address of everybody in the network.
const all = "ff:ff:ff:ff:ff:ff"

func ether(from string, kind int, payload []byte) []byte {
	return join(mac(all), mac(from), two(kind), payload)
}

func arp(op int, senderMAC, senderIP, targetIP string) []byte {
	return join([]byte{0, 1, 8, 0, 6, 4}, two(op), mac(senderMAC), ip(senderIP), make([]byte, 6), ip(targetIP))
}

func v4(from string, protocol byte, fragment int, payload []byte) []byte {
	h := join([]byte{0x45, 0}, two(20+len(payload)), two(7), two(fragment), []byte{64, protocol, 0, 0}, ip(from),
		ip("255.255.255.255"))
	sum := uint32(0)
	for i := 0; i < len(h); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(h[10:], ^uint16(sum))
	return append(h, payload...)
}

func v6(from string, next byte, payload []byte) []byte {
	return join([]byte{0x60, 0, 0, 0}, two(len(payload)), []byte{next, 255}, ip(from), ip("ff02::1"), payload)
}

func udp(from, to int, payload []byte) []byte {
	return join(two(from), two(to), two(8+len(payload)), two(0), payload)
}

func tcp(to int) []byte {
	return join(two(4000), two(to), make([]byte, 8), []byte{0x50, 2, 0x10, 0}, make([]byte, 4))
}

// bootp is a message of DHCP (RFC 2131) with options, and the end of them.
func bootp(op byte, chaddr string, options ...[]byte) []byte {
	return join([]byte{op, 1, 6, 0, 1, 2, 3, 4}, make([]byte, 20), mac(chaddr), make([]byte, 10+64+128),
		[]byte{0x63, 0x82, 0x53, 0x63}, join(options...), []byte{255})
}

func option(code byte, value []byte) []byte { return join([]byte{code, byte(len(value))}, value) }

func option6(code int, value []byte) []byte { return join(two(code), two(len(value)), value) }

// dhcp is a request for an address.
func dhcp(chaddr string, options ...[]byte) []byte {
	return ether(MAC, 0x0800, v4("0.0.0.0", 17, 0, udp(68, 67, bootp(1, chaddr, append([][]byte{option(53, []byte{1})},
		options...)...))))
}

// dhcp6 is a request for an address of IPv6.
func dhcp6(kind byte, options ...[]byte) []byte {
	return ether(MAC, 0x86dd, v6(own6, 17, udp(546, 547, join([]byte{kind, 1, 2, 3}, join(options...)))))
}

// nd is a message of neighbor discovery: the fixed part behind type, code and checksum, and
// options.
func nd(from string, kind byte, fixed []byte, options ...[]byte) []byte {
	return ether(MAC, 0x86dd, v6(from, 58, join([]byte{kind, 0, 0, 0}, fixed, join(options...))))
}

// link is an option with a MAC address: 1 is that of the sender, 2 that of the target.
func link(kind byte, of string) []byte { return join([]byte{kind, 1}, mac(of)) }

func target(a string) []byte { return join(make([]byte, 4), ip(a)) }

func vlan(tag int, frame []byte, protocol int) []byte {
	return join(frame[:12], two(protocol), two(tag), frame[12:])
}

// Frames are all frames, first those that pass without a flag.
func Frames() []Frame {
	only := func(f ...Flag) []Flag { return f }
	ownID, foreignID := join([]byte{1}, mac(MAC)), join([]byte{1}, mac(stranger))
	duid := func(kind int, of string) []byte {
		if kind == 1 {
			return join(two(1), two(1), []byte{1, 2, 3, 4}, mac(of))
		}
		return join(two(3), two(1), mac(of))
	}
	big := option(43, make([]byte, 200))
	frame := func(name string, needs []Flag, b []byte) Frame { return Frame{name, needs, b} }
	plain := ether(MAC, 0x0800, v4(Address, 17, 0, udp(4000, 4000, []byte("x"))))
	return []Frame{
		frame("IPv4 from the own address", nil, plain),
		frame("IPv4 from no address yet", nil, ether(MAC, 0x0800, v4("0.0.0.0", 17, 0, udp(4000, 4000, nil)))),
		frame("IPv4 from an allowed network", nil, ether(MAC, 0x0800, v4("10.9.5.77", 1, 0, make([]byte, 8)))),
		frame("TCP to another port", nil, ether(MAC, 0x0800, v4(Address, 6, 0, tcp(80)))),
		frame("ARP request of the own address", nil, ether(MAC, 0x0806, arp(1, MAC, Address, "10.9.0.1"))),
		frame("ARP reply with the own address", nil, ether(MAC, 0x0806, arp(2, MAC, Address, "10.9.0.1"))),
		frame("ARP probe", nil, ether(MAC, 0x0806, arp(1, MAC, "0.0.0.0", Address))),
		frame("IPv6 from the own address", nil, ether(MAC, 0x86dd, v6(Address6, 17, udp(4000, 4000, nil)))),
		frame("IPv6 from the link-local address", nil, ether(MAC, 0x86dd, v6(own6, 17, udp(4000, 4000, nil)))),
		frame("IPv6 from an allowed network", nil, ether(MAC, 0x86dd, v6("fd00:9:0:5::77", 17, udp(4000, 4000, nil)))),
		frame("neighbor solicitation", nil, nd(own6, 135, target("fd00:9::1"), link(1, MAC))),
		frame("detection of a duplicate with a nonce", nil, nd("::", 135, target(Address6), []byte{14, 1, 1, 2, 3, 4, 5, 6})),
		frame("neighbor advertisement", nil, nd(Address6, 136, target(Address6), link(2, MAC))),
		frame("neighbor advertisement without a MAC address", nil, nd(Address6, 136, target(Address6))),
		frame("neighbor advertisement for an allowed network", nil, nd(Address6, 136, target("fd00:9:0:5::1"),
			link(2, MAC))),
		frame("router solicitation", nil, nd(own6, 133, make([]byte, 4), link(1, MAC))),
		frame("DHCP request", nil, dhcp(MAC)),
		frame("DHCP request with the own identifier", nil, dhcp(MAC, option(61, ownID), option(12, []byte("a=b=c")))),
		frame("DHCP request with a listed identifier", nil, dhcp(MAC, big, option(61, []byte(ClientID)))),
		frame("DHCP request for an address with a byte 61", nil, dhcp(MAC, option(50, ip("61.61.61.61")), []byte{0, 0},
			option(55, []byte{1, 3, 6, 61}))),
		frame("DHCPv6 request", nil, dhcp6(1, option6(6, two(23)))),
		frame("DHCPv6 request with the own DUID-LL", nil, dhcp6(1, option6(1, duid(3, MAC)), option6(8, two(0)))),
		frame("DHCPv6 request with the own DUID-LLT", nil, dhcp6(1, option6(8, two(0)), option6(1, duid(1, MAC)))),
		frame("DHCPv6 reply of a server", nil, ether(MAC, 0x86dd, v6(own6, 17, udp(547, 546, []byte{7, 1, 2, 3})))),

		frame("a foreign MAC address", only(MACSpoofing), ether(stranger, 0x0800, v4(Address, 17, 0, udp(4000, 4000, nil)))),
		frame("a foreign MAC address of a neighbor advertisement", only(MACSpoofing), ether(stranger, 0x86dd, v6(Address6, 58,
			join([]byte{136, 0, 0, 0}, target(Address6), link(2, MAC))))),
		frame("a foreign MAC address in IPv6", only(MACSpoofing), ether(stranger, 0x86dd, v6(Address6, 17,
			udp(4000, 4000, nil)))),
		frame("a foreign MAC address of an ARP request", only(MACSpoofing), ether(stranger, 0x0806,
			arp(1, MAC, Address, "10.9.0.1"))),
		frame("a foreign MAC address, also inside of ARP", only(MACSpoofing, IPSpoofing), ether(stranger, 0x0806,
			arp(1, stranger, Address, "10.9.0.1"))),

		frame("a foreign tag of a VLAN", only(RestrictedTraffic), vlan(7, plain, 0x8100)),
		frame("the tag of a provider", only(RestrictedTraffic), vlan(7, plain, 0x88a8)),
		frame("two tags", only(RestrictedTraffic), vlan(8, vlan(7, plain, 0x8100), 0x8100)),
		frame("a tag inside that of a priority", only(RestrictedTraffic), vlan(0, vlan(7, plain, 0x8100), 0x8100)),
		frame("a priority inside a tag", only(RestrictedTraffic), vlan(7, vlan(0, plain, 0x8100), 0x8100)),
		frame("a tag and a foreign address", only(RestrictedTraffic, IPSpoofing), vlan(7, ether(MAC, 0x0800,
			v4(stranger4, 17, 0, udp(4000, 4000, nil))), 0x8100)),
		frame("RARP", only(RestrictedTraffic), ether(MAC, 0x8035, arp(3, MAC, "0.0.0.0", "0.0.0.0"))),
		frame("LLDP", only(RestrictedTraffic), ether(MAC, 0x88cc, make([]byte, 46))),
		frame("a frame with a length, as the spanning tree has", only(RestrictedTraffic), ether(MAC, 38,
			join([]byte{0x42, 0x42, 3}, make([]byte, 35)))),
		frame("PPPoE", only(RestrictedTraffic), ether(MAC, 0x8863, make([]byte, 46))),
		frame("EAPOL", only(RestrictedTraffic), ether(MAC, 0x888e, make([]byte, 46))),
		frame("IPX", only(RestrictedTraffic), ether(MAC, 0x8137, make([]byte, 46))),
		frame("MPLS", only(RestrictedTraffic), ether(MAC, 0x8847, make([]byte, 46))),

		frame("a foreign IPv4 address", only(IPSpoofing), ether(MAC, 0x0800, v4(stranger4, 17, 0, udp(4000, 4000, nil)))),
		frame("the IPv4 address of the gateway", only(IPSpoofing), ether(MAC, 0x0800, v4("10.9.0.1", 6, 0, tcp(80)))),
		frame("an IPv4 address of another network", only(IPSpoofing), ether(MAC, 0x0800, v4("192.0.2.1", 1, 0,
			make([]byte, 8)))),
		frame("the loopback address", only(IPSpoofing), ether(MAC, 0x0800, v4("127.0.0.1", 17, 0, udp(4000, 4000, nil)))),
		frame("a foreign address of a fragment", only(IPSpoofing), ether(MAC, 0x0800, v4(stranger4, 17, 0x2010,
			make([]byte, 64)))),
		frame("an address beside the allowed network", only(IPSpoofing), ether(MAC, 0x0800, v4("10.9.6.0", 17, 0,
			udp(4000, 4000, nil)))),
		frame("ARP request with a foreign address", only(IPSpoofing), ether(MAC, 0x0806, arp(1, MAC, stranger4,
			"10.9.0.1"))),
		frame("ARP reply with a foreign address", only(IPSpoofing), ether(MAC, 0x0806, arp(2, MAC, "10.9.0.1", Address))),
		frame("announcement of a foreign address by ARP", only(IPSpoofing), ether(MAC, 0x0806, arp(1, MAC, stranger4,
			stranger4))),
		frame("ARP reply with a foreign MAC address inside", only(IPSpoofing), ether(MAC, 0x0806, arp(2, stranger, Address,
			"10.9.0.1"))),
		frame("ARP of another hardware", only(IPSpoofing), ether(MAC, 0x0806, join([]byte{0, 6}, arp(1, MAC, Address,
			"10.9.0.1")[2:]))),
		frame("a foreign IPv6 address", only(IPSpoofing), ether(MAC, 0x86dd, v6(stranger6, 17, udp(4000, 4000, nil)))),
		frame("a foreign link-local address", only(IPSpoofing), ether(MAC, 0x86dd, v6("fe80::1", 17,
			udp(4000, 4000, nil)))),
		frame("an IPv6 address for privacy", only(IPSpoofing), ether(MAC, 0x86dd, v6("fd00:9::1234:5678:9abc:def0", 17,
			udp(4000, 4000, nil)))),
		frame("neighbor advertisement of a foreign address", only(IPSpoofing), nd(Address6, 136, target(stranger6),
			link(2, MAC))),
		frame("neighbor advertisement with a foreign MAC address", only(IPSpoofing), nd(Address6, 136, target(Address6),
			link(2, stranger))),
		frame("neighbor advertisement with two MAC addresses", only(IPSpoofing), nd(Address6, 136, target(Address6),
			link(2, MAC), link(2, stranger))),
		frame("neighbor advertisement behind hop-by-hop options", only(IPSpoofing), ether(MAC, 0x86dd, v6(Address6, 0,
			join([]byte{58, 0, 1, 4, 0, 0, 0, 0}, []byte{136, 0, 0, 0}, target(stranger6), link(2, stranger))))),
		frame("neighbor solicitation with a foreign MAC address", only(IPSpoofing), nd(own6, 135, target("fd00:9::1"),
			link(1, stranger))),
		frame("neighbor solicitation with that behind a nonce", only(IPSpoofing), nd(own6, 135, target("fd00:9::1"),
			[]byte{14, 1, 1, 2, 3, 4, 5, 6}, link(1, stranger))),
		frame("neighbor solicitation with that behind a long option", only(IPSpoofing), nd(own6, 135, target("fd00:9::1"),
			join([]byte{200, 3}, make([]byte, 22)), link(1, stranger))),
		frame("neighbor solicitation with an option without length", only(IPSpoofing), nd(own6, 135, target("fd00:9::1"),
			[]byte{200, 0, 0, 0, 0, 0, 0, 0}, link(1, stranger))),
		frame("router solicitation with a foreign MAC address", only(IPSpoofing), nd(own6, 133, make([]byte, 4),
			link(1, stranger))),
		frame("router advertisement with a foreign MAC address", only(IPSpoofing), nd(own6, 134, make([]byte, 12),
			join([]byte{5, 1, 0, 0, 0, 0, 5, 220}), link(1, stranger))),
		frame("redirect with a foreign MAC address", only(IPSpoofing), nd(own6, 137, join(make([]byte, 4), make([]byte, 32)),
			link(2, stranger))),

		frame("DHCP offer", only(DHCPSpoofing), ether(MAC, 0x0800, v4(Address, 17, 0, udp(67, 68, bootp(2, stranger,
			option(53, []byte{2})))))),
		frame("DHCP acknowledgement for itself", only(DHCPSpoofing), ether(MAC, 0x0800, v4(Address, 17, 0, udp(67, 68,
			bootp(2, MAC, option(53, []byte{5})))))),
		frame("DHCP request of a foreign MAC address", only(DHCPSpoofing), dhcp(stranger)),
		frame("DHCP release of a foreign MAC address", only(DHCPSpoofing), dhcp(stranger, option(61, foreignID))),
		frame("DHCP request with a foreign identifier", only(DHCPSpoofing), dhcp(MAC, option(61, foreignID))),
		frame("DHCP request with an identifier of another kind", only(DHCPSpoofing), dhcp(MAC, option(61, []byte("x")))),
		frame("DHCP request with a listed identifier and more", only(DHCPSpoofing), dhcp(MAC, option(61,
			[]byte(ClientID+"!")))),
		frame("DHCP request with a foreign identifier behind others", only(DHCPSpoofing), dhcp(MAC, option(61, ownID), big,
			[]byte{0}, option(61, foreignID))),
		frame("DHCP request with options in other fields", only(DHCPSpoofing), dhcp(MAC, option(52, []byte{3}))),
		frame("DHCP request with half of an identifier", only(DHCPSpoofing), ether(MAC, 0x0800, v4("0.0.0.0", 17, 0, udp(68,
			67, join(bootp(1, MAC, option(53, []byte{1}), []byte{61, 200})[:247], []byte{61, 200}))))),
		frame("DHCP request in fragments", only(DHCPSpoofing), ether(MAC, 0x0800, v4("0.0.0.0", 17, 0x2000, udp(68, 67,
			bootp(1, MAC, option(53, []byte{1})))))),
		frame("DHCP request with too many options", only(DHCPSpoofing), dhcp(MAC, big, big)),
		frame("DHCPv6 request with a foreign DUID-LL", only(DHCPSpoofing), dhcp6(1, option6(1, duid(3, stranger)))),
		frame("DHCPv6 request with a foreign DUID-LLT", only(DHCPSpoofing), dhcp6(3, option6(8, two(0)), option6(1, duid(1,
			stranger)))),
		frame("DHCPv6 request with a DUID of a maker", only(DHCPSpoofing), dhcp6(1, option6(1, join(two(2), make([]byte,
			12))))),
		frame("DHCPv6 request with a long option before it", only(DHCPSpoofing), dhcp6(1, option6(16, make([]byte, 256)))),
		frame("DHCPv6 relay", only(DHCPSpoofing), dhcp6(12, make([]byte, 30))),

		frame("TCP to a blocked port", only(AnyPort), ether(MAC, 0x0800, v4(Address, 6, 0, tcp(BlockedPort)))),
		frame("UDP to a blocked port", only(AnyPort), ether(MAC, 0x0800, v4(Address, 17, 0, udp(4000, BlockedPort, nil)))),
		frame("TCP over IPv6 to a blocked port", only(AnyPort), ether(MAC, 0x86dd, v6(Address6, 6, tcp(BlockedPort)))),
	}
}

// Sets are the sets of flags with which all frames are sent.
func Sets() [][]Flag {
	out := [][]Flag{nil}
	every := []Flag{MACSpoofing, RestrictedTraffic, IPSpoofing, DHCPSpoofing, AnyPort}
	for _, f := range every {
		out = append(out, []Flag{f})
	}
	return append(out, []Flag{MACSpoofing, IPSpoofing}, []Flag{RestrictedTraffic, IPSpoofing}, every)
}

// Wrong says how the frames that were seen differ from those that must be seen.
func Wrong(frames []Frame, with []Flag, seen map[int]bool) (out []string) {
	for i, f := range frames {
		switch {
		case seen[i] && !f.Passes(with):
			out = append(out, fmt.Sprintf("%s passed with %q and needs %q", f.Name, with, f.Needs))
		case !seen[i] && f.Passes(with):
			out = append(out, fmt.Sprintf("%s was dropped with %q", f.Name, with))
		}
	}
	return out
}
