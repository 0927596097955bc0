package vm

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/jail"
	"bakeoff/provision/vm/manifest"
)

// On FreeBSD, containers are jails. Brands joyent and joyent-minimal have a root of FreeBSD, lx
// and docker one of Linux, whose programs linux(4) runs. The root is a clone of a snapshot or a
// copy of a folder: the first start makes it, and it stays until the guest is deleted.

// freebsd reports whether this machine, or the one of a test, has FreeBSD.
func (s *Store) freebsd() bool { return cmp.Or(s.System, runtime.GOOS) == "freebsd" }

// jailed reports whether a guest is a jail.
func jailed(g manifest.Guest) bool {
	return !g.Brand.Machine() && manifest.DriverOf(g) == manifest.Jail
}

// systemOf is what the programs of a brand are built for.
func systemOf(b manifest.Brand) string {
	if b == manifest.LX || b == manifest.Docker {
		return "linux"
	}
	return "freebsd"
}

// leastFreeBSD is the oldest release whose commands have the options that guests in jails need.
const leastFreeBSD = 14

// checkJail refuses a jail that this machine cannot limit. The driver's own check said that it can
// have jails.
func checkJail(a driver.Availability) error {
	release := a.Facts["release"] // such as 14.3-RELEASE-p1
	major, _, _ := strings.Cut(release, ".")
	if n, err := strconv.Atoi(major); err == nil && n < leastFreeBSD {
		return fault.WithFix(fault.New(fault.Unsupported, "driver jail: this machine has FreeBSD %s, and guests in jails "+
			"need the commands of FreeBSD %d", release, leastFreeBSD), "upgrade FreeBSD")
	}
	if a.Facts["racct"] == "1" {
		return nil
	}
	return fault.WithFix(fault.New(fault.Unsupported, "driver jail: the kernel does not count the resources "+
		"that jails use, so nothing limits the jails"), "set kern.racct.enable=1 in /boot/loader.conf and reboot")
}

// brandOfRoot is the brand of a jail with a root; "" if a source is none.
func brandOfRoot(what string) manifest.Brand {
	switch {
	case jail.IsSnapshot(what) || jail.SystemOf(what) == "freebsd":
		return manifest.Joyent
	case jail.SystemOf(what) == "linux":
		return manifest.LX
	}
	return ""
}

// prepareJail takes the root that a source names: a folder with a system, or a ZFS snapshot. ok is
// false if it names an image.
func (s *Store) prepareJail(from Source) (p Prepared, ok bool, err error) {
	root := from.What
	info, err := os.Stat(root)
	switch {
	case jail.IsSnapshot(root):
	case err == nil && info.IsDir():
		if root, err = filepath.Abs(root); err != nil {
			return p, true, err
		}
		if is := jail.SystemOf(root); is != "" && is != systemOf(from.Brand) {
			return p, true, fault.WithFix(fault.New(fault.Invalid, "the programs in %s are for %s, but a guest of "+
				"brand %s runs programs for %s", root, is, from.Brand, systemOf(from.Brand)),
				"use brand joyent for FreeBSD, and brand lx for Linux")
		}
	case systemOf(from.Brand) == "freebsd":
		return p, true, fault.WithFix(fault.New(fault.Unsupported, "image %s: a guest of brand %s is a jail with FreeBSD, "+
			"and bakeoff fetches only images for Linux", root, from.Brand), "name a folder with FreeBSD's base.txz, such as "+
			"/usr/local/jails/base, or a ZFS snapshot such as zroot/jails/base@clean; or use brand lx")
	default:
		return p, false, nil
	}
	name, _, _ := strings.Cut(filepath.Base(root), "@")
	return Prepared{Brand: from.Brand, Name: name, Boot: Boot{Container: &Container{Root: root,
		Start: driver.Start{Env: from.Env, Argv: from.Command}}}}, true, nil
}

// rootOf is where the root of a container comes from: a snapshot, or a folder.
func (g *Guest) rootOf(c Container) string {
	if jail.IsSnapshot(c.Root) {
		return c.Root
	}
	return g.file(c.Root)
}

// removeJail removes what is left of a jail, with its root.
func (s *Store) removeJail(ctx context.Context, uuid string) error {
	if _, err := os.Stat(s.envDir(uuid)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return jail.RemoveRoot(ctx, s.Host, label(uuid), s.envDir(uuid))
}

// noJail refuses what bakeoff does not support for jails.
func (g *Guest) noJail(what string) error {
	if !jailed(g.Guest) {
		return nil
	}
	return fault.WithFix(fault.New(fault.Unsupported, "%s: guest %s is a jail, and bakeoff does not support this for "+
		"jails", what, g.UUID), "stop the guest, and copy "+filepath.Join(g.Folder(), "root")+" yourself")
}

// fitFreeBSD checks what the networks of FreeBSD have no counterpart for.
func fitFreeBSD(g manifest.Guest, add func(path string, value any, reason, allowed string)) {
	if g.FirewallEnabled {
		add("firewall_enabled", true, "bakeoff has no rules of pf for a guest with a firewall", "remove it")
	}
	for i, n := range g.NICs {
		fitPF(n, func(property string, value any, reason, allowed string) {
			add("nics."+strconv.Itoa(i)+property, value, reason, allowed)
		})
	}
}

// fitPF checks a NIC in a network of FreeBSD: what pf cannot keep a guest from is refused unless
// the manifest permits it.
func fitPF(n manifest.NIC, add func(property string, value any, reason, allowed string)) {
	if !n.AllowMACSpoofing {
		add(".allow_mac_spoofing", false, "pf sees neither the MAC addresses of frames that a bridge forwards, nor ARP and "+
			"neighbor discovery in them: the guest can claim the addresses of others",
			"write allow_mac_spoofing: true if you trust the guest")
	}
	if n.AllowRestrictedTraffic {
		add(".allow_restricted_traffic", true, "a bridge of FreeBSD that pf filters forwards only IPv4, IPv6 and ARP "+
			"(net.link.bridge.pfil_onlyip, a setting of all bridges)", "remove it")
	}
	if len(n.AllowedDHCPCIDs) > 0 {
		add(".allowed_dhcp_cids", n.AllowedDHCPCIDs, "pf reads no messages of DHCP, so none pass", "remove it, or write "+
			"allow_dhcp_spoofing: true instead")
	}
	if n.VLAN != 0 {
		add(".vlan_id", n.VLAN, "networks on FreeBSD have no VLANs of NICs", "create a network with --uplink and --vlan")
	}
	if n.VRRPVRID != 0 {
		add(".vrrp_vrid", n.VRRPVRID, "a bridge of FreeBSD has a fixed place for each MAC address, and virtual routers "+
			"share one", "remove it")
	}
	for k, text := range n.IPs {
		if text == "addrconf" {
			add(".ips."+strconv.Itoa(k), text, "networks on FreeBSD have no router advertisements", "write an address")
		}
	}
}

// resolverOf is this machine as a name server of a network; invalid if it is none.
func (s *Store) resolverOf(c connection) netip.Addr {
	if s.freebsd() || !c.nic.Primary || c.nic.VLAN != 0 { // no dnsmasq, or none for the NIC
		return netip.Addr{}
	}
	return c.Gateway()
}
