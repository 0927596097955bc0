package manifest

import (
	"maps"
	"path"
	"slices"
	"strconv"
)

func (r *resolver) hosts(l *Lab, n *node) {
	if n == nil {
		return
	}
	l.Hosts = map[string]Host{}
	for _, e := range n.entries {
		l.Hosts[e.key.text] = r.host(e.value)
		r.reached(e)
	}
	for _, e := range n.entries {
		r.equal(l, e.key.text, e.value)
	}
}

// reached checks that a host says where it is, and that nothing is said of this
// machine but how its energy is metered and how it is connected.
func (r *resolver) reached(e entry) {
	if e.key.text != "local" {
		if e.value.get("ssh") == nil {
			r.fail(e.key, "write ssh: user@host", "host %s does not say where it is reached", show(e.key.text))
		}
		return
	}
	for _, f := range e.value.entries {
		if f.key.text != "meter" && f.key.text != "uplink" {
			r.fail(f.key, "choose another name for the host", "local is this machine and is always there: it has a meter, an uplink and nothing else")
		}
	}
}

// host reads one host.
func (r *resolver) host(n *node) Host {
	h := Host{SSH: r.text(n, "ssh"), Dir: r.text(n, "dir"), EqualTo: r.text(n, "equal_to"), Uplink: r.text(n, "uplink")}
	if v := n.get("port"); v != nil && !r.bad[v] {
		h.Port, _ = strconv.Atoi(textOf(v))
	}
	if h.Dir != "" && path.Clean(h.Dir) != h.Dir {
		r.fail(n.get("dir"), "write "+path.Clean(h.Dir), "the path %s is not a plain one", show(h.Dir))
	}
	h.Repair = r.argv(n, "repair", "[zfs, rollback, tank/lab@clean]")
	h.Meter = r.argv(n, "meter", "[/usr/local/bin/read-meter]")
	h.Reboot = r.argv(n, "reboot", "[shutdown, -r, now]")
	if s := r.sub(n, "switch", mapping); s != nil {
		h.Switch = map[string][]string{}
		for _, system := range s.entries {
			h.Switch[system.key.text] = r.argv(s, system.key.text, `[efibootmgr, -n, -b, "0002"]`)
		}
	}
	if s := r.sub(n, "expect", mapping); s != nil {
		h.Expect = map[string]string{}
		for _, e := range s.entries {
			h.Expect[e.key.text] = textOf(e.value)
			if _, ok := h.Switch[e.key.text]; !ok {
				r.fail(e.key, meant(e.key.text, slices.Sorted(maps.Keys(h.Switch))), "switch has no system %s", show(e.key.text))
			}
		}
	}
	for _, system := range slices.Sorted(maps.Keys(h.Switch)) {
		if _, ok := h.Expect[system]; !ok && !slices.Contains(KnownSystems, system) {
			r.fail(n.get("switch"), "write expect: {"+system+": …}, a text out of its uname -sr or its os-release",
				"how the system %s is told from others is not said", show(system))
		}
	}
	return h
}

// KnownSystems are names that a booted system can be recognised by: what Go
// calls it, or the ID of os-release(5).
var KnownSystems = []string{"freebsd", "openbsd", "netbsd", "dragonfly", "illumos", "smartos", "omnios", "openindiana",
	"debian", "ubuntu", "alpine", "void", "fedora", "arch", "rocky", "almalinux", "opensuse-leap", "opensuse-tumbleweed", "nixos", "gentoo", "linux"}

// argv reads an argument vector, which is empty where the key is absent.
func (r *resolver) argv(n *node, key, example string) []string {
	v := n.get(key)
	if v == nil || v.kind != sequence {
		return nil
	}
	if len(v.items) == 0 {
		r.fail(v, "write an argument vector: "+example, "%s has nothing to execute", key)
	}
	return r.texts(v)
}

// equal checks what a host is declared equal to.
func (r *resolver) equal(l *Lab, name string, n *node) {
	to := l.Hosts[name].EqualTo
	at := n.get("equal_to")
	if to == "" || r.bad[at] {
		return
	}
	if _, ok := l.Hosts[to]; !ok && to != "local" {
		r.fail(at, meant(to, append(slices.Sorted(maps.Keys(l.Hosts)), "local")), "there is no host %s", show(to))
	}
	if to == name {
		r.fail(at, "name another one", "host %s is declared equal to itself", show(name))
	}
}

// system checks that a contender names a system where its host has several,
// and only there.
func (r *resolver) system(h Host, c Contender, n *node) {
	systems := slices.Sorted(maps.Keys(h.Switch))
	at := n.get("system")
	switch {
	case c.System == "" && len(systems) > 0 && !r.bad[at]:
		r.add(n.position, "write system: "+oneOf(systems), "contender %s does not say which system of host %s it needs", show(c.Name), show(c.Host))
	case c.System != "" && len(systems) == 0:
		r.fail(at, "remove it, or give the host a switch", "host %s has no systems to switch between", show(c.Host))
	case c.System != "" && !slices.Contains(systems, c.System):
		r.fail(at, meant(c.System, systems), "host %s has no system %s", show(c.Host), show(c.System))
	}
}

// generator checks the host that load comes from: it is no contender's, and all
// of them are connected with it.
func (r *resolver) generator(l *Lab, root *node) {
	at := root.get("generator")
	hosts := r.sub(root, "hosts", mapping)
	if at == nil {
		for name, h := range l.Hosts {
			if h.Uplink != "" {
				r.fail(hosts.get(name).get("uplink"), "write generator: and the host that load comes from, or remove it", "host %s has an uplink, and no other host makes load", show(name))
			}
		}
		return
	}
	if l.Generator = r.text(root, "generator"); l.Generator == "" {
		return
	}
	if _, ok := l.Hosts[l.Generator]; !ok && l.Generator != "local" {
		r.fail(at, meant(l.Generator, append(slices.Sorted(maps.Keys(l.Hosts)), "local")), "there is no host %s", show(l.Generator))
		return
	}
	told := map[string]bool{}
	lacks := func(host string, n position, what string) {
		if l.Hosts[host].Uplink == "" && !told[host] {
			told[host] = true
			r.add(n, "write hosts: {"+host+": {uplink: eth1}}", "%s %s has no uplink", what, show(host))
		}
	}
	lacks(l.Generator, at.position, "the generator's host")
	for i, n := range r.sub(root, "contenders", sequence).mappings() {
		if i >= len(l.Contenders) {
			break
		}
		c := l.Contenders[i]
		switch {
		case c.Host == l.Generator:
			r.add(n.position, "name another host, or remove generator", "contender %s is on the host that is to make its load", show(c.Name))
		case len(l.Hosts[c.Host].Switch) > 0:
			r.add(n.position, "remove generator", "host %s is switched between systems, and has no uplink in them", show(c.Host))
		default:
			lacks(c.Host, n.position, "the host of contender "+c.Name+",")
		}
	}
}
