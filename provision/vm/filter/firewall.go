package filter

import (
	"fmt"
	"net/netip"
)

// Firewall is what a NIC with a firewall receives without having asked for it: besides ARP,
// ICMP and answers of DHCP servers only connections of TCP from Hosts to Ports. Everything that
// the guest sends passes, and what answers it. It is the default of SmartOS's fwadm.
type Firewall struct {
	Hosts []netip.Addr
	Ports []int
}

func firewallTable(link string) string { return "bakeoff_fw_" + link }

// firewall is the input of nft that gives a link a firewall, or with nil removes it. The
// firewall has its own table, so that other changes keep the connections that it knows: a
// bridge has no connection tracking on every kernel, and these sets work on all. They forget a
// connection of TCP after the shortest time of RFC 5382, REQ-5, and one of UDP after the
// recommended time of RFC 4787, REQ-5.
func firewall(link string, f *Firewall) string {
	name := firewallTable(link)
	if f == nil {
		return fmt.Sprintf("table netdev %s\ndelete table netdev %s\n", name, name)
	}
	var hosts string
	if len(f.Ports) > 0 {
		for _, a := range f.Hosts {
			version := map[bool]string{true: "ip", false: "ip6"}[a.Is4()]
			hosts += fmt.Sprintf("    %s saddr %s tcp dport { %s } accept\n", version, a, numbers(f.Ports))
		}
	}
	return fmt.Sprintf(`table netdev %[1]s {
  set open4 { type ipv4_addr . inet_service . ipv4_addr . inet_service . inet_proto
    flags dynamic,timeout; size 65536; timeout 5m; }
  set open6 { type ipv6_addr . inet_service . ipv6_addr . inet_service . inet_proto
    flags dynamic,timeout; size 65536; timeout 5m; }
  chain from { type filter hook ingress device "%[2]s" priority -200; policy accept; }
  chain to { type filter hook egress device "%[2]s" priority 1; policy accept; }
}
flush chain netdev %[1]s from
flush chain netdev %[1]s to
table netdev %[1]s {
  chain from {
    meta l4proto tcp update @open4 { ip saddr . th sport . ip daddr . th dport . meta l4proto timeout 2h4m }
    meta l4proto udp update @open4 { ip saddr . th sport . ip daddr . th dport . meta l4proto }
    meta l4proto tcp update @open6 { ip6 saddr . th sport . ip6 daddr . th dport . meta l4proto timeout 2h4m }
    meta l4proto udp update @open6 { ip6 saddr . th sport . ip6 daddr . th dport . meta l4proto }
  }
  chain to {
    ether type arp accept
    ether type != { ip, ip6 } drop
    meta l4proto { icmp, icmpv6 } accept
    ip frag-off & 0x1fff != 0 accept comment "the first part was dropped"
    frag frag-off != 0 accept
    udp sport 67 udp dport 68 accept
    udp sport 547 udp dport 546 accept
%[3]s    tcp flags & (syn | ack) == syn drop
    ip daddr . th dport . ip saddr . th sport . meta l4proto @open4 accept
    ip6 daddr . th dport . ip6 saddr . th sport . meta l4proto @open6 accept
    drop
  }
}
`, name, link, hosts)
}
