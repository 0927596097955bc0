package manifest

import (
	"maps"
	"net/netip"
	"path"
	"slices"
	"strconv"

	"bakeoff/base/yamltree"
)

func (r *resolver) hosts(l *Lab, n *yamltree.Node) {
	if n == nil {
		return
	}
	l.Hosts = map[string]Host{}
	for _, e := range n.Entries {
		l.Hosts[e.Key.Text] = r.host(e.Value)
		r.reached(e)
	}
	for _, e := range n.Entries {
		r.equal(l, e.Key.Text, e.Value)
	}
}

// reached checks that a host has an address, and that the entry of this machine
// sets nothing but meter, uplink and address.
func (r *resolver) reached(e yamltree.Entry) {
	if e.Key.Text != "local" {
		pool := e.Value.Get("pool")
		switch {
		case pool == nil && e.Value.Get("ssh") == nil:
			r.fail(e.Key, "add ssh: user@host, or pool: NAME for a job of Slurm", "host %s has no address",
				yamltree.Show(e.Key.Text))
		case pool == nil && e.Value.Get("count") != nil:
			r.fail(e.Value.Get("count"), "remove it, or add pool: NAME", "host %s has a count, but no pool",
				yamltree.Show(e.Key.Text))
		}
		for _, key := range []string{"ssh", "port", "dir", "repair", "switch", "reboot", "expect",
			"equal_to"} {
			if at := e.Value.Get(key); pool != nil && at != nil {
				r.fail(at, "remove it, or remove pool", "host %s comes from a pool and cannot have the key %s",
					yamltree.Show(e.Key.Text), key)
			}
		}
		return
	}
	for _, f := range e.Value.Entries {
		if !slices.Contains([]string{"meter", "uplink", "address"}, f.Key.Text) {
			r.fail(f.Key, "choose another name for the host",
				"local is this machine: only meter, uplink and address may be set")
		}
	}
}

// host reads one host.
func (r *resolver) host(n *yamltree.Node) Host {
	h := Host{SSH: r.text(n, "ssh"), Pool: r.text(n, "pool"), Dir: r.text(n, "dir"), EqualTo: r.text(n, "equal_to"),
		Uplink: r.text(n, "uplink"), Address: r.text(n, "address")}
	if v := n.Get("port"); v != nil && !r.bad[v] {
		h.Port, _ = strconv.Atoi(v.String())
	}
	if v := n.Get("count"); v != nil && !r.bad[v] {
		h.Count, _ = strconv.Atoi(v.String())
	}
	if a, err := netip.ParseAddr(h.Address); h.Address != "" && (err != nil || a.Zone() != "" || a.IsUnspecified()) {
		r.fail(n.Get("address"), "write an IP address like 192.0.2.7", "%s is not the address of a machine",
			yamltree.Show(h.Address))
	}
	if h.Dir != "" && path.Clean(h.Dir) != h.Dir {
		r.fail(n.Get("dir"), "write "+path.Clean(h.Dir), "the path %s is not in its shortest form", yamltree.Show(h.Dir))
	}
	h.Repair = r.argv(n, "repair", "[zfs, rollback, tank/lab@clean]")
	h.Meter = r.argv(n, "meter", "[/usr/local/bin/read-meter]")
	h.Reboot = r.argv(n, "reboot", "[shutdown, -r, now]")
	if s := r.sub(n, "switch", yamltree.Mapping); s != nil {
		h.Switch = map[string][]string{}
		for _, system := range s.Entries {
			h.Switch[system.Key.Text] = r.argv(s, system.Key.Text, `[efibootmgr, -n, -b, "0002"]`)
		}
	}
	if s := r.sub(n, "expect", yamltree.Mapping); s != nil {
		h.Expect = map[string]string{}
		for _, e := range s.Entries {
			h.Expect[e.Key.Text] = e.Value.String()
			if _, ok := h.Switch[e.Key.Text]; !ok {
				r.fail(e.Key, yamltree.Meant(e.Key.Text, slices.Sorted(maps.Keys(h.Switch))), "switch has no system %s",
					yamltree.Show(e.Key.Text))
			}
		}
	}
	for _, system := range slices.Sorted(maps.Keys(h.Switch)) {
		if _, ok := h.Expect[system]; !ok && !slices.Contains(KnownSystems, system) {
			r.fail(n.Get("switch"), "write expect: {"+system+": …} with a text from its uname -sr or os-release",
				"system %s is unknown and has no text to recognize it by", yamltree.Show(system))
		}
	}
	return h
}

// KnownSystems are the names that identify a booted system: its name in Go, or
// the ID of os-release(5).
var KnownSystems = []string{"freebsd", "openbsd", "netbsd", "dragonfly", "illumos", "smartos", "omnios", "openindiana",
	"debian", "ubuntu", "alpine", "void", "fedora", "arch", "rocky", "almalinux", "opensuse-leap", "opensuse-tumbleweed",
	"nixos", "gentoo", "linux"}

// argv reads an argument vector, which is empty where the key is absent.
func (r *resolver) argv(n *yamltree.Node, key, example string) []string {
	v := n.Get(key)
	if v == nil || v.Kind != yamltree.Sequence {
		return nil
	}
	if len(v.Items) == 0 {
		r.fail(v, "write an argument vector: "+example, "%s is empty", key)
	}
	return r.texts(v)
}

// equal checks what a host is declared equal to.
func (r *resolver) equal(l *Lab, name string, n *yamltree.Node) {
	to := l.Hosts[name].EqualTo
	at := n.Get("equal_to")
	if to == "" || r.bad[at] {
		return
	}
	if _, ok := l.Hosts[to]; !ok && to != "local" {
		r.fail(at, yamltree.Meant(to, append(slices.Sorted(maps.Keys(l.Hosts)), "local")), "there is no host %s",
			yamltree.Show(to))
	}
	if to == name {
		r.fail(at, "name another host", "host %s is declared equal to itself", yamltree.Show(name))
	}
}

// system checks that a contender names a system where its host has several,
// and only there.
func (r *resolver) system(h Host, c Contender, n *yamltree.Node) {
	systems := slices.Sorted(maps.Keys(h.Switch))
	at := n.Get("system")
	switch {
	case c.System == "" && len(systems) > 0 && !r.bad[at]:
		r.Add(n.Position, "add system: "+yamltree.OneOf(systems), "contender %s names no system, and host %s has several",
			yamltree.Show(c.Name), yamltree.Show(c.Host))
	case c.System != "" && len(systems) == 0:
		r.fail(at, "remove system, or add switch to the host", "host %s has no switch", yamltree.Show(c.Host))
	case c.System != "" && !slices.Contains(systems, c.System):
		r.fail(at, yamltree.Meant(c.System, systems), "host %s has no system %s", yamltree.Show(c.Host),
			yamltree.Show(c.System))
	}
}

// generator checks the host that load comes from: it has no contender, and every
// contender's host is connected with it. Bare machines are reached over their own network,
// and all others over uplinks: a comparison of the two would compare links.
func (r *resolver) generator(l *Lab, root *yamltree.Node) {
	at := root.Get("generator")
	hosts := r.sub(root, "hosts", yamltree.Mapping)
	if at == nil {
		for name, h := range l.Hosts {
			if h.Uplink != "" {
				r.fail(hosts.Get(name).Get("uplink"), "remove it, or name the host that generates the load: generator: …",
					"host %s has an uplink, but no other host generates load", yamltree.Show(name))
			}
		}
		return
	}
	if l.Generator = r.text(root, "generator"); l.Generator == "" {
		return
	}
	if _, ok := l.Hosts[l.Generator]; !ok && l.Generator != "local" {
		r.fail(at, yamltree.Meant(l.Generator, append(slices.Sorted(maps.Keys(l.Hosts)), "local")), "there is no host %s",
			yamltree.Show(l.Generator))
		return
	}
	told := map[string]bool{}
	lacks := func(host string, n yamltree.Position, what string) {
		if l.Hosts[host].Uplink == "" && !told[host] {
			told[host] = true
			r.Add(n, "write hosts: {"+host+": {uplink: eth1}}", "%s %s has no uplink", what, yamltree.Show(host))
		}
	}
	whole := func(c Contender) bool {
		i := slices.IndexFunc(r.cat.Drivers, func(d DriverEntry) bool { return d.Name == c.Driver })
		return i >= 0 && r.cat.Drivers[i].Whole
	}
	bare := slices.ContainsFunc(l.Contenders, whole)
	if !bare {
		lacks(l.Generator, at.Position, "the generator's host")
	}
	for i, n := range mappings(r.sub(root, "contenders", yamltree.Sequence)) {
		if i >= len(l.Contenders) {
			break
		}
		c := l.Contenders[i]
		switch {
		case c.Host == l.Generator:
			r.Add(n.Position, "name another host, or remove generator",
				"contender %s is on the host that generates its load", yamltree.Show(c.Name))
		case whole(c):
		case bare:
			r.Add(n.Position, "use the driver machine for all contenders, or for none, or remove generator",
				"contender %s is reached over an uplink, and other contenders are bare machines with their own network: the "+
					"comparison would measure two different links", yamltree.Show(c.Name))
		case len(l.Hosts[c.Host].Switch) > 0:
			r.Add(n.Position, "remove generator", "host %s is switched between systems and cannot have an uplink",
				yamltree.Show(c.Host))
		default:
			lacks(c.Host, n.Position, "the host of contender "+c.Name+",")
		}
	}
}
