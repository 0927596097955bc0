package agent

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"bakeoff/reach/wire"
)

// findInterface returns the name of the network interface with this hardware
// address.
func findInterface(mac string) (string, error) {
	want, err := net.ParseMAC(mac)
	if err != nil {
		return "", err
	}
	name, err := findDevice("/sys/class/net/*", func(dir string) bool { return reads(dir+"/address", want.String()) })
	if err != nil {
		return "", fmt.Errorf("there is no network interface with the address %s", mac)
	}
	return name, nil
}

// defaultRoute leads packets to all other networks to a router at an interface.
//
// Source: rtnetlink(7).
func defaultRoute(name string, gateway netip.Addr) error {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	message := join([]byte{unix.AF_INET, 0, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_BOOT, unix.RT_SCOPE_UNIVERSE,
		unix.RTN_UNICAST}, binary.NativeEndian.AppendUint32(nil, unix.RTNH_F_ONLINK),
		attribute(unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, uint32(link.Index))),
		attribute(unix.RTA_GATEWAY, gateway.AsSlice()))
	if err := routing(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, message); err != nil {
		return fmt.Errorf("interface %s: the route to %v: %w", name, gateway, err)
	}
	return nil
}

// linkUp brings an interface up, with the address of n if n is not nil. It sets
// no route: a guest communicates only with the experiment's network. See
// netdevice(7).
func linkUp(name string, n *wire.InitNetwork) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	defer unix.Close(fd)
	set := func(request uint, addr []byte) error {
		r, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		if addr != nil {
			if err := r.SetInet4Addr(addr); err != nil {
				return err
			}
		} else {
			r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		}
		return unix.IoctlIfreq(fd, request, r)
	}
	if n != nil {
		if !n.Addr.IsValid() || !n.Addr.Addr().Is4() {
			return fmt.Errorf("interface %s: %v is not an IPv4 address with a prefix length", name, n.Addr)
		}
		addr := n.Addr.Addr().As4()
		if err := set(unix.SIOCSIFADDR, addr[:]); err != nil {
			return fmt.Errorf("interface %s: address %v: %w", name, n.Addr, err)
		}
		mask := net.CIDRMask(n.Addr.Bits(), 32)
		if err := set(unix.SIOCSIFNETMASK, mask); err != nil {
			return fmt.Errorf("interface %s: mask of %v: %w", name, n.Addr, err)
		}
	}
	if err := set(unix.SIOCSIFFLAGS, nil); err != nil {
		return fmt.Errorf("interface %s: up: %w", name, err)
	}
	return nil
}
