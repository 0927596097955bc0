package filter

import (
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/name"
)

// PF is the text for an anchor of FreeBSD's pf.conf(5) that gives the member of a bridge(4) these
// rules. pf sees the packets of IPv4 and IPv6 that members send, and nothing else of a frame. So
// these rules check no MAC address, no ARP and no neighbor discovery: the caller refuses a guest
// that must not deceive others in this way. pf reads no message of DHCP either: without
// AllowDHCPSpoofing the guest sends none at all.
func PF(link string, n NIC) (string, error) {
	if !linkForm.MatchString(link) || !name.ValidMAC(n.MAC) {
		return "", fault.New(fault.Invalid, "filter: %q is not a link, or %q is not a MAC address", link, n.MAC)
	}
	var b strings.Builder
	if !n.AllowIPSpoofing && !n.AllowDHCPSpoofing {
		four, six := n.sources()
		fmt.Fprintf(&b, "table <own> { %s }\nblock drop in quick on %s from ! <own> to any\n",
			join(slices.Concat(four, six)), link)
	}
	if !n.AllowDHCPSpoofing {
		fmt.Fprintf(&b, "block drop in quick on %s proto udp from any to any port { 67, 68, 547 }\n", link)
	}
	if len(n.BlockedPorts) > 0 {
		fmt.Fprintf(&b, "block drop in quick on %s proto { tcp, udp } from any to any port { %s }\n", link,
			numbers(n.BlockedPorts))
	}
	return b.String(), nil
}
