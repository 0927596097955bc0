package vm

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"

	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/vm/manifest"
)

// nicModels are QEMU's names of the models of NICs; "" is virtio.
var nicModels = map[string]string{"": "", "virtio": "", "e1000": "e1000", "rtl8139": "rtl8139"}

// cardOf is the network card of a NIC. It is in a network of its own, in which there are only
// the guest and its gateway, which QEMU plays: it gives the guest its address by DHCP, as
// SmartOS does, and leads out.
func cardOf(n manifest.NIC) (c qemu.Card, err error) {
	model, ok := nicModels[n.Model]
	if !ok {
		return c, fmt.Errorf("QEMU has no network card %q", n.Model)
	}
	c = qemu.Card{MAC: n.MAC, Model: model, MTU: n.MTU}
	if n.MTU != 0 && model != "" {
		return c, errors.New("only a card of model virtio has an mtu")
	}
	if len(n.IPs) == 0 || len(n.IPs) == 1 && n.IPs[0] == "dhcp" {
		return c, nil
	}
	if len(n.IPs) > 1 || len(n.Gateways) > 1 {
		return c, errors.New("QEMU's own network gives a card only one address and one gateway")
	}
	p, err := netip.ParsePrefix(n.IPs[0])
	if err != nil || !p.Addr().Is4() {
		return c, errors.New("QEMU's network gives a card an IPv4 address")
	}
	if p.Bits() > 29 {
		return c, errors.New("QEMU's network needs at least 8 addresses")
	}
	c.Address = p
	if len(n.Gateways) == 1 {
		if c.Gateway, err = netip.ParseAddr(n.Gateways[0]); err != nil {
			return c, err
		}
		if !p.Masked().Contains(c.Gateway) || c.Gateway == p.Addr() {
			return c, errors.New("the gateway must be another address of the same network")
		}
	}
	return c, nil
}

// newMAC is a random MAC address, locally administered.
func newMAC() string {
	var b [5]byte
	rand.Read(b[:]) // never fails
	return fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4])
}
