// Package netns is the network of an experiment on a Linux host: a network
// namespace with a bridge, in which the load generator runs, and one link to
// each environment. No other network reaches it.
//
// Every environment is reached over the same kind of path: a veth pair into its
// namespace, or a tap device for a machine. So the path does not favor one
// side. The bare host and a chroot get a namespace too: two of them can listen
// on the same port, and routes and packet filters of the host do not interfere.
package netns

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/name"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// Bridge is the name of the bridge in the experiment's namespace, and Inside
// the name of an environment's end of its link.
const (
	Bridge = "br0"
	Inside = "eth0"
)

// Network is one environment's place on the experiment's network: a bridge
// in a network namespace of its own, in which the generator lives.
type Network struct {
	Namespace string       // network namespace with the bridge
	Bridge    string       // name of the bridge in it
	Addr      netip.Prefix // the environment's address
	Gateway   netip.Addr   // the bridge's own address: where the generator is
	MAC       string
	Outside   bool // load comes from another host, over an uplink at the bridge
}

// Check returns nil if a host can have such networks, otherwise an error of
// kind fault.Unsupported that says what is missing. It tries everything in a
// temporary namespace.
func Check(ctx context.Context, host conn.Conn) error {
	for _, t := range []struct{ line, fix string }{
		{"link add probe0 type bridge", "a kernel with CONFIG_BRIDGE (modprobe bridge)"},
		{"link add probe0 type veth peer name probe1", "a kernel with CONFIG_VETH (modprobe veth)"},
	} {
		_, err := conn.Output(ctx, host, append([]string{"unshare", "--net", "ip"}, strings.Fields(t.line)...)...)
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil:
			return fault.Op("the experiment's network", err)
		case fault.Is(err, fault.NotFound), strings.Contains(err.Error(), "exit code 127"):
			t.fix = "apt-get install iproute2 util-linux"
		case strings.Contains(err.Error(), "Operation not permitted"):
			t.fix = "network namespaces need root"
		}
		return &fault.Error{Kind: fault.Unsupported, Op: "the experiment's network", Err: err, Fix: t.fix}
	}
	return nil
}

// settings checks each setting in a temporary namespace. What a namespace does
// not have is missing or read-only there. Nothing is written.
const settings = `for n; do f=/proc/sys/$(printf %s "$n" | tr . /)
if ! test -e "$f"; then echo "$n" absent; elif ! test -w "$f"; then echo "$n" fixed; fi; done`

// Lacks returns which of these settings (net.*) a network namespace of the host
// does not have of its own, by name with the reason. It changes nothing.
func Lacks(ctx context.Context, host conn.Conn, names []string) (map[string]string, error) {
	out, err := conn.Output(ctx, host, append([]string{"unshare", "--net", "sh", "-c", settings, "sh"}, names...)...)
	if err != nil {
		return nil, fault.Op("settings of a network namespace", err)
	}
	lacks := map[string]string{}
	for line := range strings.Lines(string(out)) {
		switch name, state, _ := strings.Cut(strings.TrimSpace(line), " "); state {
		case "absent":
			lacks[name] = "the kernel has no such setting in a network namespace"
		case "fixed":
			lacks[name] = "the kernel has it for the whole host only, and a network namespace can but read it"
		}
	}
	return lacks, nil
}

// Create creates the namespace name with the bridge; gateway is the bridge's
// address.
func Create(ctx context.Context, host conn.Conn, name string, gateway netip.Prefix) error {
	if !validName.MatchString(name) || !gateway.IsValid() || gateway.Addr() == gateway.Masked().Addr() {
		return fault.New(fault.Invalid,
			"network %q: the address must be a host address with its prefix, such as 198.18.7.1/24 (got %v)", name, gateway)
	}
	if err := run(ctx, host, "ip", "netns", "add", name); err != nil {
		return privilege(err)
	}
	// No spanning tree, no multicast and no automatic IPv6: only what is
	// measured uses this network.
	err := ip(ctx, host, name,
		"link set lo up",
		"link add "+Bridge+" type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
		"link set "+Bridge+" addrgenmode none",
		"addr add "+gateway.String()+" dev "+Bridge,
		"link set "+Bridge+" up")
	if err != nil {
		return errors.Join(privilege(err), Remove(context.WithoutCancel(ctx), host, name))
	}
	return nil
}

// Unused checks that the host has an interface with this name and without an
// address: with an address it may be in use. Errors are of kind
// fault.Unsupported.
func Unused(ctx context.Context, host conn.Conn, link string) error {
	if !validLink.MatchString(link) {
		return fault.New(fault.Invalid, "%q is not a network interface", link)
	}
	out, err := conn.Output(ctx, host, "ip", "-o", "addr", "show", "dev", link)
	if err != nil {
		return fault.WithFix(fault.Wrap(fault.Unsupported, "uplink "+link, err), "`ip link` on it lists its interfaces")
	}
	// 3: eth1    inet 192.0.2.7/24 brd …; one that is up has fe80:: by itself
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 3 && (f[2] == "inet" || f[2] == "inet6") &&
			!strings.HasPrefix(f[3], "fe80:") {
			return fault.WithFix(fault.New(fault.Unsupported, "uplink %s may be in use, because it has the address "+
				"%s", link, f[3]),
				"name an interface that nothing uses, or remove its address")
		}
	}
	bridges, err := Links(ctx, host, "", "type", "bridge")
	if err != nil {
		return fault.Op("uplink "+link, err)
	}
	if slices.Contains(bridges, link) { // the kernel keeps it in its namespace
		return fault.WithFix(fault.New(fault.Unsupported, "uplink %s is a bridge, which cannot be a port of another bridge",
			link),
			"name one of its ports after `ip link set PORT nomaster`, or one end of a veth whose other end is its port")
	}
	return nil
}

// Take moves an interface of the host, which must be Unused, into the namespace
// name and attaches it to a bridge there. When the namespace is removed, the
// kernel returns a physical interface to the host, down and without addresses.
func Take(ctx context.Context, host conn.Conn, name, bridge, link string) error {
	if !validName.MatchString(name) {
		return fault.New(fault.Invalid, "%q is not a network namespace", name)
	}
	if err := Unused(ctx, host, link); err != nil {
		return err
	}
	if link == bridge {
		return fault.WithFix(fault.New(fault.Unsupported, "uplink %s has the name of the bridge of the network", link),
			"give it another name (ip link set "+link+" name NAME)")
	}
	if err := ip(ctx, host, "", "link set "+link+" netns "+name); err != nil {
		return privilege(err)
	}
	return privilege(ip(ctx, host, name, "link set "+link+" addrgenmode none", "link set "+link+" master "+bridge,
		"link set "+link+" up"))
}

// directory is where ip(8) keeps the names of namespaces (ip-netns(8)).
const directory = "/run/netns"

// Exists reports whether there is a namespace called name.
func Exists(ctx context.Context, host conn.Conn, name string) (bool, error) {
	names, err := conn.FilesOf(host).ReadDir(ctx, directory)
	if fault.Is(err, fault.NotFound) {
		return false, nil // nobody has made one since the host started
	}
	return slices.Contains(names, name), fault.Op("network namespaces", err)
}

// Remove removes a namespace with all links that end in it. A namespace that
// does not exist is not an error.
func Remove(ctx context.Context, host conn.Conn, name string) error {
	have, err := Exists(ctx, host, name)
	if err != nil || !have {
		return err
	}
	return run(ctx, host, "ip", "netns", "delete", name)
}

// Own is the name of the environment's own namespace.
func Own(label string) string { return "bo-" + label }

// Outer and Tap are the names of an environment's links: the end at the bridge,
// and the tap device of a machine. Link names have at most 15 bytes, so they
// contain a hash.
func Outer(label string) string { return "bov" + hash(label) }

// Tap is the name of a machine's tap device, in the experiment's namespace.
func Tap(label string) string { return "bot" + hash(label) }

func hash(label string) string {
	h := fnv.New64a()
	h.Write([]byte(label)) // never fails
	return fmt.Sprintf("%012x", h.Sum64()&(1<<48-1))
}

// Describe describes the environment's own namespace, Own(label), with one link
// to the bridge; without n it has only a loopback device. With of, the
// namespace is that of a process, which a container engine has created.
// `bakeoff-agent setup` creates it with the host's own kernel, without a
// program for each step.
func Describe(n *Network, label string, of int) (wire.Netns, error) {
	if err := check(label, n); err != nil {
		return wire.Netns{}, err
	}
	out := wire.Netns{Name: Own(label), Of: of}
	if n != nil {
		out.Link = &wire.Link{Inside: Inside, MAC: n.MAC, Addr: n.Addr, Outer: Outer(label), Namespace: n.Namespace,
			Bridge: n.Bridge}
	}
	return out, nil
}

// DetachOwn removes the environment's own namespace and its link. What does not
// exist is skipped.
func DetachOwn(ctx context.Context, host conn.Conn, label string) error {
	own := Own(label)
	have, err := Exists(ctx, host, own)
	if err != nil || !have {
		return err
	}
	// The kernel destroys a namespace some time after it was deleted. Deleting
	// the link removes it at once.
	return errors.Join(DeleteLink(ctx, host, own, Inside), Remove(ctx, host, own))
}

// Path is the path of a namespace on its host.
func Path(namespace string) string { return directory + "/" + namespace }

// Inner is the name of an environment's end of its link in a namespace that several share.
func Inner(label string) string { return "boi" + hash(label) }

// CreateShared creates the namespace Own(label) for environments that share it, without a
// link to a network. It has addresses of several links in one network, so its filter of
// reverse paths is off.
func CreateShared(ctx context.Context, host conn.Conn, label string) error {
	if err := check(label, nil); err != nil {
		return err
	}
	err := run(ctx, host, "ip", "netns", "add", Own(label))
	if err == nil {
		err = ip(ctx, host, Own(label), "link set lo up")
	}
	if err == nil {
		err = writeSettings(ctx, Within(host, Own(label)), "all/rp_filter", "0", "default/rp_filter", "0")
	}
	return privilege(err)
}

// Within is host with programs that run in a namespace; "" is the host's own.
func Within(host conn.Conn, namespace string) conn.Conn {
	if namespace == "" {
		return host
	}
	return conn.Prefix(host, "nsenter", "--net="+Path(namespace), "--")
}

// writeSettings writes settings of net.ipv4.conf, as name and value in turn.
func writeSettings(ctx context.Context, in conn.Conn, pairs ...string) error {
	files := conn.FilesOf(in)
	for pair := range slices.Chunk(pairs, 2) {
		if err := files.WriteFile(ctx, "/proc/sys/net/ipv4/conf/"+pair[0], []byte(pair[1])); err != nil {
			return err
		}
	}
	return nil
}

// AttachShared gives the environment a link into a namespace that several share, "" for the
// host's own, with the environment's address. Only that link answers for the address.
func AttachShared(ctx context.Context, host conn.Conn, n Network, label, namespace string) error {
	if err := check(label, &n); err != nil {
		return err
	}
	in := Within(host, namespace)
	strict, err := conn.FilesOf(in).ReadFile(ctx, "/proc/sys/net/ipv4/conf/all/rp_filter")
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(strict)) == "1" {
		return fault.WithFix(fault.New(fault.Unsupported,
			"net.ipv4.conf.all.rp_filter is 1: the host drops packets to one of several addresses in a network"),
			"set it to 2 with sysctl(8), or use a network of the engine's own")
	}
	inner, outer := Inner(label), Outer(label)
	err = ip(
		ctx,
		host,
		namespace,
		fmt.Sprintf("link add %s address %s type veth peer name %s netns %s", inner, n.MAC, outer,
			n.Namespace),
		"link set "+inner+" addrgenmode none",
	)
	if err == nil {
		err = writeSettings(ctx, in, inner+"/arp_ignore", "1")
	}
	if err == nil {
		err = ip(ctx, host, namespace, fmt.Sprintf("addr add %s dev %s", n.Addr, inner), "link set "+inner+" up")
	}
	if err == nil {
		err = ip(ctx, host, n.Namespace, "link set "+outer+" addrgenmode none",
			"link set "+outer+" master "+n.Bridge, "link set "+outer+" up")
	}
	if err != nil {
		return errors.Join(privilege(err), DetachShared(context.WithoutCancel(ctx), host, label, namespace))
	}
	return nil
}

// DetachShared removes the environment's link from a namespace that several share. What
// does not exist is not an error.
func DetachShared(ctx context.Context, host conn.Conn, label, namespace string) error {
	have := true
	var err error
	if namespace != "" {
		have, err = Exists(ctx, host, namespace)
	}
	if err != nil || !have {
		return err
	}
	return DeleteLink(ctx, host, namespace, Inner(label))
}

// Route leads packets of the experiment's network for an address behind an environment to the
// environment. The route disappears with that network.
func Route(ctx context.Context, host conn.Conn, n Network, to netip.Addr) error {
	return ip(ctx, host, n.Namespace, fmt.Sprintf("route replace %s via %s dev %s", to, n.Addr.Addr(), n.Bridge))
}

// IPv6 is the address that AddIPv6 gives an environment with this IPv4 address, in a
// network of unique local addresses (RFC 4193).
func IPv6(a netip.Addr) netip.Addr {
	out, four := [16]byte{0xfd, 0x62, 0x6f}, a.As4()
	copy(out[12:], four[:])
	return netip.AddrFrom16(out)
}

// AddIPv6 gives the environment and the bridge addresses of IPv6, unless they have them. The
// environment must have a namespace of its own on the host; a machine has none. The
// addresses disappear with their namespaces.
func AddIPv6(ctx context.Context, host conn.Conn, n Network, label string) (netip.Addr, error) {
	if err := check(label, &n); err != nil {
		return netip.Addr{}, err
	}
	unsupported := func(err error, why string) (netip.Addr, error) {
		if err != nil {
			return netip.Addr{}, err
		}
		return netip.Addr{}, fault.WithFix(fault.New(fault.Unsupported, "IPv6: %s", why), "remove family: ipv6")
	}
	if have, err := Exists(ctx, host, Own(label)); err != nil || !have {
		return unsupported(
			err,
			"the environment has no network namespace on its host to which bakeoff could add an address",
		)
	}
	if _, err := conn.FilesOf(host).ReadDir(ctx, "/proc/sys/net/ipv6"); err != nil {
		return unsupported(nil, "the kernel of the host has none")
	}
	// Both are used at once: nobody else has them, so the kernel need not ask (nodad).
	for _, x := range []struct {
		namespace, link string
		of              netip.Addr
	}{{Own(label), Inside, n.Addr.Addr()}, {n.Namespace, n.Bridge, n.Gateway}} {
		if err := ip(ctx, host, x.namespace, fmt.Sprintf("addr replace %s/64 dev %s nodad", IPv6(x.of), x.link)); err != nil {
			return netip.Addr{}, privilege(err)
		}
	}
	return IPv6(n.Addr.Addr()), nil
}

// AttachTap creates a tap device at the bridge, in the experiment's namespace,
// where the hypervisor runs. The guest configures its address.
func AttachTap(ctx context.Context, host conn.Conn, n Network, label string) error {
	if err := check(label, &n); err != nil {
		return err
	}
	err := ip(
		ctx,
		host,
		n.Namespace,
		"tuntap add dev "+Tap(label)+" mode tap",
		"link set "+Tap(
			label,
		)+" addrgenmode none",
		"link set "+Tap(label)+" master "+n.Bridge,
		"link set "+Tap(label)+" up",
	)
	if err != nil {
		return errors.Join(privilege(err), DetachTap(context.WithoutCancel(ctx), host, n.Namespace, label))
	}
	return nil
}

// DetachTap removes a machine's tap device. A device that does not exist is not
// an error.
func DetachTap(ctx context.Context, host conn.Conn, namespace, label string) error {
	have, err := Exists(ctx, host, namespace)
	if err != nil || !have {
		return err
	}
	return DeleteLink(ctx, host, namespace, Tap(label))
}

// DeleteLink removes a link of a namespace ("" is the host's own). A link that does not exist
// is not an error, nor is one that disappears meanwhile: the kernel destroys the links of a
// process and of a namespace some time after these have ended.
func DeleteLink(ctx context.Context, host conn.Conn, namespace, link string) error {
	have, err := HasLink(ctx, host, namespace, link)
	if err != nil || !have {
		return err
	}
	err = IP(ctx, host, namespace, "link delete "+link)
	if err == nil {
		return nil
	}
	if have, herr := HasLink(ctx, host, namespace, link); herr == nil && !have {
		return nil
	}
	return err
}

// HasLink reports whether a namespace ("" is the host's own) has a link.
func HasLink(ctx context.Context, host conn.Conn, namespace, link string) (bool, error) {
	all, err := Links(ctx, host, namespace)
	return slices.Contains(all, link), err
}

// Links lists the interfaces in a namespace, or on the host if namespace is "". kind are words
// of ip(8) that select some of them, such as "type", "bridge".
func Links(ctx context.Context, host conn.Conn, namespace string, kind ...string) (names []string, err error) {
	argv := []string{"ip"}
	if namespace != "" {
		argv = append(argv, "-n", namespace)
	}
	out, err := conn.Output(ctx, host, slices.Concat(argv, []string{"-o", "link", "show"}, kind)...)
	// 7: boi0123456789ab@if6: <BROADCAST,…
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 1 {
			name, _, _ := strings.Cut(strings.TrimSuffix(f[1], ":"), "@")
			names = append(names, name)
		}
	}
	return names, err
}

var (
	validName = lazy.Compile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	validLink = lazy.Compile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$`)
)

// check refuses names that ip would read as further words or lines.
func check(label string, n *Network) error {
	if !name.ValidLabel(label) {
		return fault.New(fault.Invalid, "network: %q is not a label: use 1 to 40 of the characters a-z, 0-9 and -", label)
	}
	if n != nil && !(validName.MatchString(n.Namespace) && validName.MatchString(n.Bridge) && n.Addr.IsValid() &&
		name.ValidMAC(n.MAC)) {
		return fault.New(fault.Invalid, "network: invalid settings: %+v", *n)
	}
	return nil
}

// ip runs several commands of ip in one process, in the namespace or, if it is
// "", in the host's own. Their text has no user input: names are hashes and
// labels, addresses were parsed.
func ip(ctx context.Context, host conn.Conn, namespace string, commands ...string) error {
	argv := []string{"ip", "-batch", "-"}
	if namespace != "" {
		argv = []string{"ip", "-n", namespace, "-batch", "-"}
	}
	in := strings.NewReader(strings.Join(commands, "\n") + "\n")
	_, err := conn.OutputOf(ctx, host, conn.Cmd{Argv: argv, Stdin: in})
	return fault.Op("ip "+strings.Join(commands, "; ip "), err)
}

// IP runs commands of ip(8) in a namespace, "" for the host's own, as one batch. Their words
// must not come from a user unchecked.
func IP(ctx context.Context, host conn.Conn, namespace string, commands ...string) error {
	return privilege(ip(ctx, host, namespace, commands...))
}

func run(ctx context.Context, host conn.Conn, argv ...string) error {
	_, err := conn.Output(ctx, host, argv...)
	return err
}

// privilege adds the most frequent cause.
func privilege(err error) error {
	return fault.WithFix(err, "run as root on a kernel with network namespaces, bridges, veth and tun")
}
