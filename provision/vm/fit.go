package vm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/vm/filter"
	"bakeoff/provision/vm/manifest"
	"bakeoff/provision/vm/network"
)

// noCounterpart says why a property of SmartOS has no counterpart on this machine. It is
// refused if it has another value than the default.
var noCounterpart = map[string]string{
	"zpool":                        "guests are in bakeoff's state folder, not in a pool",
	"zonename":                     "a guest has no other names than its UUID and its alias",
	"max_locked_memory":            "bakeoff cannot limit locked memory separately",
	"tmpfs":                        "files in /tmp count toward the memory limit",
	"zfs_io_priority":              "guests have no ZFS data",
	"dns_domain":                   "bakeoff writes no domain into the guest",
	"internal_metadata_namespaces": "a guest has no metadata service",
	"indestructible_delegated":     "guests have no ZFS data",
	"delegate_dataset":             "guests have no ZFS data",
	"kernel_version":               "a container has the kernel of this machine",
	"qemu_opts":                    "bakeoff writes QEMU's command line",
	"qemu_extra_opts":              "bakeoff writes QEMU's command line",
	"bhyve_extra_opts":             "bakeoff writes the command line of the hypervisor",
	"zfs_root_compression":         "guests have no ZFS data",
	"zfs_data_compression":         "guests have no ZFS data",
	"zfs_root_recsize":             "guests have no ZFS data",
	"zfs_data_recsize":             "guests have no ZFS data",
	"flexible_disk_size":           "each disk has its own size",

	"nics.network_uuid": "networks have no UUIDs",

	"disks.refreservation": "guests have no ZFS data",
	"disks.uuid":           "a disk has no UUID",
	"disks.pci_slot":       "bakeoff chooses the slots",
	"disks.notrim":         "bakeoff's disks do not support trim",
	"disks.zpool":          "guests are in bakeoff's state folder, not in a pool",
	"disks.image_name":     "the property image names the image",

	"filesystems.raw": "a shared folder has no raw device",
}

// Fit refuses what a guest wants and this machine has no counterpart for. tags finds networks, and
// storage is that of the guests. The error is of kind fault.Invalid and holds manifest.Problems.
func Fit(g manifest.Guest, tags Tags, storage Storage) error {
	var out manifest.Problems
	add := func(path string, value any, reason, allowed string) {
		text, err := json.Marshal(value)
		if err != nil {
			text = []byte(fmt.Sprint(value))
		}
		out = append(out, manifest.Problem{Path: path, Value: string(text), Reason: reason, Allowed: allowed})
	}
	plain := manifest.Guest{UUID: g.UUID, Brand: g.Brand, RAM: g.RAM, MaxPhysicalMemory: g.MaxPhysicalMemory}
	manifest.Complete(&plain)
	for _, c := range manifest.Diff(plain, g) {
		if c.New == nil {
			continue
		}
		name := withoutNumbers(c.Path)
		if name == "internal_metadata_namespaces" && hasMetadataPort(g) {
			continue
		}
		top, _, _ := strings.Cut(name, ".")
		if reason := noCounterpart[name]; reason != "" {
			add(c.Path, c.New, reason, "remove it")
		} else if reason := noCounterpart[top]; reason != "" {
			add(c.Path, c.New, reason, "remove it")
		}
	}
	if g.MaintainResolvers && !g.InNamespaces() {
		add("maintain_resolvers", true, "resolvers take effect when the guest starts", "remove it")
	}
	if g.CPUType == "qemu64" {
		add("cpu_type", g.CPUType, "machines have the CPU of the host, or all that QEMU emulates", "write host")
	}
	for i, n := range g.NICs {
		fitNIC(g, n, tags(n.NicTag), func(property string, value any, reason, allowed string) {
			add("nics."+strconv.Itoa(i)+property, value, reason, allowed)
		})
	}
	fitParts(g, add)
	fitLimits(g, storage, add)
	fitBlocks(g, storage, add)
	fitQuota(g, storage, add)
	fitFolders(g, tags, add)
	if jailed(g) || g.Driver == manifest.DriverBhyve {
		fitFreeBSD(g, add)
	}
	if g.Driver == manifest.Firecracker {
		fitFirecracker(g, tags, add)
	}
	if g.Driver == manifest.DriverBhyve {
		fitBhyve(g, tags, add)
	}
	published := map[netip.AddrPort]bool{}
	for i, text := range g.Ports {
		switch p, err := ParsePort(text); {
		case err != nil:
			add("ports."+strconv.Itoa(i), text, err.Error(), "write, for example, 8080:80")
		case p.Host.Port() != 0 && published[p.Host]:
			add("ports."+strconv.Itoa(i), text, "the guest already publishes a port as "+p.Host.String(),
				"write another port of the host")
		default:
			published[p.Host] = true
		}
	}
	if len(out) > 0 {
		return fault.Wrap(fault.Invalid, "", out)
	}
	return nil
}

// FitAny is Fit for a guest of manifest.UpdateAny, whose NICs may be in networks that are not known.
func FitAny(g manifest.Guest, tags Tags, storage Storage) error {
	some := &network.Network{Network: manifest.Network{Subnets: []string{"192.0.2.1/24", "2001:db8::1/64"}}}
	return Fit(g, func(tag string) *network.Network {
		if in := tags(tag); in != nil || tag != manifest.AnyName {
			return in
		}
		return some
	}, storage)
}

// fitParts checks what depends on the brand.
func fitParts(g manifest.Guest, add func(path string, value any, reason, allowed string)) {
	boots := 0
	for i, d := range g.Disks {
		path := "disks." + strconv.Itoa(i)
		if d.Boot || i == 0 && d.Media != "cdrom" {
			boots++
		}
		if _, ok := controllers[d.Model]; !ok && d.Media != "cdrom" {
			add(path+".model", d.Model, "QEMU's machines have no such disk", "use virtio, scsi, ide, ahci or nvme")
		} else if _, ok := drives[d.Model]; !ok && d.Media == "cdrom" {
			add(path+".model", d.Model, "QEMU's machines have no such CD drive", "use virtio, scsi, ide or ahci")
		}
		if d.Media == "cdrom" && g.Brand == manifest.MicroVM {
			add(path+".media", d.Media, "the machine microvm has no CD drive", "use brand kvm")
		}
	}
	fitScreen(g, add)
	if g.Boot != "" && g.Kernel != "" {
		add("boot", g.Boot, "a machine with a kernel starts no boot loader", "remove it")
	}
	switch {
	case !g.Brand.Machine():
		if len(g.Resolvers) > 0 && len(g.NICs) == 0 {
			add("resolvers", g.Resolvers, "a container without a NIC has only its loopback interface", "add a NIC, or remove it")
		}
		if g.Kernel != "" || g.Initrd != "" || g.KernelArgs != "" {
			add("kernel", g.Kernel, "a container has the kernel of this machine", "remove it, or use brand microvm")
		}
	case boots == 0 && g.Kernel == "" && g.Image == "" && g.ImageUUID == "":
		add("disks", len(g.Disks), "the guest has nothing to start from", "add a disk, image, or kernel")
	}
	if g.Brand.Machine() {
		for name, v := range map[string]int{"command": len(g.Command), "environment": len(g.Environment),
			"user": len(g.User), "workdir": len(g.Workdir)} {
			if v > 0 {
				add(name, v, "a machine always runs the program of its image", "remove it, or use brand docker")
			}
		}
	}
}

// withoutNumbers is a path without the numbers of items: nics.0.mtu is nics.mtu.
func withoutNumbers(path string) string {
	parts := slices.DeleteFunc(
		strings.Split(path, "."),
		func(s string) bool { _, err := strconv.Atoi(s); return err == nil },
	)
	return strings.Join(parts, ".")
}

// fitNIC checks a NIC and its network; nil is one of its own.
func fitNIC(g manifest.Guest, n manifest.NIC, in *network.Network, add func(property string, value any, reason,
	allowed string)) {
	for k, text := range n.AllowedDHCPCIDs {
		if _, err := filter.ParseClientID(text); err != nil {
			add(".allowed_dhcp_cids."+strconv.Itoa(k), text, err.Error(), "write 0x and hexadecimal digits, or a text")
		}
	}
	if nicModels[n.Model] != "" && n.MTU != 0 {
		add(".mtu", n.MTU, "only a card of model virtio has an mtu", "remove it, or use virtio")
		return
	}
	if in == nil {
		fitLoneNIC(g, n, add)
		return
	}
	if limit := cmp.Or(in.MTU, 1500); n.MTU > limit {
		add(".mtu", n.MTU, fmt.Sprintf("network %s has %d", in.Name, limit), "write a smaller mtu, or the same")
	}
	switch {
	case n.VLAN == 0 || in.Uplink == "" || in.NAT:
	case in.VLAN != 0:
		add(".vlan_id", n.VLAN, fmt.Sprintf("all frames of network %s have the tag %d", in.Name, in.VLAN), "remove it")
	case n.VLAN > manifest.MaxVLAN:
		add(".vlan_id", n.VLAN, "no frame at the uplink of network "+in.Name+" has this tag",
			fmt.Sprintf("write 1 to %d", manifest.MaxVLAN))
	}
	if wantsAddress(n) && (!in.Gateway().IsValid() || n.VLAN != 0) {
		add(".ips", n.IPs, "network "+in.Name+" has no DHCP server for this NIC: it has no subnet, or the NIC is in a VLAN",
			"write an address, such as 10.0.0.2/24")
	}
	if slices.Contains(n.IPs, "addrconf") && (!in.Prefix6().IsValid() || n.VLAN != 0) {
		add(".ips", n.IPs, "network "+in.Name+" has no IPv6 subnet of length 64", "create it with --subnet fd00:1::/64")
	}
	for _, text := range n.IPs {
		p, err := netip.ParsePrefix(text)
		if err == nil && n.VLAN == 0 && slices.ContainsFunc(in.Subnets, func(s string) bool {
			own, err := netip.ParsePrefix(s)
			return err == nil && own.Addr() == p.Addr()
		}) {
			add(".ips", text, "this machine has this address in network "+in.Name, "write another one")
		}
	}
}

// fitLoneNIC checks a NIC whose nic_tag names no network. Only a machine can have one.
func fitLoneNIC(g manifest.Guest, n manifest.NIC, add func(property string, value any, reason, allowed string)) {
	create := "run `bakeoff vm network create " + n.NicTag + " --subnet 10.0.0.0/24`"
	if !g.Brand.Machine() {
		add(".nic_tag", n.NicTag, "there is no such network", create)
		return
	}
	for property, value := range map[string]any{"vlan_id": n.VLAN, "vrrp_vrid": n.VRRPVRID, "dhcp_server": n.DHCPServer,
		"allowed_dhcp_cids": n.AllowedDHCPCIDs, "blocked_outgoing_ports": n.BlockedOutgoingPorts} {
		if v := reflect.ValueOf(value); !v.IsZero() && (v.Kind() != reflect.Slice || v.Len() > 0) {
			add("."+property, value, "network "+n.NicTag+" does not exist, so the NIC gets a separate network of QEMU, "+
				"without "+property, create)
		}
	}
	if _, err := cardOf(n); err != nil {
		add(".ips", n.IPs, err.Error(), "write one IPv4 address with a gateway, or dhcp; or "+create)
	}
}

// diskConflict are the disks of g that another guest has: two machines that write to one file
// system destroy it. Files are compared, not their names.
func diskConflict(g manifest.Guest, others []*Guest) (out manifest.Problems) {
	for i, d := range g.Disks {
		if !d.NoCreate || d.Media == "cdrom" {
			continue
		}
		file, err := os.Stat(d.Path)
		if err != nil {
			continue // the disk is not there now; its guest does not start
		}
		for _, o := range others {
			if o.UUID != g.UUID && slices.ContainsFunc(o.Disks, func(x manifest.Disk) bool {
				if x.Media == "cdrom" || x.Path == "" {
					return false
				}
				has, err := os.Stat(x.Path)
				return err == nil && os.SameFile(file, has)
			}) {
				out = append(out, manifest.Problem{Path: "disks." + strconv.Itoa(i) + ".path", Value: strconv.Quote(d.Path),
					Reason: "guest " + o.UUID + " has this disk", Allowed: "write another file, or a copy"})
			}
		}
	}
	return out
}

// Conflicts are what prevents the creation of each of all, in their order: a guest of the store, or an
// earlier one of the list, has its UUID, one of its addresses or disks, or its port of VNC.
func (s *Store) Conflicts(all []manifest.Guest) ([]manifest.Problems, error) {
	others, err := s.List()
	if err != nil {
		return nil, err
	}
	out := make([]manifest.Problems, len(all))
	for i, g := range all {
		for _, o := range others {
			if g.UUID != "" && g.UUID == o.Guest.UUID {
				out[i] = append(out[i], manifest.Problem{Path: "uuid", Value: strconv.Quote(g.UUID),
					Reason: "a guest with this uuid exists", Allowed: "write another, or none"})
			}
		}
		if g.UUID == "" {
			g.UUID = strconv.Itoa(i) + " of the list"
		}
		out[i] = append(out[i], manifest.ProblemsOf(conflict(g, others))...)
		others = append(others, &Guest{Guest: g})
	}
	return out, nil
}

// conflict is the first address, disk or MAC address of g that another guest has. Addresses are
// compared, not texts.
func conflict(g manifest.Guest, others []*Guest) error {
	macs, addresses := map[string]*Guest{}, map[netip.Addr]*Guest{}
	for _, o := range others {
		if o.UUID == g.UUID {
			continue
		}
		for _, n := range o.NICs {
			if n.VRRPVRID != 0 {
				continue
			}
			macs[n.MAC] = o
			for _, text := range n.IPs {
				if p, err := netip.ParsePrefix(text); err == nil {
					addresses[p.Addr()] = o
				}
			}
		}
	}
	out := diskConflict(g, others)
	for _, o := range others {
		if o.UUID != g.UUID && g.VNCPort > 0 && o.VNCPort == g.VNCPort {
			out = append(out, manifest.Problem{Path: "vnc_port", Value: strconv.Itoa(g.VNCPort),
				Reason: "guest " + o.UUID + " has this port", Allowed: "write another port, or only vnc_password"})
		}
	}
	for i, n := range g.NICs {
		path := "nics." + strconv.Itoa(i)
		if n.VRRPVRID != 0 {
			continue // the routers of a group share its addresses (RFC 5798)
		}
		if o := macs[n.MAC]; o != nil && n.MAC != "" {
			out = append(out, manifest.Problem{Path: path + ".mac", Value: strconv.Quote(n.MAC),
				Reason: "guest " + o.UUID + " has this MAC address", Allowed: "write another, or none"})
		}
		for _, text := range n.IPs {
			p, err := netip.ParsePrefix(text)
			if o := addresses[p.Addr()]; err == nil && o != nil {
				out = append(out, manifest.Problem{Path: path + ".ips", Value: strconv.Quote(text),
					Reason: "guest " + o.UUID + " has this address", Allowed: "write another one"})
			}
		}
	}
	if len(out) > 0 {
		return fault.Wrap(fault.Invalid, "", out)
	}
	return nil
}
