// Package network sets up network interfaces of a Linux kernel.
package network

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"bakeoff/reach/wire"
)

// LinkUp brings an interface up, with the address of n if n is not nil. It sets
// no route: a guest communicates only with the experiment's network. See
// netdevice(7).
func LinkUp(name string, n *wire.InitNetwork) error {
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
