package engine

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/driver"
	"bakeoff/provision/isolation"
	"bakeoff/provision/netns"
)

// Network is how a container is reached: over the experiment's network alone, or as its
// engine does it for people.
type Network string

// The networks of containers. Proxy is Docker's, Slirp and Pasta are Podman's.
const (
	Experiment Network = "experiment"
	HostNet    Network = "host"
	Bridge     Network = "bridge"
	Published  Network = "published"
	Proxy      Network = "proxy"
	Slirp      Network = "slirp4netns"
	Pasta      Network = "pasta"
)

// networks describes each of them: for the lab file, and as the fact "network" of an
// environment.
var networks = map[Network]struct{ doc, fact string }{
	Experiment: {"over a link from the experiment's network into the container, as with every other driver", ""},
	HostNet: {
		"over the network of the host (--network host)",
		"the host network: the link ends outside of the container's namespaces",
	},
	Bridge: {"over the engine's bridge, to the container's own address",
		"the engine's bridge and the container's own address: routed, no address translation"},
	Published: {"over the engine's bridge, to ports that the engine publishes with rules of the packet filter",
		"the engine's bridge behind published ports: address translation by the packet filter"},
	Proxy: {"over the engine's bridge, to ports that the program docker-proxy publishes without the packet filter " +
		"(requires engine: private)",
		"the engine's bridge behind published ports: the process docker-proxy copies each connection"},
	Slirp: {"to ports that slirp4netns, a network stack in user space, publishes",
		"slirp4netns behind published ports: a process copies each connection"},
	Pasta: {"to ports that the program pasta publishes", "pasta behind published ports: a process moves the traffic"},
}

// NetworkOption is the option network with these values, Experiment first.
func NetworkOption(values ...Network) param.Spec {
	s := param.Spec{Name: "network", Kind: param.Text, Default: string(Experiment),
		Doc: "How load reaches the container. "}
	var docs []string
	for _, v := range values {
		s.Enum = append(s.Enum, string(v))
		docs = append(docs, string(v)+": "+networks[v].doc)
	}
	slices.Sort(s.Enum)
	s.Doc += strings.Join(docs, ". ") + "."
	return s
}

// Publishes tells whether load reaches published ports only.
func (n Network) Publishes() bool { return n != Experiment && n != HostNet && n != Bridge }

// Own tells whether the container has a network of its engine.
func (n Network) Own() bool { return n != Experiment && n != HostNet }

// For is o for an environment: without a place on the experiment's network, its container
// has none of its engine either.
func (o Options) For(spec driver.Spec) Options {
	if spec.Network == nil {
		o.Network = Experiment
	}
	return o
}

// NetworkFlags are the flags of `run` for a network of the engine. The published address is
// the environment's on the experiment's network, so that all environments publish the same
// ports.
func (c *Container) NetworkFlags() []string {
	spec, n := c.Env.Spec, c.Options.Network
	mode := string(n)
	if n == Published || n == Proxy {
		mode = string(Bridge)
	}
	out := []string{"--network", mode}
	if n.Publishes() {
		for _, port := range spec.Ports {
			p := strconv.Itoa(int(port))
			out = append(out, "--publish", spec.Network.Addr.Addr().String()+":"+p+":"+p+"/tcp")
		}
	}
	if n.Own() {
		for _, name := range slices.Sorted(maps.Keys(spec.Tuning)) {
			out = append(out, "--sysctl", name+"="+spec.Tuning[name])
		}
	}
	return out
}

// Reach says where load reaches a container on a network of its engine, once it runs.
func (c *Container) Reach(ctx context.Context) error {
	e, n := c.Env, c.Options.Network
	switch {
	case n.Publishes():
		e.Behind(e.Spec.Network.Addr.Addr(), netip.IPv4Unspecified())
	case n == Bridge:
		out, err := c.Ask(ctx, "inspect", "--type", "container", "--format",
			"{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}", e.Spec.Label)
		if err != nil {
			return err
		}
		addr, err := netip.ParseAddr(strings.TrimSpace(out))
		if err != nil || !addr.Is4() {
			return fault.New(fault.Lab, "%s inspect: %.100q is not the address of a container", c.Name, out)
		}
		if err := netns.Route(ctx, e.Host, *e.Spec.Network, addr); err != nil {
			return err
		}
		e.Behind(addr, netip.Addr{})
	}
	e.Facts()["network"] = networks[n].fact
	return nil
}

// Validate refuses settings that no container on this network can have.
func (o Options) Validate(spec driver.Spec) error {
	if err := isolation.Tuning().Check(spec.Tuning); err != nil {
		return err
	}
	n := o.Network
	if n == Bridge && spec.Network != nil && spec.Network.Outside {
		return fault.WithFix(fault.New(fault.Unsupported, "load from another host has no route to an address behind the "+
			"engine's bridge"), "set network: published, or remove the generator")
	}
	if n == HostNet && len(spec.Tuning) > 0 {
		return fault.WithFix(fault.New(fault.Unsupported, "tuning on the host network would change the settings of all "+
			"containers there"), "remove tuning, or choose another network")
	}
	return nil
}

// Within is c with commands that run in a network namespace.
func (c CLI) Within(namespace string) CLI {
	c.Argv = append([]string{"nsenter", "--net=" + netns.Path(namespace), "--"}, c.Argv...)
	return c
}
