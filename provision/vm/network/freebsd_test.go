package network

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/provision/driver/fake"
	"bakeoff/provision/driver/jail/jailtest"
	"bakeoff/provision/vm/filter"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// thisMachine is this machine for leases.
type thisMachine struct{ local.Conn }

func (thisMachine) Keep(_ context.Context, path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return local.Keep(path, data)
}

func (thisMachine) Remove(_ context.Context, path string) error { return os.RemoveAll(path) }

// onFreeBSD is a store of a fake host with FreeBSD, and what changes that host.
func onFreeBSD(t *testing.T) (*Store, *fake.Host, func(change func(*jailtest.State))) {
	t.Helper()
	h := jailtest.Host(t.TempDir())
	set := func(change func(*jailtest.State)) {
		t.Helper()
		var m jailtest.State
		if err := h.State(&m, func() bool { change(&m); return true }); err != nil {
			t.Fatal(err)
		}
	}
	command := func(argv ...string) {
		t.Helper()
		if _, err := conn.Output(t.Context(), h, argv...); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b"} {
		command("jail", "-c", "name="+name, "path="+t.TempDir(), "persist", "vnet")
	}
	return &Store{State: t.TempDir(), Host: h, At: thisMachine{}, System: "freebsd"}, h, set
}

func nic(mac string, addresses ...string) filter.NIC {
	f := filter.NIC{MAC: mac, AllowMACSpoofing: true}
	for _, a := range addresses {
		p := netip.MustParsePrefix(a)
		f.Addresses = append(f.Addresses, netip.PrefixFrom(p.Addr(), p.Addr().BitLen()))
	}
	return f
}

// A network of FreeBSD is a bridge, whose members are NICs of jails with their addresses and
// routes. What pf drops are the packets that the network keeps from others.
func TestFreeBSD(t *testing.T) {
	s, h, set := onFreeBSD(t)
	ctx := t.Context()
	inner, err := s.Create(ctx, manifest.Network{Name: "inner", Subnets: []string{"10.0.0.0/24", "fd00:1::/64"}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Create(ctx, manifest.Network{Name: "out", Subnets: []string{"10.0.1.0/24"}, NAT: true, Uplink: "em0"})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []*Network{inner, out} {
		if err := n.Ready(ctx, nil); err != nil { // up already
			t.Fatal(err)
		}
		if state, err := n.State(ctx); err != nil || state != "up" {
			t.Errorf("%s: %s, %v", n.Name, state, err)
		}
	}
	prefixes := func(texts ...string) (all []netip.Prefix) {
		for _, text := range texts {
			all = append(all, netip.MustParsePrefix(text))
		}
		return all
	}
	attach := func(n *Network, link, jail, mac string, routes []Route, addresses ...string) {
		t.Helper()
		f := nic(mac, addresses...)
		f.BlockedPorts = []int{25}
		if err := n.Attach(ctx, Port{Link: link, Filter: f, MTU: 1400, Veth: &Veth{Namespace: jail, Name: "net0",
			Addresses: prefixes(addresses...), Routes: routes}}); err != nil {
			t.Fatal(err)
		}
	}
	attach(inner, "boga", "a", "02:00:00:00:00:0a", []Route{DefaultRoute(netip.MustParseAddr("192.0.2.1"), "net0"),
		{To: "10.9.0.0/16", Via: netip.MustParseAddr("10.0.0.1")}, {To: "10.8.0.0/16", Device: "net0"}},
		"10.0.0.2/24", "fd00:1::2/64")
	attach(out, "bogb", "b", "02:00:00:00:00:0b", nil, "10.0.1.2/24")
	if have, err := inner.HasLink(ctx, "boga"); err != nil || !have {
		t.Errorf("boga: %v, %v", have, err)
	}
	set(func(m *jailtest.State) {
		br := inner.hostLink()
		a, inside := m.Links["boga"], m.Links["a net0"]
		if a == nil || a.Bridge != br || !a.Up || m.Links[br].Static["02:00:00:00:00:0a"] != "boga" {
			t.Errorf("the end in the bridge is %+v", a)
		}
		if inside == nil || inside.MAC != "02:00:00:00:00:0a" || inside.MTU != 1400 || !inside.Up ||
			!slices.Equal(inside.Addrs, []string{"10.0.0.2/24", "fd00:1::2/64"}) {
			t.Errorf("the end in the jail is %+v", inside)
		}
		if want := []string{"a 192.0.2.1 net0", "a default 192.0.2.1", "a 10.9.0.0/16 10.0.0.1",
			"a 10.8.0.0/16 net0"}; !slices.Equal(m.Routes, want) {
			t.Errorf("routes %q", m.Routes)
		}
		if got := m.Links[br].Addrs; !slices.Equal(got, []string{"10.0.0.1/24", "fd00:1::1/64"}) {
			t.Errorf("the bridge has %q", got)
		}
		checkPackets(t, m, inner.hostLink(), out.hostLink())
	})
	// An update takes the place of the rules.
	f := nic("02:00:00:00:00:0a", "10.0.0.2/24")
	f.AllowIPSpoofing, f.AllowDHCPSpoofing = true, true
	if err := inner.Filter(ctx, "boga", f); err != nil {
		t.Fatal(err)
	}
	set(func(m *jailtest.State) {
		if !m.Passes(packet("in boga udp 10.0.0.99 10.0.0.3 67")) {
			t.Error("the rules did not change")
		}
	})
	for _, n := range []*Network{inner, out} {
		if err := n.Detach(ctx, "boga", "bogb"); err != nil {
			t.Error(err)
		}
		if err := n.Delete(ctx, func() ([]string, error) { return nil, nil }); err != nil {
			t.Error(err)
		}
	}
	checkNothing(t, h, s)
}

// packet reads "in INTERFACE PROTOCOL FROM TO PORT".
func packet(text string) jailtest.Packet {
	f := strings.Fields(text)
	p := jailtest.Packet{Out: f[0] == "out", On: f[1], Protocol: f[2], From: netip.MustParseAddr(f[3]),
		To: netip.MustParseAddr(f[4])}
	for _, c := range f[5] {
		p.Port = 10*p.Port + int(c-'0')
	}
	return p
}

func checkPackets(t *testing.T, m *jailtest.State, inner, out string) {
	t.Helper()
	for text, passes := range map[string]bool{
		// What a guest sends to its link.
		"in boga tcp 10.0.0.2 10.0.0.3 80":        true,
		"in boga tcp 10.0.0.99 10.0.0.3 80":       false,
		"in boga tcp fd00:1::2 fd00:1::3 80":      true,
		"in boga tcp fd00:1::99 fd00:1::3 80":     false,
		"in boga icmp6 fe80::ff:fe00:a ff02::1 0": true,
		"in boga icmp6 fe80::1 ff02::1 0":         false,
		"in boga udp 10.0.0.2 10.0.0.3 67":        false,
		"in boga udp 10.0.0.2 10.0.0.3 68":        false,
		"in boga udp fd00:1::2 ff02::1:2 547":     false,
		"in boga tcp 10.0.0.2 10.0.0.3 25":        false,
		"in boga udp 10.0.0.2 10.0.0.3 25":        false,
		"in boga tcp 10.0.0.2 10.0.0.3 26":        true,
		// What is for this machine, or leads on.
		"in " + inner + " icmp 10.0.0.2 10.0.0.1 0":     true,
		"in " + inner + " icmp6 fd00:1::2 fd00:1::1 0":  true,
		"in " + inner + " icmp6 fd00:1::2 fd00:2::1 0":  false,
		"in " + inner + " tcp 10.0.0.2 10.0.0.1 22":     false,
		"in " + inner + " tcp 10.0.0.2 192.0.2.9 22":    false,
		"in " + inner + " tcp 10.0.0.2 198.51.100.1 80": false,
		"in " + inner + " tcp 10.0.0.2 10.0.1.2 80":     false,
		"in " + out + " tcp 10.0.1.2 198.51.100.1 80":   true,
		"in " + out + " tcp 10.0.1.2 192.0.2.9 22":      false,
		"in " + out + " tcp 10.0.1.2 10.0.0.1 22":       false,
		// What comes from elsewhere.
		"out " + inner + " tcp 10.0.0.1 10.0.0.2 80":   true,
		"out " + inner + " tcp 10.0.1.2 10.0.0.2 80":   false,
		"out " + out + " tcp 198.51.100.1 10.0.1.2 80": false,
		"in em0 tcp 198.51.100.1 10.0.1.2 80":          false,
		"in em0 tcp 198.51.100.1 192.0.2.9 22":         true,
		"in em1 tcp 198.51.100.1 192.0.2.9 22":         true,
	} {
		if m.Passes(packet(text)) != passes {
			t.Errorf("%s: passes %v", text, !passes)
		}
	}
}

func checkNothing(t *testing.T, h *fake.Host, s *Store) {
	t.Helper()
	if left := jailtest.Links(h); len(left) > 0 {
		t.Errorf("left are the interfaces %q", left)
	}
	var m jailtest.State
	if err := h.State(&m, func() bool { return false }); err != nil || len(m.Anchors) > 0 {
		t.Errorf("left are the anchors %q, %v", m.Anchors, err)
	}
	leases, err := s.leases().All(t.Context())
	if all, lerr := s.List(); err != nil || lerr != nil || len(all)+len(leases) > 0 {
		t.Errorf("left are %v and %v, %v, %v", all, leases, err, lerr)
	}
}

// Without --uplink, no interface of the host changes; with it, one with an address does not
// join, and one without, or its frames with a tag, does.
func TestFreeBSDUplink(t *testing.T) {
	s, h, set := onFreeBSD(t)
	ctx := t.Context()
	for want, d := range map[string]manifest.Network{
		"no interface em7":      {Name: "a", Uplink: "em7"},
		"its address 192.0.2.9": {Name: "a", Uplink: "em0"},
		"the MTU of the uplink": {Name: "a", Uplink: "em1", MTU: 9000},
	} {
		if _, err := s.Create(ctx, d); err == nil || !strings.Contains(err.Error(), want) || fault.Fix(err) == "" {
			t.Errorf("%+v: %v", d, err)
		}
		checkNothing(t, h, s)
	}
	for i, d := range []manifest.Network{{Name: "a", Uplink: "em1"}, {Name: "a", Uplink: "em0", VLAN: 7}} {
		n, err := s.Create(ctx, d)
		if err != nil {
			t.Fatal(err)
		}
		set(func(m *jailtest.State) {
			if i == 0 && m.Links["em1"].Bridge != n.hostLink() {
				t.Errorf("em1 is %+v", m.Links["em1"])
			}
			if v := m.Links[n.vlanLink()]; i == 1 && (v.Bridge != n.hostLink() || v.VLAN != 7 || v.VLANDev != "em0") {
				t.Errorf("the interface of the tag is %+v", v)
			}
		})
		if err := n.Delete(ctx, func() ([]string, error) { return nil, nil }); err != nil {
			t.Fatal(err)
		}
		checkNothing(t, h, s)
	}
}

// A host that lacks something is refused with the command that helps, and nothing is made.
func TestFreeBSDLacks(t *testing.T) {
	s, h, set := onFreeBSD(t)
	for want, change := range map[string]func(*jailtest.State){
		"pfil_member is 0":      func(m *jailtest.State) { m.Settings["net.link.bridge.pfil_member"] = "0" },
		"pfil_bridge is 1":      func(m *jailtest.State) { m.Settings["net.link.bridge.pfil_bridge"] = "1" },
		"forwarding is 0":       func(m *jailtest.State) { m.Settings["net.inet.ip.forwarding"] = "0" },
		"pf is not enabled":     func(m *jailtest.State) { m.Main = []string{"off"} },
		"no such nat-anchor":    func(m *jailtest.State) { m.Main = m.Main[1:] },
		"pf has no such anchor": func(m *jailtest.State) { m.Main = m.Main[:1] },
	} {
		var before jailtest.State
		set(func(m *jailtest.State) {
			before = *m
			before.Settings = map[string]string{}
			change(m)
		})
		_, err := s.Create(t.Context(), manifest.Network{Name: "a", Subnets: []string{"10.0.0.0/24"}, NAT: true,
			Uplink: "em0"})
		if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), want) || fault.Fix(err) == "" {
			t.Errorf("%s: %v; %s", want, err, fault.Fix(err))
		}
		checkNothing(t, h, s)
		set(func(m *jailtest.State) { *m = before })
	}
}

// A create that is killed before any of its commands leaves nothing that the next change does
// not remove.
func TestFreeBSDBroken(t *testing.T) {
	s, h, _ := onFreeBSD(t)
	d := manifest.Network{Name: "a", Subnets: []string{"10.0.0.0/24"}, Uplink: "em0", VLAN: 7}
	n, err := s.Create(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := len(h.Calls())
	for at := 0; ; at++ {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		broken := &breaking{Conn: h, before: func() bool { calls++; return calls > at }}
		dying := &Store{State: s.State, Host: broken, At: thisMachine{}, System: "freebsd"}
		n, err := dying.Create(ctx, d)
		cancel()
		if err == nil {
			if at < 10 {
				t.Errorf("it needs only %d commands", at)
			}
			n.store = s
			if err := n.remove(t.Context()); err != nil {
				t.Error(err)
			}
			break
		}
		// What stays is found by the lease alone.
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatalf("after %d commands: %v", at, err)
		}
		if all, err := s.List(); err == nil && len(all) > 0 {
			if err := all[0].remove(t.Context()); err != nil {
				t.Error(err)
			}
		}
		checkNothing(t, h, s)
	}
	if len(h.Calls()) == before {
		t.Error("nothing was executed")
	}
}

// A NIC that is killed while it is connected is removed by its name, also the interfaces that
// have no name yet.
func TestFreeBSDBrokenAttach(t *testing.T) {
	s, h, _ := onFreeBSD(t)
	ctx := t.Context()
	n, err := s.Create(ctx, manifest.Network{Name: "a", Subnets: []string{"10.0.0.0/24"}})
	if err != nil {
		t.Fatal(err)
	}
	before := len(jailtest.Links(h))
	for at := 0; ; at++ {
		calls := 0
		dying := *n
		dying.store = &Store{State: s.State, Host: &breaking{Conn: h, before: func() bool { calls++; return calls > at }},
			At: thisMachine{}, System: "freebsd"}
		aerr := dying.Attach(ctx, Port{Link: "boga", Filter: nic("02:00:00:00:00:0a", "10.0.0.2/24"),
			Veth: &Veth{Namespace: "a", Name: "net0", Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.2/24")}}})
		if err := n.Detach(ctx, "boga"); err != nil {
			t.Fatalf("after %d commands: %v", at, err)
		}
		if left := jailtest.Links(h); len(left) != before {
			t.Fatalf("after %d commands: left are %q", at, left)
		}
		if aerr == nil {
			break
		}
	}
	if err := n.remove(ctx); err != nil {
		t.Error(err)
	}
	checkNothing(t, h, s)
}

// breaking is a host whose connection breaks.
type breaking struct {
	conn.Conn
	before func() bool
}

func (b *breaking) Exec(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	if b.before() {
		return conn.Exit{}, fault.New(fault.Lab, "the connection broke")
	}
	return b.Conn.Exec(ctx, cmd)
}
