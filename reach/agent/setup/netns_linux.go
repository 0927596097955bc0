package setup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/reach/agent/network"
	"bakeoff/reach/nsenter"
	"bakeoff/reach/wire"
)

// netnsDir is where ip(8) keeps the names of namespaces (ip-netns(8)).
const netnsDir = "/run/netns"

// Valid names. The kernel may restrict names of interfaces further.
func validNetns(s string) bool     { return validName(s, 63, "._-") }
func validInterface(s string) bool { return validName(s, 15, "_-") }

// validName reports whether s has 1 to most ASCII letters and digits and, after
// the first, characters of more. Compiling a regular expression would take a
// tenth of the program's start time.
func validName(s string, most int, more string) bool {
	for i, c := range []byte(s) {
		alnum := c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		if !alnum && (i == 0 || strings.IndexByte(more, c) < 0) {
			return false
		}
	}
	return s != "" && len(s) <= most
}

// checkNetns refuses an invalid description.
func checkNetns(n wire.Netns) error {
	if !validNetns(n.Name) || n.Of < 0 {
		return fault.New(fault.Invalid, "invalid network namespace %q (of process %d)", n.Name, n.Of)
	}
	l := n.Link
	if l == nil {
		return nil
	}
	mac, err := net.ParseMAC(l.MAC)
	if err != nil || len(mac) != 6 || !validNetns(l.Namespace) || !l.Addr.IsValid() || !l.Addr.Addr().Is4() ||
		!validInterface(l.Inside) || !validInterface(l.Outer) || !validInterface(l.Bridge) {
		return fault.New(fault.Invalid, "invalid link to a bridge: %+v", *l)
	}
	return nil
}

// makeNetns creates a namespace with its link. On failure it leaves neither.
func makeNetns(n wire.Netns) error {
	if err := checkNetns(n); err != nil {
		return err
	}
	var err error
	nsenter.InThread(func() { err = createNetns(n) }) // namespaces belong to a thread
	return err
}

func createNetns(n wire.Netns) error {
	at := filepath.Join(netnsDir, n.Name)
	if err := shareNames(); err != nil {
		return privileged(err)
	}
	// Create the name first, as ip(8) does: if this process is killed, the
	// namespace can be found.
	f, err := os.OpenFile(at, os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0)
	if err != nil {
		return privileged(err)
	}
	f.Close()
	if err = bindNetns(n, at); err == nil {
		err = furnishNetns(n)
	}
	if err != nil {
		unix.Unmount(at, unix.MNT_DETACH)
		return errors.Join(privileged(err), os.Remove(at))
	}
	return nil
}

// privileged adds the most likely cause.
func privileged(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fault.WithFix(err, "network namespaces require root")
	}
	return err
}

// bindNetns moves the calling thread to the namespace and gives the namespace
// its name.
func bindNetns(n wire.Netns, at string) error {
	of := "/proc/thread-self/ns/net"
	if n.Of != 0 {
		of = fmt.Sprintf("/proc/%d/ns/net", n.Of)
		if err := nsenter.Setns(of, unix.CLONE_NEWNET); err != nil {
			return err
		}
	} else if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	// Use our own link: n.Of may belong to another process by now.
	if err := unix.Mount("/proc/thread-self/ns/net", at, "none", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind it to %s: %w", at, err)
	}
	return nil
}

// shareNames makes the directory of names a shared mount, as `ip netns add`
// does: otherwise other mount namespaces could keep a deleted network
// namespace.
func shareNames() error {
	if err := os.MkdirAll(netnsDir, 0o755); err != nil {
		return err
	}
	dir, err := os.Open(netnsDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	// ip(8) also locks the directory, so that two processes do not mount it
	// on itself twice.
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", netnsDir, err)
	}
	err = unix.Mount("", netnsDir, "none", unix.MS_SHARED|unix.MS_REC, "")
	if errors.Is(err, unix.EINVAL) { // not a mount yet
		if err = unix.Mount(netnsDir, netnsDir, "none", unix.MS_BIND|unix.MS_REC, ""); err == nil {
			err = unix.Mount("", netnsDir, "none", unix.MS_SHARED|unix.MS_REC, "")
		}
	}
	if err != nil {
		return fmt.Errorf("share the mounts in %s: %w", netnsDir, err)
	}
	return nil
}

// furnishNetns sets up the interfaces of the calling thread's namespace, and
// moves the thread to that of the bridge.
func furnishNetns(n wire.Netns) error {
	if err := network.LinkUp("lo", nil); err != nil || n.Link == nil {
		return err
	}
	l := *n.Link
	there, err := os.Open(filepath.Join(netnsDir, l.Namespace))
	if err != nil {
		return err
	}
	defer there.Close()
	if err := pairLink(l, int(there.Fd())); err != nil {
		return fmt.Errorf("links %s and %s: %w", l.Inside, l.Outer, err)
	}
	if err := quiet(l.Inside); err != nil {
		return err
	}
	if err := network.LinkUp(l.Inside, &wire.InitNetwork{Addr: l.Addr}); err != nil {
		return err
	}
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter namespace %s: %w", l.Namespace, err)
	}
	if err := quiet(l.Outer); err != nil {
		return err
	}
	if err := enslave(l.Outer, l.Bridge); err != nil {
		return err
	}
	return network.LinkUp(l.Outer, nil)
}

// quiet prevents automatic IPv6 addresses of an interface (mode 1, none: Linux
// Documentation/networking/ip-sysctl.rst), and the neighbor discovery that
// comes with them. A kernel without IPv6 needs nothing.
func quiet(name string) error {
	err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/addr_gen_mode", []byte("1"), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// enslave adds an interface to a bridge in the same namespace: ioctl
// SIOCBRADDIF, netdevice(7).
func enslave(name, bridge string) error {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq(bridge)
	if err != nil {
		return fmt.Errorf("bridge %s: %w", bridge, err)
	}
	r.SetUint32(uint32(i.Index))
	if err := unix.IoctlIfreq(fd, unix.SIOCBRADDIF, r); err != nil {
		return fmt.Errorf("add %s to the bridge %s: %w", name, bridge, err)
	}
	return nil
}

// pairLink creates the two devices: the inner one in this namespace, the outer
// one in that of the descriptor.
//
// Source: rtnetlink(7), linux/if_link.h, linux/veth.h. No older interface of
// the kernel can do it.
func pairLink(l wire.Link, namespace int) error {
	mac, err := net.ParseMAC(l.MAC)
	if err != nil {
		return err
	}
	const vethInfoPeer = 1 // VETH_INFO_PEER
	fdBytes := binary.NativeEndian.AppendUint32(nil, uint32(namespace))
	peer := slices.Concat(make([]byte, unix.SizeofIfInfomsg), network.Attribute(unix.IFLA_IFNAME, network.Text(l.Outer)),
		network.Attribute(unix.IFLA_NET_NS_FD, fdBytes))
	message := slices.Concat(make([]byte, unix.SizeofIfInfomsg),
		network.Attribute(unix.IFLA_IFNAME, network.Text(l.Inside)),
		network.Attribute(unix.IFLA_ADDRESS, mac),
		network.Attribute(unix.IFLA_LINKINFO, slices.Concat(
			network.Attribute(unix.IFLA_INFO_KIND, network.Text("veth")),
			network.Attribute(unix.IFLA_INFO_DATA, network.Attribute(vethInfoPeer, peer)))))
	return network.Request(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, message)
}
