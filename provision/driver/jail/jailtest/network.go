package jailtest

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/name"
	"bakeoff/provision/driver/fake"
)

// rekey gives an interface another key.
func (m *State) rekey(from, to string) {
	l := m.Links[from]
	if from == to || l == nil {
		return
	}
	m.Links[to] = l
	delete(m.Links, from)
	if peer := m.Links[l.Peer]; peer != nil {
		peer.Peer = to
	}
}

// clone makes an interface of a kind that has clones, and returns its name.
func (m *State) clone(kind string) (name string, ok bool) {
	name = fmt.Sprintf("%s%d", kind, m.Units)
	switch kind {
	case "epair":
		a, b := name+"a", name+"b"
		m.Links[a], m.Links[b] = &Link{Kind: kind, Peer: b, MTU: 1500}, &Link{Kind: kind, Peer: a, MTU: 1500}
		name = a
	case "bridge", "vlan", "tap":
		m.Links[name] = &Link{Kind: kind, MTU: 1500}
	default:
		return "", false
	}
	m.Units++
	return name, true
}

// ifconfig is ifconfig(8).
func ifconfig(c *fake.Call, m *State) int {
	args := c.Argv[1:]
	jail, prefix := "", ""
	if len(args) > 1 && args[0] == "-j" {
		var j *Jail
		if jail, j = m.find(args[1]); j == nil || !j.VNET {
			return c.Failf("jail %q not found", args[1])
		}
		args, prefix = args[2:], jail+" "
	}
	switch {
	case len(args) == 0:
		return c.Failf("usage")
	case slices.Equal(args, []string{"-a", "inet"}):
		for name, l := range m.Links {
			c.Printf("%s: flags=8843<UP> metric 0 mtu 1500\n", name)
			for _, a := range l.Addrs {
				c.Printf("\tinet %s netmask 0xffffffff\n", strings.Split(a, "/")[0])
			}
		}
		return 0
	case len(args) > 1 && args[1] == "create" && jail == "":
		name, ok := m.clone(args[0])
		if !ok {
			return c.Failf("SIOCIFCREATE2 (%s): Invalid argument", args[0])
		}
		if len(args) == 2 || args[2] != "name" {
			c.Printf("%s\n", name)
		}
		if len(args) == 2 {
			return 0
		}
		args = append([]string{name}, args[2:]...)
	case slices.Equal(args, []string{"-a"}):
		for key, l := range m.Links {
			if l.Jail == jail {
				show(c, m, strings.TrimPrefix(key, prefix), l)
			}
		}
		return 0
	case args[0] == "lo0" && jail != "":
		if strings.Join(args[1:], " ") != "inet 127.0.0.1/8 up" {
			return c.Failf("lo0: bad value")
		}
		return 0
	}
	l := m.Links[prefix+args[0]]
	if l == nil || l.Jail != jail {
		return c.Failf("interface %s does not exist", args[0])
	}
	if len(args) == 1 {
		show(c, m, args[0], l)
	}
	for key, args := prefix+args[0], args[1:]; len(args) > 0; {
		n, code := 0, 0
		if key, n, code = configure(c, m, key, l, args); code != 0 {
			return code
		}
		args = args[min(n, len(args)):]
	}
	return 0
}

// show prints what ifconfig says about an interface.
func show(c *fake.Call, m *State, name string, l *Link) {
	c.Printf("%s: flags=1008843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST,LOWER_UP> metric 0 mtu %d\n", name, l.MTU)
	if l.Description != "" {
		c.Printf("\tdescription: %s\n", l.Description)
	}
	for _, a := range l.Addrs {
		if p := netip.MustParsePrefix(a); p.Addr().Is4() {
			c.Printf("\tinet %s netmask 0xffffff00 broadcast 0.0.0.0\n", p.Addr())
		} else {
			c.Printf("\tinet6 %s prefixlen %d\n", p.Addr(), p.Bits())
		}
	}
	for key, member := range m.Links {
		if member.Bridge == name {
			c.Printf("\tmember: %s flags=143<LEARNING,DISCOVER,AUTOEDGE,AUTOPTP>\n", key)
		}
	}
}

// configure does what the first words of args say. It returns the key that the interface then
// has, the number of words, and the exit code.
func configure(c *fake.Call, m *State, key string, l *Link, args []string) (_ string, n, code int) {
	fail := func(format string, more ...any) (string, int, int) { return key, 0, c.Failf(format, more...) }
	value := ""
	if len(args) > 1 {
		value = args[1]
	}
	number, _ := strconv.Atoi(value)
	n = 2
	switch args[0] {
	case "up":
		l.Up, n = true, 1
	case "destroy":
		if l.Kind == "em" || l.Jail != "" {
			return fail("SIOCIFDESTROY: Invalid argument")
		}
		for _, member := range m.Links {
			if member.Bridge == key {
				member.Bridge = ""
			}
		}
		delete(m.Links, l.Peer)
		delete(m.Links, key)
		n = 1
	case "name":
		to := value
		if l.Jail != "" {
			to = l.Jail + " " + value
		}
		if m.Links[to] != nil || value == "" || len(value) > 15 {
			return fail("ioctl SIOCSIFNAME (set name): File exists")
		}
		m.rekey(key, to)
		key = to
	case "vnet":
		name, j := m.find(value)
		if j == nil || !j.VNET || l.Jail != "" || l.Bridge != "" || m.Links[name+" "+key] != nil {
			return fail("SIOCSIFVNET: cannot give %s to %q", key, value)
		}
		m.rekey(key, name+" "+key)
		key, l.Jail, l.Addrs = name+" "+key, name, nil
	case "ether":
		if !name.ValidMAC(value) {
			return fail("%s: bad address", value)
		}
		l.MAC = value
	case "mtu":
		if number < 72 || number > 65535 || l.Bridge != "" {
			return fail("ioctl SIOCSIFMTU (set mtu): Invalid argument")
		}
		l.MTU = number
	case "description":
		l.Description = value
	case "vlan":
		if l.Kind != "vlan" || number < 1 || number > 4094 || len(args) < 4 || args[2] != "vlandev" ||
			m.Links[args[3]] == nil {
			return fail("vlan: bad value")
		}
		l.VLAN, l.VLANDev, n = number, args[3], 4
	case "addm":
		member := m.Links[value]
		if l.Kind != "bridge" || member == nil || member.Bridge != "" || member.Jail != "" {
			return fail("BRDGADD %s: Device busy", value)
		}
		member.Bridge, member.MTU = key, l.MTU
	case "static":
		if n = 3; len(args) < 3 || m.Links[value] == nil || m.Links[value].Bridge != key || !name.ValidMAC(args[2]) {
			return fail("BRDGSADDR %s: Invalid argument", value)
		}
		if l.Static == nil {
			l.Static = map[string]string{}
		}
		l.Static[args[2]] = value
	case "inet", "inet6":
		if len(args) > 2 && args[2] == "-alias" {
			i := slices.IndexFunc(l.Addrs, func(a string) bool { return strings.Split(a, "/")[0] == value })
			if i < 0 {
				return fail("ioctl (SIOCDIFADDR): Can't assign requested address")
			}
			l.Addrs, n = slices.Delete(l.Addrs, i, i+1), 3
			break
		}
		p, err := netip.ParsePrefix(value)
		if err != nil || p.Addr().Is4() != (args[0] == "inet") || slices.Contains(l.Addrs, value) {
			return fail("ioctl (SIOCAIFADDR): File exists or bad value %s", value)
		}
		l.Addrs = append(l.Addrs, value)
		if len(args) > 2 && args[2] == "alias" {
			n = 3
		}
	default:
		return fail("%s: bad value", args[0])
	}
	return key, n, 0
}

// route is `route -j JAIL -n add …`, as route(8) describes it.
func route(c *fake.Call, m *State) int {
	args := c.Argv[1:]
	if len(args) < 6 || args[0] != "-j" || args[2] != "-n" || args[3] != "add" {
		return c.Failf("usage")
	}
	name, j := m.find(args[1])
	if j == nil || !j.VNET {
		return c.Failf("jail %q not found", args[1])
	}
	args = args[4:]
	to := args[0]
	if to == "-net" || to == "-host" {
		_, perr := netip.ParsePrefix(args[1])
		_, aerr := netip.ParseAddr(args[1])
		if to == "-net" && perr != nil || to == "-host" && aerr != nil {
			return c.Failf("bad address: %s", args[1])
		}
		to, args = args[1], args[1:]
	} else if to != "default" {
		return c.Failf("bad keyword: %s", to)
	}
	switch via := args[1:]; {
	case len(via) == 2 && via[0] == "-interface" && m.Links[name+" "+via[1]] != nil:
		m.Routes = append(m.Routes, name+" "+to+" "+via[1])
	case len(via) == 1 && m.reaches(name, via[0]):
		m.Routes = append(m.Routes, name+" "+to+" "+via[0])
	default:
		return c.Failf("writing to routing socket: Network is unreachable")
	}
	return 0
}

// reaches tells whether a jail has a network, or a route without a router, with an address.
func (m *State) reaches(jail, address string) bool {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return false
	}
	for key, l := range m.Links {
		if l.Jail == jail && slices.Contains(m.Routes, jail+" "+address+" "+strings.TrimPrefix(key, jail+" ")) {
			return true
		}
		for _, text := range l.Addrs {
			if p, err := netip.ParsePrefix(text); err == nil && l.Jail == jail && p.Contains(a) {
				return true
			}
		}
	}
	return false
}
