// Package netns is the network of an experiment on a Linux host: a network
// namespace with a bridge, in which the load generator lives, and one link to
// each environment. Nothing of it can be reached from anywhere else.
//
// Every environment is reached over the same kind of path, whatever it is: a
// pair of virtual Ethernet devices into its namespace (for a bare host and a
// chroot that is the host's own), or a tap device for a machine. So the path
// is not what makes one side faster.
package netns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"strings"

	"bakeoff/conn"
	"bakeoff/driver"
	"bakeoff/fault"
)

// Bridge is the name of the bridge inside the experiment's namespace, and
// Inside the name of an environment's own end in a namespace of its own.
const (
	Bridge = "br0"
	Inside = "eth0"
)

// Check tells what a host lacks for an experiment's network.
func Check(ctx context.Context, host conn.Conn) error {
	_, err := ip(ctx, host, "", "link show lo")
	if fault.Is(err, fault.NotFound) {
		return &fault.Error{Kind: fault.Unsupported, Op: "the experiment's network", Err: errors.New("the program ip is not installed"), Fix: "apt-get install iproute2"}
	}
	return err
}

// Create makes the namespace name with the bridge, whose address is gateway.
func Create(ctx context.Context, host conn.Conn, name string, gateway netip.Prefix) error {
	if err := run(ctx, host, "ip", "netns", "add", name); err != nil {
		return privilege(err)
	}
	_, err := ip(ctx, host, name,
		"link set lo up",
		"link add "+Bridge+" type bridge",
		"addr add "+gateway.String()+" dev "+Bridge,
		"link set "+Bridge+" up")
	if err != nil {
		return errors.Join(privilege(err), Remove(ctx, host, name))
	}
	return nil
}

// Exists reports whether there is a namespace called name.
func Exists(ctx context.Context, host conn.Conn, name string) (bool, error) {
	out, err := conn.Output(ctx, host, "ip", "netns", "list")
	if fault.Is(err, fault.NotFound) {
		return false, nil // without ip nothing was ever made
	}
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 0 && f[0] == name {
			return true, nil
		}
	}
	return false, nil
}

// Remove removes the namespace called name with all links that end in it. One
// that does not exist is fine.
func Remove(ctx context.Context, host conn.Conn, name string) error {
	have, err := Exists(ctx, host, name)
	if err != nil || !have {
		return err
	}
	return run(ctx, host, "ip", "netns", "delete", name)
}

// Own names the namespace that belongs to the environment with this label.
func Own(label string) string { return "bo-" + label }

// Outer, Inner and Tap name the links of the environment with this label: the
// end at the bridge, the end in the host's own namespace, and a machine's
// tap. Names of links have at most 15 bytes, so they bear a hash.
func Outer(label string) string { return "bov" + hash(label) }

// Inner is the name of the end in the host's own namespace.
func Inner(label string) string { return "boi" + hash(label) }

// Tap is the name of a machine's tap device, in the experiment's namespace.
func Tap(label string) string { return "bot" + hash(label) }

func hash(label string) string {
	h := fnv.New64a()
	h.Write([]byte(label)) // never fails
	return fmt.Sprintf("%012x", h.Sum64()&(1<<48-1))
}

// AttachHost links the host's own namespace to the bridge, with n's address:
// for environments that have the host's network.
func AttachHost(ctx context.Context, host conn.Conn, n driver.Network, label string) error {
	_, err := ip(ctx, host, "", "link add "+Inner(label)+" address "+n.MAC+" type veth peer name "+Outer(label)+" netns "+n.Namespace)
	if err == nil {
		_, err = ip(ctx, host, n.Namespace, up(n, label)...)
	}
	if err == nil {
		_, err = ip(ctx, host, "", "addr add "+n.Addr.String()+" dev "+Inner(label), "link set "+Inner(label)+" up")
	}
	if err != nil {
		return errors.Join(err, DetachHost(ctx, host, label))
	}
	return nil
}

// DetachHost removes what AttachHost made. What is not there is fine.
func DetachHost(ctx context.Context, host conn.Conn, label string) error {
	have, err := HasLink(ctx, host, "", Inner(label))
	if err != nil || !have {
		return err
	}
	_, err = ip(ctx, host, "", "link delete "+Inner(label))
	return err
}

// AttachOwn makes the environment's own namespace, Own(label), with one link
// to the bridge; n nil makes one with nothing but a loopback device.
func AttachOwn(ctx context.Context, host conn.Conn, n *driver.Network, label string) error {
	own := Own(label)
	if err := run(ctx, host, "ip", "netns", "add", own); err != nil {
		return privilege(err)
	}
	_, err := ip(ctx, host, own, "link set lo up")
	if err == nil && n != nil {
		_, err = ip(ctx, host, own, "link add "+Inside+" address "+n.MAC+" type veth peer name "+Outer(label)+" netns "+n.Namespace,
			"addr add "+n.Addr.String()+" dev "+Inside, "link set "+Inside+" up")
		if err == nil {
			_, err = ip(ctx, host, n.Namespace, up(*n, label)...)
		}
	}
	if err != nil {
		return errors.Join(err, DetachOwn(ctx, host, label))
	}
	return nil
}

// DetachOwn removes the environment's own namespace and its link. What is not
// there is fine.
func DetachOwn(ctx context.Context, host conn.Conn, label string) error {
	own := Own(label)
	have, err := Exists(ctx, host, own)
	if err != nil || !have {
		return err
	}
	// The kernel takes a namespace apart some time after it was deleted; the
	// link goes at once when it is deleted by itself.
	if have, err = HasLink(ctx, host, own, Inside); err == nil && have {
		_, err = ip(ctx, host, own, "link delete "+Inside)
	}
	return errors.Join(err, Remove(ctx, host, own))
}

// AttachTap makes a tap device at the bridge, inside the experiment's
// namespace, for a machine whose program runs there. The machine gives itself
// the address.
func AttachTap(ctx context.Context, host conn.Conn, n driver.Network, label string) error {
	_, err := ip(ctx, host, n.Namespace, "tuntap add dev "+Tap(label)+" mode tap",
		"link set "+Tap(label)+" master "+n.Bridge, "link set "+Tap(label)+" up")
	if err != nil {
		return errors.Join(privilege(err), DetachTap(ctx, host, n.Namespace, label))
	}
	return nil
}

// DetachTap removes a machine's tap device. What is not there is fine.
func DetachTap(ctx context.Context, host conn.Conn, namespace, label string) error {
	have, err := Exists(ctx, host, namespace)
	if err != nil || !have {
		return err
	}
	if have, err = HasLink(ctx, host, namespace, Tap(label)); err != nil || !have {
		return err
	}
	_, err = ip(ctx, host, namespace, "link delete "+Tap(label))
	return err
}

// HasLink reports whether a namespace ("" is the host's own) has a link.
func HasLink(ctx context.Context, host conn.Conn, namespace, link string) (bool, error) {
	argv := []string{"ip", "-o", "link", "show"}
	if namespace != "" {
		argv = []string{"ip", "-n", namespace, "-o", "link", "show"}
	}
	out, err := conn.Output(ctx, host, argv...)
	if err != nil {
		return false, err
	}
	// 7: boi0123456789ab@if6: <BROADCAST,…
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimSuffix(f[1], ":"), "@")
		if name == link {
			return true, nil
		}
	}
	return false, nil
}

// up are the commands that put the outer end at the bridge.
func up(n driver.Network, label string) []string {
	return []string{"link set " + Outer(label) + " master " + n.Bridge, "link set " + Outer(label) + " up"}
}

// ip runs commands of ip in one process, in the namespace or, when it is "",
// in the host's own. Nothing in them comes from a person: names are hashes
// and labels, addresses were parsed.
func ip(ctx context.Context, host conn.Conn, namespace string, commands ...string) ([]byte, error) {
	argv := []string{"ip", "-batch", "-"}
	if namespace != "" {
		argv = []string{"ip", "-n", namespace, "-batch", "-"}
	}
	var in bytes.Buffer
	for _, c := range commands {
		in.WriteString(c + "\n")
	}
	out, err := conn.OutputOf(ctx, host, conn.Cmd{Argv: argv, Stdin: &in})
	return out, fault.Op("ip "+strings.Join(commands, "; ip "), err)
}

func run(ctx context.Context, host conn.Conn, argv ...string) error {
	_, err := conn.Output(ctx, host, argv...)
	return err
}

// privilege adds what most often is the cause.
func privilege(err error) error {
	return fault.WithFix(err, "it needs root, and a kernel with network namespaces, bridges, veth and tun")
}
