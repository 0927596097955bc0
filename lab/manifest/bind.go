package manifest

import (
	"slices"

	"bakeoff/base/fault"
)

// Unbound returns the names of the hosts that come from pools and have no address yet: the
// hosts of contenders first, in the order of the contenders, and then the generator's.
func (l *Lab) Unbound() (names []string) {
	seen := map[string]bool{}
	add := func(host string) {
		if l.Hosts[host].Pool != "" && !seen[host] {
			seen[host] = true
			names = append(names, host)
		}
	}
	for _, c := range l.Contenders {
		add(c.Host)
	}
	add(l.Generator)
	return names
}

// Bind gives a host that comes from a pool its address; "local" is this machine.
func (l *Lab) Bind(name, address string) error {
	h, ok := l.Hosts[name]
	if !ok || h.Pool == "" {
		return fault.New(fault.Invalid, "the lab file has no host %q that comes from a pool", name)
	}
	h.Pool, h.Count = "", 0
	if address != "local" {
		h.SSH = address
		l.Hosts[name] = h
		return nil
	}
	delete(l.Hosts, name)
	_, known := l.Hosts["local"]
	if !known && (len(h.Meter) > 0 || h.Uplink != "" || h.Address != "") {
		l.Hosts["local"] = Host{Meter: h.Meter, Uplink: h.Uplink, Address: h.Address}
	}
	for i := range l.Contenders {
		if l.Contenders[i].Host == name {
			l.Contenders[i].Host = "local"
		}
	}
	if l.Generator == name {
		l.Generator = "local"
	}
	return nil
}

// HostNames returns the names of the other machines that the lab uses, in the order of
// Unbound.
func (l *Lab) HostNames() (names []string) {
	for _, c := range l.Contenders {
		names = append(names, c.Host)
	}
	names = append(names, l.Generator)
	return slices.Compact(slices.DeleteFunc(names, func(name string) bool { return l.Hosts[name].SSH == "" }))
}
