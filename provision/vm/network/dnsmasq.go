package network

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/base/sleep"
	"bakeoff/reach/conn"
)

// The files of dnsmasq.
const (
	fileConfig  = "dnsmasq.conf"
	filePID     = "dnsmasq.pid"
	fileHosts   = "hosts"
	fileClients = "dhcp-hosts"
	fileOptions = "dhcp-options"
	fileLeases  = "leases"
)

// Member is a NIC of a guest in a network, whether the guest runs or not.
type Member struct {
	Names     []string // those of the guest
	MAC       string
	Addresses []netip.Addr // of the manifest
	DHCP      bool         // it asks for an address, and the manifest has none
	VLAN      int
	Routers   []netip.Addr
	Resolvers []netip.Addr
	MTU       int
}

// server is the process of dnsmasq; 0 if there is none.
func (n *Network) server() int {
	b, err := os.ReadFile(filepath.Join(n.runDir(), filePID))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid <= 1 {
		return 0
	}
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil || !bytes.Contains(line, []byte(filepath.Join(n.runDir(), fileConfig))) {
		return 0 // it has ended, and another process may have its number
	}
	return pid
}

// serve starts dnsmasq, unless it runs, or the network has no address for it.
func (n *Network) serve(ctx context.Context) error {
	if len(n.Subnets) == 0 || n.server() != 0 {
		return nil
	}
	if err := os.MkdirAll(n.runDir(), 0o755); err != nil {
		return err
	}
	for _, name := range []string{fileHosts, fileClients, fileOptions} {
		f, err := os.OpenFile(filepath.Join(n.runDir(), name), os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		f.Close()
	}
	config := filepath.Join(n.runDir(), fileConfig)
	if err := atomicfile.Write(config, []byte(n.config(upstream())), 0o644); err != nil {
		return err
	}
	_, err := conn.Output(ctx, n.within(), "dnsmasq", "--conf-file="+config)
	return fault.Op("start dnsmasq for network "+n.Name, err)
}

// upstream are the name servers of this machine that can be reached from a network with NAT.
func upstream() []netip.Addr {
	b, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		return nil
	}
	return nameServers(b)
}

// nameServers reads resolv.conf(5), without servers of the loopback interface.
func nameServers(b []byte) (out []netip.Addr) {
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(f[1]); err == nil && !a.IsLoopback() && a.Zone() == "" {
			out = append(out, a)
		}
	}
	return out
}

// config is the configuration of dnsmasq (dnsmasq(8)). It gives addresses only to guests that
// it knows by their MAC address, and believes no name that a guest says of itself.
func (n *Network) config(servers []netip.Addr) string {
	file := func(name string) string { return filepath.Join(n.runDir(), name) }
	lines := []string{"interface=" + bridge, "except-interface=lo", "bind-interfaces", "no-resolv", "no-hosts", "no-poll",
		"domain-needed", "bogus-priv", "pid-file=" + file(filePID), "addn-hosts=" + file(fileHosts),
		"dhcp-hostsfile=" + file(fileClients), "dhcp-optsfile=" + file(fileOptions), "dhcp-leasefile=" + file(fileLeases),
		"dhcp-authoritative", "dhcp-ignore-clid", "dhcp-ignore-names", "log-facility=" + file("log")}
	if p := n.subnet(false); p.IsValid() {
		lines = append(lines, "dhcp-range="+p.Masked().Addr().String()+",static")
	}
	// Guests get the addresses that tables has for them, and make one by themselves if the subnet
	// permits that (slaac). This machine is not a router of IPv6: the last 0 says so.
	if p := n.subnet(true).Masked(); p.IsValid() && p.Bits() >= minSubnet6 {
		mode := "static"
		if p == n.Prefix6() {
			mode += ",slaac"
		}
		lines = append(lines, "enable-ra", "ra-param="+bridge+",600,0",
			fmt.Sprintf("dhcp-range=%s,%s,%d", p.Addr(), mode, p.Bits()))
	}
	if n.NAT {
		for _, a := range servers {
			lines = append(lines, "server="+a.String())
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// minSubnet6 is the shortest prefix that dnsmasq accepts.
const minSubnet6 = 64

// endTime bounds the end of dnsmasq.
const endTime = 10 * time.Second

// endServer ends dnsmasq and removes its files.
func (n *Network) endServer(ctx context.Context) error {
	end := time.Now().Add(endTime)
	for pid := n.server(); pid != 0 && n.server() == pid; {
		if err := signal(pid, syscall.SIGTERM); err != nil {
			return err
		}
		if time.Now().After(end) {
			return fault.New(fault.Lab, "dnsmasq (process %d) of network %s does not end", pid, n.Name)
		}
		if err := sleep.For(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return os.RemoveAll(n.runDir())
}

// signal sends a signal to a process, which may have ended.
func signal(pid int, s os.Signal) error {
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Signal(s)
	}
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// publish writes what dnsmasq says about members, and makes it read that.
func (n *Network) publish(members []Member) error {
	if len(n.Subnets) == 0 {
		return nil
	}
	changed := false
	for name, text := range n.tables(members) {
		file := filepath.Join(n.runDir(), name)
		if old, err := os.ReadFile(file); err == nil && string(old) == text {
			continue
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := atomicfile.Write(file, []byte(text), 0o644); err != nil {
			return err
		}
		changed = true
	}
	if pid := n.server(); changed && pid != 0 {
		return signal(pid, syscall.SIGHUP)
	}
	return nil
}

// tables are the files that dnsmasq reads again.
func (n *Network) tables(members []Member) map[string]string {
	var hosts, clients, options strings.Builder
	for i, m := range members {
		if m.VLAN != 0 {
			continue // dnsmasq serves frames without a tag
		}
		all := m.Addresses
		if a, ok := n.Reserved[m.MAC]; ok && m.DHCP {
			all = append(slices.Clone(all), a)
		}
		for _, a := range all {
			if len(m.Names) > 0 {
				fmt.Fprintf(&hosts, "%s %s\n", a, strings.Join(m.Names, " "))
			}
		}
		// Until a lease of DHCPv6 ends, dnsmasq gives its address to no other identifier. A guest with
		// a new disk has a new one, so leases with such an address are as short as dnsmasq permits.
		four, six := n.first(all, false), n.first(all, true)
		tag := fmt.Sprint("nic", i)
		switch {
		case four.IsValid() && six.IsValid():
			fmt.Fprintf(&clients, "%s,set:%s,%s,[%s],2m\n", m.MAC, tag, four, six)
		case four.IsValid():
			fmt.Fprintf(&clients, "%s,set:%s,%s,infinite\n", m.MAC, tag, four)
		case six.IsValid():
			fmt.Fprintf(&clients, "%s,set:%s,[%s],2m\n", m.MAC, tag, six)
		default:
			continue
		}
		fmt.Fprintf(&options, "tag:%s,option:router%s\n", tag, list(m.Routers, false))
		if text := list(m.Resolvers, false); text != "" {
			fmt.Fprintf(&options, "tag:%s,option:dns-server%s\n", tag, text)
		}
		if text := list(m.Resolvers, true); text != "" {
			fmt.Fprintf(&options, "tag:%s,option6:dns-server%s\n", tag, text)
		}
		if m.MTU > 0 {
			fmt.Fprintf(&options, "tag:%s,option:mtu,%d\n", tag, m.MTU)
		}
	}
	return map[string]string{fileHosts: hosts.String(), fileClients: clients.String(), fileOptions: options.String()}
}

// list are the addresses of one version in an option of dnsmasq.
func list(all []netip.Addr, six bool) string {
	var b strings.Builder
	for _, a := range all {
		switch {
		case a.Is6() != six:
		case six:
			b.WriteString(",[" + a.String() + "]")
		default:
			b.WriteString("," + a.String())
		}
	}
	return b.String()
}

// first is the first address in the subnet of a version; invalid without one.
func (n *Network) first(all []netip.Addr, six bool) netip.Addr {
	p := n.subnet(six)
	if i := slices.IndexFunc(all, func(a netip.Addr) bool { return p.Contains(a) }); i >= 0 {
		return all[i]
	}
	return netip.Addr{}
}

// reserve gives members that ask for an address one that nobody has, and keeps it as long as
// the member exists.
func (n *Network) reserve(members []Member) error {
	subnet := n.subnet(false)
	kept, taken := map[string]netip.Addr{}, map[netip.Addr]bool{subnet.Addr(): true}
	for _, m := range members {
		for _, a := range append(slices.Clone(m.Addresses), m.Routers...) {
			taken[a] = true
		}
	}
	for _, m := range members {
		if a, ok := n.Reserved[m.MAC]; ok && m.DHCP && m.VLAN == 0 && subnet.Contains(a) && !taken[a] {
			kept[m.MAC], taken[a] = a, true
		}
	}
	for _, m := range members {
		if !m.DHCP || m.VLAN != 0 || !subnet.IsValid() || kept[m.MAC].IsValid() {
			continue
		}
		a := subnet.Masked().Addr().Next()
		for taken[a] && subnet.Contains(a) {
			a = a.Next()
		}
		if !subnet.Contains(a.Next()) { // the last one is for broadcasts
			return fault.WithFix(fault.New(fault.Unsupported, "network %s has no free address in %s", n.Name, subnet.Masked()),
				"delete guests, or create a network with a larger subnet")
		}
		kept[m.MAC], taken[a] = a, true
	}
	n.Reserved = kept
	return n.write()
}
