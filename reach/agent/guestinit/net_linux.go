package guestinit

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"bakeoff/reach/agent/network"

	"golang.org/x/sys/unix"
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
	message := slices.Concat([]byte{unix.AF_INET, 0, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_BOOT, unix.RT_SCOPE_UNIVERSE,
		unix.RTN_UNICAST}, binary.NativeEndian.AppendUint32(nil, unix.RTNH_F_ONLINK),
		network.Attribute(unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, uint32(link.Index))),
		network.Attribute(unix.RTA_GATEWAY, gateway.AsSlice()))
	if err := network.Request(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, message); err != nil {
		return fmt.Errorf("interface %s: the route to %v: %w", name, gateway, err)
	}
	return nil
}
