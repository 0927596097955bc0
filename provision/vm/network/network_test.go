package network

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/provision/vm/manifest"
)

func testNetwork(t *testing.T, subnets ...string) *Network {
	t.Helper()
	s := &Store{State: t.TempDir()}
	n := &Network{Network: manifest.Network{Name: "a/b", Subnets: subnets}, ID: s.idOf("a/b"), store: s}
	if err := manifest.CheckNetwork(&n.Network); err != nil {
		t.Fatal(err)
	}
	return n
}

// NICs that ask for an address get one that nobody has, and keep it.
func TestReserve(t *testing.T) {
	n := testNetwork(t, "10.0.0.0/29")
	if err := n.store.locked(t.Context(), func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	fixed := Member{MAC: "a", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.3")},
		Routers: []netip.Addr{netip.MustParseAddr("10.0.0.2")}}
	asks := func(macs ...string) (out []Member) {
		for _, m := range macs {
			out = append(out, Member{MAC: m, DHCP: true})
		}
		return out
	}
	if err := n.reserve(append(asks("b", "c"), fixed)); err != nil {
		t.Fatal(err)
	}
	if b, c := n.Reserved["b"].String(), n.Reserved["c"].String(); b != "10.0.0.4" || c != "10.0.0.5" {
		t.Errorf("%s, %s", b, c)
	}
	if err := n.reserve(append(asks("d", "c"), fixed)); err != nil || n.Reserved["c"].String() != "10.0.0.5" ||
		n.Reserved["d"].String() != "10.0.0.4" || len(n.Reserved) != 2 {
		t.Errorf("%v, %v", n.Reserved, err)
	}
	if again, err := n.store.Find("a/b"); err != nil || again.Reserved["c"].String() != "10.0.0.5" {
		t.Errorf("the file: %+v, %v", again, err)
	}
	err := n.reserve(append(asks("d", "c", "e", "f"), fixed)) // 6 hosts: 1, 2 and 3 are taken
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "no free address in 10.0.0.0/29") {
		t.Errorf("a full network: %v", err)
	}
}

func TestTables(t *testing.T) {
	n := testNetwork(t, "10.0.0.0/24", "fd00::/64")
	n.Reserved = map[string]netip.Addr{"m2": netip.MustParseAddr("10.0.0.9")}
	got := n.tables([]Member{
		{Names: []string{"web"}, MAC: "m1", Addresses: addrs("10.0.0.5", "fd00::5", "192.0.2.1"), MTU: 1400,
			Routers: addrs("10.0.0.254"), Resolvers: addrs("9.9.9.9")},
		{Names: []string{"db"}, MAC: "m2", DHCP: true}, {Names: []string{"far"}, MAC: "m3", VLAN: 7},
		{MAC: "m4", Addresses: addrs("192.0.2.2")}, {MAC: "m5", Addresses: addrs("fd00::6"),
			Resolvers: addrs("9.9.9.9", "fd00::1")}})
	for file, want := range map[string]string{
		fileHosts:   "10.0.0.5 web\nfd00::5 web\n192.0.2.1 web\n10.0.0.9 db\n",
		fileClients: "m1,set:nic0,10.0.0.5,[fd00::5],2m\nm2,set:nic1,10.0.0.9,infinite\nm5,set:nic4,[fd00::6],2m\n",
		fileOptions: "tag:nic0,option:router,10.0.0.254\ntag:nic0,option:dns-server,9.9.9.9\ntag:nic0,option:mtu,1400\n" +
			"tag:nic1,option:router\ntag:nic4,option:router\ntag:nic4,option:dns-server,9.9.9.9\n" +
			"tag:nic4,option6:dns-server,[fd00::1]\n"} {
		if got[file] != want {
			t.Errorf("%s: %q", file, got[file])
		}
	}
}

func addrs(texts ...string) (out []netip.Addr) {
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

// Names of networks of two state folders differ, and every name is one that the kernel takes.
func TestNames(t *testing.T) {
	a, b := &Store{State: "/a"}, &Store{State: "/b"}
	if a.idOf("x") == b.idOf("x") || a.idOf("x") == a.idOf("y") {
		t.Error("two networks have one identity")
	}
	if l := Link("uuid", "mac"); len(l) > 15 || l == Link("uuid", "mad") {
		t.Error(l)
	}
	if l := (&Network{ID: a.idOf("x")}).hostLink(); len(l) > 15 {
		t.Error(l)
	}
}

func FuzzNameServers(f *testing.F) {
	f.Add([]byte("# x\nnameserver 192.0.2.53\nnameserver 127.0.0.53\nnameserver fe80::1%eth0\noptions edns0\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, a := range nameServers(b) {
			if a.IsLoopback() || a.Zone() != "" || strings.ContainsAny(a.String(), "\n ") {
				t.Errorf("%q: %v", b, a)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"network": "a", "subnet": ["10.0.0.1/24"], "id": "0123", "reserved": {"m": "10.0.0.2"}}`))
	f.Add([]byte(`{"network": "a", "uplink": "x; y", "forwarding": "2"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var n Network
		if decode(b, &n) != nil {
			return
		}
		words := slices.Concat(n.Subnets, []string{n.Name, n.Uplink, n.Forwarding})
		for _, w := range words {
			if strings.ContainsAny(w, " \n;\"'") {
				t.Errorf("%q has %q", b, w)
			}
		}
	})
}

// Only the rules with the network's own comment are deleted, whatever iptables lists.
func FuzzForwardRules(f *testing.F) {
	n := &Network{ID: "0123"}
	f.Add("-P FORWARD DROP\n-A FORWARD -i bon0123 -m comment --comment bakeoff_0123 -j ACCEPT\n")
	f.Add("-A DOCKER-USER -o bon0123 -m comment --comment \"bakeoff_0123\" -j ACCEPT\n-A FORWARD --comment\n")
	f.Add("-A FORWARD -m comment --comment bakeoff_01234 -j ACCEPT\n-N bakeoff_0123\n")
	f.Fuzz(func(t *testing.T, listed string) {
		for _, words := range n.forwardRules(strings.Split(listed, "\n")) {
			if i := slices.Index(words, "--comment"); i < 1 || words[i+1] != n.hostTable() {
				t.Errorf("%q: %q", listed, words)
			}
		}
	})
}

// Every chain that drops what it does not know is found, unless its table names the link.
func TestObstacles(t *testing.T) {
	chain := func(table, name, hook, policy string) string {
		return `{"chain": {"family": "inet", "table": "` + table + `", "name": "` + name + `", "hook": "` + hook +
			`", "policy": "` + policy + `"}}`
	}
	rule := func(table, chain, expr string) string {
		return `{"rule": {"family": "inet", "table": "` + table + `", "chain": "` + chain + `", "expr": [` + expr + `]}}`
	}
	const known = `{"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["established"]}}`
	link := func(name string) string {
		return `{"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "` + name + `"}}, {"accept": null}`
	}
	for _, x := range []struct {
		name, want string
		rules      []string
	}{
		{"no rules", "", nil},
		{"a policy", "f", []string{chain("t", "f", "forward", "drop")}},
		{"a policy of another hook", "", []string{chain("t", "f", "input", "drop")}},
		{"a policy that accepts", "", []string{chain("t", "f", "forward", "accept"),
			rule("t", "f", known+`, {"drop": null}`)}},
		{"a last rule", "f", []string{chain("t", "f", "forward", "accept"), rule("t", "f", known+`, {"accept": null}`),
			rule("t", "f", `{"counter": {"packets": 0}}, {"reject": {"type": "icmpx"}}`)}},
		{"a rule that counts", "", []string{chain("t", "f", "forward", "accept"), rule("t", "f", `{"counter": {}}`)}},
		{"a rule for the link", "", []string{chain("t", "f", "forward", "drop"), chain("t", "other", "", ""),
			rule("t", "other", link("bon1"))}},
		{"a rule for another link", "f", []string{chain("t", "f", "forward", "drop"), rule("t", "f", link("bon12"))}},
		{"a rule in another table", "f", []string{chain("t", "f", "forward", "drop"), rule("u", "f", link("bon1"))}},
	} {
		got, err := obstacles([]byte(`{"nftables": [{"metainfo": {}}`+strings.Join(append([]string{""}, x.rules...), ", ")+
			`]}`), "bon1")
		if err != nil || (x.want == "") != (len(got) == 0) || len(got) > 0 && got[0].Chain != x.want {
			t.Errorf("%s: %v, %v", x.name, got, err)
		}
	}
	if _, err := obstacles([]byte("no JSON"), "bon1"); !fault.Is(err, fault.Lab) {
		t.Errorf("no JSON: %v", err)
	}
}

func FuzzObstacles(f *testing.F) {
	f.Add([]byte(`{"nftables": [
		{"chain": {"family": "ip", "table": "a", "name": "f", "hook": "forward", "policy": "drop"}},
		{"rule": {"family": "ip", "table": "a", "chain": "f", "expr": [{"counter": null}, {"drop": null}]}}]}`))
	f.Add([]byte(`{"nftables": [{"rule": {"expr": []}}, {}, {"rule": {"expr": [null, "drop"]}}]}`))
	f.Fuzz(func(t *testing.T, listed []byte) {
		all, err := obstacles(listed, "bon0123")
		if err != nil && len(all) > 0 {
			t.Errorf("%q: %v, %v", listed, all, err)
		}
		for _, o := range all {
			if o.Family != "ip" && o.Family != "inet" || len(o.Fix) == 0 {
				t.Errorf("%q: %+v", listed, o)
			}
		}
	})
}
