package filter

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

// Each flag leaves out its rules and no others. nft refuses overlapping networks in a set, so
// an address in an allowed network is not written.
func TestRules(t *testing.T) {
	rules := func(n NIC) string {
		n.MAC = "02:00:00:00:00:01"
		text, err := Rules("v0", n)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	all := []string{"ether saddr != 02:00:00:00:00:01 drop", "ether type != { ip, ip6, arp } drop",
		"ip saddr != { 10.0.0.0/24, 0.0.0.0, 192.0.2.7 } drop", "arp saddr ether != 02:00:00:00:00:01 drop",
		"ip6 saddr != { fd00:1::/64, ::, fd00::ff:fe00:1, fe80::ff:fe00:1 } drop", "udp dport { 67, 68 } jump dhcp4",
		"ether daddr & 01:00:00:00:00:00", "vlan id != 0 drop", "ether type 8021ad drop"}
	n := NIC{Addresses: prefixes("10.0.0.5/32", "10.0.0.0/24", "10.0.0.9/32", "192.0.2.7/32", "fd00:1::1/128",
		"fd00:1::/64"), Autoconf: prefixes("fd00::/64")}
	for flag, left := range map[*bool][]int{new(bool): {}, &n.AllowMACSpoofing: {0, 6},
		&n.AllowRestrictedTraffic: {1, 7, 8}, &n.AllowIPSpoofing: {2, 3, 4}, &n.AllowDHCPSpoofing: {2, 3, 4, 5},
		&n.AllowUnfilteredPromisc: {6}} {
		*flag = true
		text := rules(n)
		*flag = false
		for i, want := range all {
			gone := false
			for _, l := range left {
				gone = gone || l == i
			}
			if strings.Contains(text, want) == gone {
				t.Errorf("%q, left out %v:\n%s", want, left, text[strings.Index(text, "chain guest"):][:1200])
			}
		}
	}
	if text := rules(NIC{AnyClientID: true}); strings.Contains(text, "behind4") {
		t.Error("every identifier is permitted, and there are rules for them")
	}
	for _, bad := range []string{"", "02:00:00:00:00:1", "02:00:00:00:00:01 drop", "x\ny"} {
		if _, err := Rules("v0", NIC{MAC: bad}); !fault.Is(err, fault.Invalid) {
			t.Errorf("MAC address %q: %v", bad, err)
		}
	}
	if _, err := Rules("v0; flush", NIC{MAC: "02:00:00:00:00:01"}); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
}

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func TestEUI64(t *testing.T) {
	// RFC 4291, appendix A
	if got := EUI64(netip.MustParsePrefix("2001:db8::/64"), "34:56:78:9a:bc:de"); got.String() !=
		"2001:db8::3656:78ff:fe9a:bcde" {
		t.Error(got)
	}
}

func FuzzParseClientID(f *testing.F) {
	for _, s := range []string{"0x01020000000001", "a text", "0x0", "0x", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseClientID(s)
		if err != nil {
			return
		}
		text, err := Rules("v0", NIC{MAC: "02:00:00:00:00:01", ClientIDs: [][]byte{id}})
		if err != nil || strings.Count(text, "{") != strings.Count(text, "}") {
			t.Errorf("%q: %v", s, err)
		}
	})
}

// The rules for a kernel that reads only what is near read nothing else.
func TestNear(t *testing.T) {
	place := regexp.MustCompile(`@th,([0-9]+),[0-9]+`)
	for _, n := range []NIC{{MAC: "02:00:00:00:00:01"}, {MAC: "02:00:00:00:00:01", AnyClientID: true},
		{MAC: "02:00:00:00:00:01", Addresses: []netip.Prefix{netip.MustParsePrefix("fd00::/64")}},
		{MAC: "02:00:00:00:00:01", ClientIDs: [][]byte{make([]byte, maxClientID)}, Firewall: &Firewall{}}} {
		n.Near = true
		rules, err := Rules("eth0", n)
		if err != nil {
			t.Fatal(err)
		}
		places := place.FindAllStringSubmatch(rules, -1)
		for _, m := range places {
			if at, err := strconv.Atoi(m[1]); err != nil || at > 8*maxNear {
				t.Errorf("%s is behind byte %d", m[0], maxNear)
			}
		}
		if len(places) < 100 || !strings.Contains(rules, "@th,288,48 != 0x020000000001 drop") {
			t.Errorf("%d places; DHCP is not checked:\n%s", len(places), rules)
		}
	}
}
