package network

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/provision/netns"
	"bakeoff/provision/vm/filter"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/conn"
)

// needs skips a test without a program.
func needs(t *testing.T, program, pkg string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("needs %s: apt-get install %s", program, pkg)
	}
}

// command executes a command, in a namespace unless it is "", and returns what it prints.
func command(t *testing.T, namespace string, argv ...string) (string, error) {
	t.Helper()
	if namespace != "" {
		argv = append([]string{"ip", "netns", "exec", namespace}, argv...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	return string(out), err
}

// eventually waits until a command succeeds and prints want.
func eventually(t *testing.T, want, namespace string, argv ...string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		out, err := command(t, namespace, argv...)
		if err == nil && strings.Contains(out, want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v, want %q\n%s", strings.Join(argv, " "), err, want, out)
		}
	}
}

// join connects a namespace to a network as a container is connected. It has the name of its
// MAC address, and makes itself an address of what routers say only if makesAddress.
func join(t *testing.T, n *Network, m Member, makesAddress bool, v Veth, f filter.NIC) {
	t.Helper()
	v.Namespace, v.Name = "c"+strings.ReplaceAll(m.MAC, ":", ""), "net0"
	f.MAC = m.MAC
	if err := netns.IP(t.Context(), n.store.Host, "", "netns add "+v.Namespace); err != nil {
		t.Fatal(err)
	}
	if !makesAddress {
		inside := conn.FilesOf(netns.Within(n.store.Host, v.Namespace))
		if err := inside.WriteFile(t.Context(), "/proc/sys/net/ipv6/conf/default/autoconf", []byte("0")); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Ready(t.Context(), []Member{m}); err != nil {
		t.Fatal(err)
	}
	if err := n.Attach(t.Context(), Port{Link: Link("u", m.MAC), Filter: f, Veth: &v}); err != nil {
		t.Fatal(err)
	}
}

// A chain that drops forwarded packets is found while it keeps a guest from the outside, and its
// commands mend that.
func TestAFirewallOfThisMachine(t *testing.T) {
	if !apart(t) {
		return
	}
	needs(t, "busybox", "busybox")
	m := &machine{}
	if err := netns.IP(t.Context(), m, "", "link set lo up", "netns add world",
		"link add eth1 type veth peer name eth0 netns world", "addr add 192.0.2.2/24 dev eth1",
		"link set eth1 up"); err != nil {
		t.Fatal(err)
	}
	if err := netns.IP(t.Context(), m, "world", "addr add 192.0.2.1/24 dev eth0", "link set eth0 up"); err != nil {
		t.Fatal(err)
	}
	s := &Store{State: t.TempDir(), Host: m, At: m}
	n, err := s.Create(t.Context(), manifest.Network{Name: "out", Subnets: []string{"10.0.0.0/24"}, NAT: true,
		Uplink: "eth1"})
	if err != nil {
		t.Fatal(err)
	}
	guest := netip.MustParsePrefix("10.0.0.2/24")
	join(t, n, Member{MAC: "02:00:00:00:00:0a", Addresses: []netip.Addr{guest.Addr()}}, false,
		Veth{Addresses: []netip.Prefix{guest}, Routes: []Route{{To: defaultRoute, Via: guest.Addr().Prev()}}},
		filter.NIC{Addresses: []netip.Prefix{guest}})
	ping := []string{"busybox", "ping", "-c", "1", "-W", "1", "192.0.2.1"}
	eventually(t, "", "c02000000000a", ping...)

	for _, x := range []struct {
		name string
		put  func(t *testing.T) (remove func())
	}{
		{"policy", func(t *testing.T) func() {
			rules := "table inet other { chain passing { type filter hook forward priority 0; policy drop; }\n}\n"
			if err := nft(t.Context(), m, rules); err != nil {
				t.Fatal(err)
			}
			return func() {
				if err := nft(t.Context(), m, "delete table inet other"); err != nil {
					t.Error(err)
				}
			}
		}},
		{"firewalld", firewalld},
	} {
		t.Run(x.name, func(t *testing.T) {
			if x.name == "firewalld" {
				needs(t, "firewalld", "firewalld")
				needs(t, "dbus-daemon", "dbus-daemon")
			}
			if all, err := n.Obstacles(t.Context()); err != nil || len(all) > 0 {
				t.Fatalf("before: %v, %v", all, err)
			}
			remove := x.put(t)
			defer remove()
			if out, err := command(t, "c02000000000a", ping...); err == nil {
				t.Fatalf("packets pass: %s", out)
			}
			all, err := n.Obstacles(t.Context())
			if err != nil || len(all) != 1 {
				t.Fatalf("%v, %v", all, err)
			}
			for _, fix := range all[0].Fix {
				if out, err := command(t, "", strings.Fields(fix)...); err != nil {
					t.Fatalf("%s: %v\n%s", fix, err, out)
				}
			}
			eventually(t, "", "c02000000000a", ping...)
			if all, err := n.Obstacles(t.Context()); err != nil || len(all) > 0 {
				t.Errorf("after its commands: %v, %v", all, err)
			}
		})
	}
	if err := n.Delete(t.Context(), func() ([]string, error) { return nil, nil }); err != nil {
		t.Error(err)
	}
}

// firewalld starts firewalld with a bus and a configuration of its own.
func firewalld(t *testing.T) (end func()) {
	t.Helper()
	const own = `mkdir -p /run/dbus /run/firewalld && mount -t tmpfs none /etc/firewalld && dbus-daemon --system --fork`
	if out, err := command(t, "", "sh", "-c", own); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c := exec.CommandContext(t.Context(), "firewalld", "--nofork", "--nopid")
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "running", "", "firewall-cmd", "--state")
	return func() {
		if err := c.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		_ = c.Wait() // its exit code does not matter
	}
}

// dhcpScript is that of dhclient(8): it adds the address, and keeps what the server sent.
const dhcpScript = `#!/bin/sh
[ -n "$new_ip6_address" ] || exit 0
echo "$new_ip6_address/$new_ip6_prefixlen $new_dhcp6_name_servers" >>FILE
ip -6 addr replace "$new_ip6_address/$new_ip6_prefixlen" dev "$interface" nodad
`

// A guest gets its IPv6 address as its manifest says: by DHCPv6, or made of its MAC address by
// itself, and a route to the network, but none through this machine, which does not forward.
func TestIPv6(t *testing.T) {
	if !apart(t) {
		return
	}
	needs(t, "dhclient", "isc-dhcp-client")
	needs(t, "busybox", "busybox")
	m := &machine{}
	s := &Store{State: t.TempDir(), Host: m, At: m}
	for i, x := range []struct {
		subnet, address string
		autoconf        bool
	}{{"fd00:1::/64", "fd00:1::77", false}, {"fd00:2::/112", "fd00:2::77", false}, {"fd00:3::/64", "", true}} {
		t.Run(x.subnet, func(t *testing.T) {
			n, err := s.Create(t.Context(), manifest.Network{Name: fmt.Sprint("six", i), Subnets: []string{x.subnet}})
			if err != nil {
				t.Fatal(err)
			}
			member := Member{MAC: fmt.Sprintf("02:00:00:00:00:0%d", i), Resolvers: addrs("9.9.9.9", "fd00::53")}
			name := "c" + strings.ReplaceAll(member.MAC, ":", "")
			var f filter.NIC
			if x.autoconf {
				f.Autoconf = []netip.Prefix{n.Prefix6()}
				x.address = filter.EUI64(n.Prefix6(), member.MAC).String()
			} else {
				f.Addresses = []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr(x.address), 128)}
			}
			member.Addresses = addrs(x.address)
			join(t, n, member, x.autoconf, Veth{Autoconf: true}, f)
			if !x.autoconf {
				asks(t, name, x.address)
			}
			router := netip.MustParsePrefix(n.Subnets[0])
			eventually(t, router.Masked().String(), name, "ip", "-6", "route", "show", "dev", "net0")
			eventually(t, "", name, "busybox", "ping6", "-c", "1", "-W", "1", "-I", x.address, router.Addr().String())
			out, err := command(t, name, "ip", "-6", "addr", "show", "dev", "net0", "scope", "global")
			if err != nil || strings.Count(out, "inet6") != 1 || !strings.Contains(out, x.address+"/") {
				t.Errorf("its addresses, want %s: %v\n%s", x.address, err, out)
			}
			if out, err := command(t, name, "ip", "-6", "route", "show", "default"); err != nil || out != "" {
				t.Errorf("it has a router, which does not forward: %v\n%s", err, out)
			}
			if err := n.Delete(t.Context(), func() ([]string, error) { return nil, nil }); err != nil {
				t.Error(err)
			}
		})
	}
}

// asks makes a guest ask for its address by DHCPv6.
func asks(t *testing.T, name, address string) {
	t.Helper()
	dir := t.TempDir()
	told, script := filepath.Join(dir, "told"), filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte(strings.Replace(dhcpScript, "FILE", told, 1)), 0o700); err != nil {
		t.Fatal(err)
	}
	eventually(t, "inet6 fe80:", name, "ip", "-6", "addr", "show", "dev", "net0", "scope", "link", "-tentative")
	eventually(t, "", name, "dhclient", "-6", "-1", "-sf", script, "-lf", filepath.Join(dir, "leases"), "-pf",
		filepath.Join(dir, "pid"), "net0")
	got, err := os.ReadFile(told)
	if want := address + "/128 fd00::53"; err != nil || !strings.HasPrefix(string(got), want) {
		t.Errorf("it got %q, want %q: %v", got, want, err)
	}
}
