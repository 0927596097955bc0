package manifest

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/base/name"
	"bakeoff/base/yamltree"
)

var (
	tagForm  = lazy.Compile(`^[A-Za-z0-9_/]{1,31}$`)
	zoneForm = lazy.Compile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
	macForm  = lazy.Compile(`^[0-9a-fA-F]{1,2}(:[0-9a-fA-F]{1,2}){5}$`)
	hostForm = lazy.Compile(`^` + hostPart + `(\.` + hostPart + `)*$`)
	bootForm = lazy.Compile(`^order=[cdn]{1,3}(,once=[cdn]{1,3})?$`)
)

// hostPart is a part of the name of a host. SmartOS accepts the underscore.
const hostPart = `[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?`

// maxHostname is the longest name of a host (RFC 1123).
const maxHostname = 253

// only names the brands that have a property; all have the others.
var only = map[string][]Brand{
	"disks": {KVM, Bhyve, MicroVM}, "disk_driver": {KVM, Bhyve, MicroVM}, "nic_driver": {KVM, Bhyve, MicroVM},
	"vnc_port": {KVM, Bhyve, MicroVM}, "vnc_password": {KVM, Bhyve, MicroVM}, "vcpus": {KVM, Bhyve, MicroVM},
	"boot": {KVM}, "cpu_type": {KVM}, "vga": {KVM}, "qemu_opts": {KVM}, "qemu_extra_opts": {KVM},
	"bootrom": {Bhyve}, "bhyve_extra_opts": {Bhyve}, "flexible_disk_size": {Bhyve},
	"routes": {Joyent, JoyentMinimal, LX, Docker}, "tmpfs": {Joyent, JoyentMinimal, LX, Docker},
	"consoles": {KVM, Bhyve, MicroVM}, "tty": {Joyent, JoyentMinimal, LX, Docker},
	"entrypoint": {Docker}, "kernel_version": {LX},
}

// between is the range of a number that is written.
var between = map[string][2]int{
	"ram": {1, 1 << 24}, "max_physical_memory": {1, 1 << 24}, "max_swap": {256, 1 << 24}, "vcpus": {1, 64},
	"vnc_port": {-1, 65535}, "quota": {0, 1 << 20}, "cpu_cap": {0, 100_000}, "cpu_shares": {1, 65535},
	"zfs_io_priority": {0, 1024}, "max_lwps": {1, 1 << 20}, "mtu": {576, 9000}, "vlan_id": {0, 4095},
	"vrrp_vrid": {1, 255}, "block_size": {512, 131072}, "size": {1, 1 << 30}, "image_size": {1, 1 << 30},
	"consoles": {0, 8},
}

// words are the values of a text.
var words = map[string][]string{
	"cpu_type": {"qemu64", "host"}, "bootrom": {"bios", "uefi"}, "media": {"disk", "cdrom"},
	"compression": {"on", "off", "lzo", "zlib", "zstd", "gzip", "gzip-1", "gzip-2", "gzip-3", "gzip-4", "gzip-5",
		"gzip-6", "gzip-7", "gzip-8", "gzip-9", "lz4", "lzjb", "zle"},
	"restart": {"no", "on-failure", "always"}, "vga": {"std", "cirrus", "vmware", "qxl", "xenpv"},
}

func (x *reader) checkGuest(g *Guest) {
	if x.bad["brand"] {
		return // it decides what the other properties can be
	}
	if g.Brand == "" {
		g.Brand = Joyent // as vmadm create does
		for _, e := range x.nodes[""].Entries {
			if brands := only[e.Key.Text]; brands != nil && !slices.Contains(brands, g.Brand) {
				x.add("brand", "it is missing, and guests of brand joyent, the default, have no "+e.Key.Text,
					"use "+oneOf(brands))
				return
			}
		}
	}
	if !slices.Contains(Brands, g.Brand) {
		x.add("brand", "bakeoff does not know this brand", "use "+oneOf(Brands))
		return
	}
	for _, e := range x.nodes[""].Entries {
		if brands := only[e.Key.Text]; brands != nil && !slices.Contains(brands, g.Brand) {
			x.add(e.Key.Text, "guests of brand "+string(g.Brand)+" do not have this property", "remove it")
		}
		x.checkValue(e, e.Key.Text)
	}
	for _, c := range [...]struct{ path, value string }{{"uuid", g.UUID}, {"image_uuid", g.ImageUUID},
		{"owner_uuid", g.OwnerUUID}, {"billing_id", g.BillingID}} {
		x.checkUUID(c.path, c.value)
	}
	if g.Driver != "" {
		if reason, allowed := g.Brand.CheckDriver(g.Driver); reason != "" {
			x.add("driver", reason, allowed)
		}
	}
	if g.Hostname != "" && !(len(g.Hostname) <= maxHostname && hostForm.MatchString(g.Hostname)) {
		x.add("hostname", "it is not the name of a host",
			"write at most 253 letters, digits, -, _ and ., and begin and end each part with a letter or digit")
	}
	if len(g.VNCPassword) > 8 {
		x.add("vnc_password", "it has more than 8 characters", "shorten it")
	}
	if g.Boot != "" && !IsBootOrder(g.Boot) {
		x.add("boot", "this is not an order of boot devices", "write, for example, order=cd or order=cd,once=d")
	}
	x.checkImage(g)
	for i, r := range g.Resolvers {
		if _, err := netip.ParseAddr(r); err != nil {
			x.add("resolvers."+strconv.Itoa(i), "it is not an address", "write an IPv4 or IPv6 address")
		}
	}
	x.checkNICs(g)
	x.checkDisks(g)
	x.checkFilesystems(g)
	x.checkRoutes(g)
	if g.Zonename != "" && !zoneForm.MatchString(g.Zonename) {
		x.add("zonename", "it is not the name of a zone", "use letters, digits, _, - and ., and begin with a letter or digit")
	}
	quota, tmpfs := g.Quota, g.TmpFS
	Complete(g)
	if x.nodes["quota"] != nil { // 0 means no limit
		g.Quota = quota
	}
	if x.nodes["tmpfs"] != nil {
		g.TmpFS = min(tmpfs, g.MaxPhysicalMemory)
	}
}

// checkImage checks the image of the guest itself.
func (x *reader) checkImage(g *Guest) {
	switch {
	case g.ImageUUID != "" && (g.Brand == KVM || g.Brand == Bhyve) && x.made == nil:
		x.add("image_uuid", "in SmartOS, this is the image of the zone around a machine, which bakeoff does not have",
			"write it in a disk: disks: [{image_uuid: UUID, boot: true}]")
	case g.Brand.Machine() || g.ImageUUID != "" || g.Image != "" || x.bad["image"] || x.bad["image_uuid"]:
	case x.nodes["image"] != nil:
		x.add("image", "a container needs an image", "name one")
	default:
		x.add("image_uuid", "a container needs an image", "add image_uuid or image")
	}
	if g.Workdir != "" {
		x.checkPath("workdir", g.Workdir)
	}
	if g.NICDriver != "" && !slices.Contains(NICModels, g.NICDriver) {
		x.add("nic_driver", "QEMU has no such network card", "use "+yamltree.OneOf(NICModels))
	}
}

// oneOf lists brands in words.
func oneOf(brands []Brand) string {
	names := make([]string, len(brands))
	for i, b := range brands {
		names[i] = string(b)
	}
	return yamltree.OneOf(names)
}

// IsBootOrder tells an order of boot devices, such as order=cd,once=d: of disks (c), CD drives (d) and
// NICs (n).
func IsBootOrder(text string) bool { return bootForm.MatchString(text) }

// checkValue checks numbers and words below a property, at any depth.
func (x *reader) checkValue(e yamltree.Entry, path string) {
	for i, item := range e.Value.Items {
		for _, sub := range item.Entries {
			x.checkValue(sub, path+"."+strconv.Itoa(i)+"."+sub.Key.Text)
		}
	}
	text := e.Value.String()
	if text == "" {
		return
	}
	if limit, ok := between[e.Key.Text]; ok && integer.MatchString(text) {
		if n, err := strconv.Atoi(text); err != nil || n < limit[0] || n > limit[1] {
			x.add(path, "it is out of range", fmt.Sprintf("write %d to %d", limit[0], limit[1]))
		}
	}
	if known := words[e.Key.Text]; known != nil && !slices.Contains(known, text) {
		x.add(path, "there is no such value", "use "+yamltree.OneOf(known))
	}
}

// checkPath checks an absolute path without .. and control characters.
func (x *reader) checkPath(path, s string) {
	switch {
	case !strings.HasPrefix(s, "/"):
		x.add(path, "it is not absolute", "begin it with /")
	case strings.Contains(s+"/", "/../"):
		x.add(path, "it contains ..", "write the path without ..")
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }):
		x.add(path, "it contains a control character", "remove it")
	}
}

// filesystemOptions are those that a folder of the host can have in a guest.
var filesystemOptions = []string{"ro", "rw", "nodevices", "nodev", "nosuid", "noexec"}

func (x *reader) checkFilesystems(g *Guest) {
	seen := map[string]int{}
	for i, f := range g.Filesystems {
		path := "filesystems." + strconv.Itoa(i) + "."
		x.checkPath(path+"source", f.Source)
		x.checkPath(path+"target", f.Target)
		if f.Target == "/" {
			x.add(path+"target", "it is the root of the guest", "write a folder below /")
		}
		if first, twice := seen[f.Target]; twice {
			x.add(path+"target", fmt.Sprintf("filesystems.%d has the same target", first), "change one of them")
		}
		seen[f.Target] = i
		types, options := []string{"lofs", "bind"}, filesystemOptions
		if g.Brand.Machine() { // the guest mounts them itself, with the options that it wants
			types, options = []string{Plan9, NFS}, []string{"ro", "rw"}
		}
		if !slices.Contains(types, f.Type) {
			x.add(path+"type", "guests of brand "+string(g.Brand)+" have no such file systems", "use "+yamltree.OneOf(types))
		}
		for k, o := range f.Options {
			if !slices.Contains(options, o) {
				x.add(path+"options."+strconv.Itoa(k), "there is no such option", "use "+yamltree.OneOf(options))
			}
		}
		if f.Type == NFS && strings.ContainsAny(f.Source+f.Target, "\"\\#") {
			x.add(path+"source", "a path that NFS serves cannot contain quotes, # or a backslash", "rename the folder")
		}
	}
}

var nicOfRoute = lazy.Compile(`^(nics|macs)\[([0-9a-fA-F:]{1,17})\]$`)

func (x *reader) checkRoutes(g *Guest) {
	for to, v := range g.Routes {
		path := "routes." + to
		if p, err := netip.ParsePrefix(to); err != nil || !p.Addr().Is4() {
			if a, err := netip.ParseAddr(to); err != nil || !a.Is4() {
				x.add(path, "its destination is not an IPv4 network", "write, for example, 10.2.0.0/16")
			}
		}
		by := fmt.Sprint(v)
		if a, err := netip.ParseAddr(by); err == nil && a.Is4() {
			continue
		}
		m := nicOfRoute.FindStringSubmatch(by)
		known := false
		for i, n := range g.NICs {
			known = known || m != nil && (m[1] == "nics" && m[2] == strconv.Itoa(i) || m[1] == "macs" && n.MAC == LongMAC(m[2]))
		}
		if !known {
			x.add(path, "it is neither an IPv4 address nor a NIC of the guest", "write, for example, 10.0.0.1, nics[0] or "+
				"macs[MAC]")
		}
	}
}

func (x *reader) checkUUID(path, s string) {
	if s != "" && !name.ValidUUID(s) {
		x.add(path, "it is not a UUID", "write 8-4-4-4-12 lower-case hexadecimal digits")
	}
}

// NICModels are the models of NICs of machines.
var NICModels = []string{"virtio", "e1000", "rtl8139"}

func (x *reader) checkNICs(g *Guest) {
	if len(g.NICs) > 32 {
		x.add("nics", fmt.Sprintf("it has %d interfaces", len(g.NICs)), "write at most 32")
		return
	}
	primary, macs, addresses := -1, map[string]int{}, map[netip.Addr]string{}
	for i := range g.NICs {
		n, path := &g.NICs[i], "nics."+strconv.Itoa(i)+"."
		switch {
		case n.Interface != "" && n.Interface != "net"+strconv.Itoa(i) && x.made == nil:
			x.add(path+"interface", "bakeoff names the NICs in their order", "write net"+strconv.Itoa(i)+", or remove it")
		}
		switch {
		case n.NicTag == "":
			x.add(path+"nic_tag", "it is missing", "name a network")
		case !tagForm.MatchString(n.NicTag):
			x.add(path+"nic_tag", "it is not a name of a network", "use at most 31 letters, digits, _ and /")
		}
		if n.MAC != "" && !macForm.MatchString(n.MAC) {
			x.add(path+"mac", "it is not a MAC address", "write six pairs of hexadecimal digits with colons")
		} else if n.MAC != "" {
			n.MAC = LongMAC(n.MAC)
			if strings.ContainsRune("13579bdf", rune(n.MAC[1])) {
				x.add(path+"mac", "it is an address of a group of NICs", "write an even first pair, such as 02")
			}
			if first, twice := macs[n.MAC]; twice {
				x.add(path+"mac", fmt.Sprintf("nics.%d has the same MAC address", first), "change one of them")
			}
			macs[n.MAC] = i
		}
		if n.Primary && primary >= 0 {
			x.add(path+"primary", fmt.Sprintf("nics.%d is primary too", primary), "set primary on one NIC only")
		} else if n.Primary {
			primary = i
		}
		switch {
		case n.Model != "" && !g.Brand.Machine():
			x.add(path+"model", "guests of brand "+string(g.Brand)+" do not have this property", "remove it")
		case n.Model != "" && !slices.Contains(NICModels, n.Model):
			x.add(path+"model", "QEMU has no such network card", "use "+yamltree.OneOf(NICModels))
		}
		x.checkAddresses(n, path, addresses)
	}
	for i := range g.NICs {
		x.checkVRRP(g, i)
	}
	if primary < 0 && len(g.NICs) > 0 {
		g.NICs[0].Primary = true
		if len(g.NICs) == 1 && x.nodes["nics.0.primary"] != nil {
			x.add("nics.0.primary", "a guest with NICs has a primary one", "write true, or remove it")
		}
	}
}

// checkVRRP checks a NIC of a virtual router: an address of another NIC speaks for it.
func (x *reader) checkVRRP(g *Guest, i int) {
	n, path := g.NICs[i], "nics."+strconv.Itoa(i)+"."
	switch {
	case n.VRRPVRID == 0 && n.VRRPPrimaryIP != "":
		x.add(path+"vrrp_primary_ip", "only a NIC with vrrp_vrid has it", "add vrrp_vrid, or remove it")
	case n.VRRPVRID == 0:
	case !slices.ContainsFunc(g.NICs, func(o NIC) bool {
		return o.VRRPVRID == 0 && slices.ContainsFunc(o.IPs, func(ip string) bool {
			return n.VRRPPrimaryIP != "" && strings.HasPrefix(ip, n.VRRPPrimaryIP+"/")
		})
	}):
		x.add(path+"vrrp_primary_ip", "it is not an address of another NIC of the guest",
			"write an address of a NIC without vrrp_vrid")
	}
}

// LongMAC is a MAC address as guests have it: with six pairs of lower-case digits.
func LongMAC(s string) string {
	parts := strings.Split(strings.ToLower(s), ":")
	for i, p := range parts {
		if len(p) == 1 {
			parts[i] = "0" + p
		}
	}
	return strings.Join(parts, ":")
}

// checkAddresses replaces ip, netmask and gateway by ips and gateways, and compares
// addresses, not texts.
func (x *reader) checkAddresses(n *NIC, path string, seen map[netip.Addr]string) {
	key := path + "ips."
	if len(n.IPs) == 0 && n.IP == "" && (n.Netmask != "" || n.Gateway != "") {
		x.add(path+"ip", "it is missing, and the NIC has a netmask or gateway", "write an address, or remove those")
	}
	if len(n.IPs) == 0 && n.IP != "" {
		key = ""
		switch mask := net.ParseIP(n.Netmask).To4(); {
		case n.IP == "dhcp":
			n.IPs = []string{"dhcp"}
		case mask == nil || mask.Equal(net.IPv4zero):
			x.add(path+"netmask", "ip needs a netmask", "write, for example, 255.255.255.0")
			return
		default:
			ones, _ := net.IPMask(mask).Size()
			if ones == 0 {
				x.add(path+"netmask", "its bits are not contiguous", "write, for example, 255.255.255.0")
				ones = 24 // the address is checked all the same
			}
			n.IPs = []string{n.IP + "/" + strconv.Itoa(ones)}
		}
	}
	if len(n.IPs) > 20 {
		x.add(path+"ips", fmt.Sprintf("it has %d addresses", len(n.IPs)), "write at most 20")
	}
	for i, s := range n.IPs {
		at := path + "ip"
		if key != "" {
			at = key + strconv.Itoa(i)
		}
		if s == "dhcp" || s == "addrconf" {
			continue
		}
		p, err := netip.ParsePrefix(s)
		switch {
		case err != nil:
			x.add(at, "it is not an address with a prefix length", "write, for example, 10.0.0.2/24, dhcp or addrconf")
		case p.Addr().Is4() && (p.Bits() < 8 || p.Bits() > 32):
			x.add(at, "the prefix length is out of range", "write /8 to /32")
		case p.Addr().IsMulticast() || p.Addr().IsUnspecified() || p.Addr().IsLoopback():
			x.add(at, "no NIC can have this address", "write a unicast address")
		case p.Addr().Is4() && p.Bits() < 31 && (p.Addr() == p.Masked().Addr() || p.Addr() == lastOf(p)):
			x.add(at, "it is the first or last address of its network, which no host can have", "write one between them")
		case seen[p.Addr()] != "":
			x.add(at, seen[p.Addr()]+" is the same address", "change one of them")
		default:
			seen[p.Addr()] = at
		}
	}
	old := n.Gateway != "" && len(n.Gateways) == 0
	if old {
		n.Gateways = []string{n.Gateway}
	}
	for i, s := range n.Gateways {
		at := path + "gateways." + strconv.Itoa(i)
		if old {
			at = path + "gateway"
		}
		if a, err := netip.ParseAddr(s); err != nil || !a.Is4() {
			x.add(at, "it is not an IPv4 address", "write, for example, 10.0.0.1")
		} else if !n.reaches(a) {
			x.add(at, "it is not another address of the network of this NIC", "write an address of that network")
		}
	}
	if len(n.AllowedIPs) > 13 {
		x.add(path+"allowed_ips", fmt.Sprintf("it has %d entries", len(n.AllowedIPs)), "write at most 13")
	}
	for i, s := range n.AllowedIPs {
		_, err := netip.ParseAddr(s)
		if _, prefix := netip.ParsePrefix(s); err != nil && prefix != nil {
			x.add(path+"allowed_ips."+strconv.Itoa(i), "it is not an address", "write an address or a prefix")
		}
	}
	if len(n.AllowedDHCPCIDs) > 20 {
		x.add(path+"allowed_dhcp_cids", fmt.Sprintf("it has %d entries", len(n.AllowedDHCPCIDs)), "write at most 20")
	}
	for i, port := range n.BlockedOutgoingPorts {
		if port < 1 || port > 65535 {
			x.add(path+"blocked_outgoing_ports."+strconv.Itoa(i), "it is out of range", "write 1 to 65535")
		}
	}
}

// reaches reports whether a NIC may reach a gateway without another gateway. It may if it
// has no IPv4 address of its own, or one without a network.
func (n NIC) reaches(gateway netip.Addr) bool {
	var v4 []netip.Prefix
	for _, s := range n.IPs {
		p, err := netip.ParsePrefix(s)
		if err != nil && s != "addrconf" || err == nil && p.Addr().Is4() && p.Bits() == 32 {
			return true
		}
		if err == nil && p.Addr().Is4() {
			v4 = append(v4, p)
		}
	}
	return len(v4) == 0 || slices.ContainsFunc(v4, func(p netip.Prefix) bool {
		return p.Contains(gateway) && p.Addr() != gateway
	})
}

// lastOf returns the last IPv4 address of a network, to which all hosts listen.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().As4()
	all := binary.BigEndian.Uint32(b[:]) | (1<<(32-p.Bits()) - 1)
	binary.BigEndian.PutUint32(b[:], all)
	return netip.AddrFrom4(b)
}

func (x *reader) checkDisks(g *Guest) {
	models := []string{"virtio", "scsi", "ide"}
	switch g.Brand {
	case Bhyve:
		models = []string{"virtio", "ahci", "nvme"}
	case MicroVM:
		models = []string{"virtio"}
	}
	if g.DiskDriver != "" && !slices.Contains(models, g.DiskDriver) {
		x.add("disk_driver", "brand "+string(g.Brand)+" has no such model", "use "+yamltree.OneOf(models))
		g.DiskDriver = ""
	}
	boot, seen := -1, map[string]int{}
	for i := range g.Disks {
		d, path := &g.Disks[i], "disks."+strconv.Itoa(i)+"."
		x.checkUUID(path+"image_uuid", d.ImageUUID)
		if d.Boot && boot >= 0 {
			x.add(path+"boot", fmt.Sprintf("disks.%d is already the boot disk", boot), "set boot on one disk only")
		} else if d.Boot {
			boot = i
		}
		if d.Model != "" && !slices.Contains(models, d.Model) {
			x.add(path+"model", "brand "+string(g.Brand)+" has no such model", "use "+yamltree.OneOf(models))
		}
		if d.BlockSize&(d.BlockSize-1) != 0 {
			x.add(path+"block_size", "it is not a power of 2", "write 512 to 131072")
		}
		if _, _, ok := d.GuestBlocks(); !ok {
			x.add(path+"guest_block_size", "it is not a size of blocks", "write 512, 4096 or, for example, 512/4096")
		}
		if first, twice := seen[d.Path]; twice && d.Path != "" {
			x.add(path+"path", fmt.Sprintf("disks.%d has the same path", first), "change one of them")
		}
		seen[d.Path] = i
		image, made := d.ImageUUID != "" || d.Image != "" || x.bad[path+"image_uuid"] || x.bad[path+"image"],
			x.made != nil && x.made(d.Path)
		if d.Model == "" && d.Media != "cdrom" && !made {
			d.Model = g.DiskDriver
		}
		switch {
		case d.Path != "" && d.Made() && !made:
			x.add(path+"path", "only a cdrom or a disk with nocreate has a path", "remove it, or add nocreate")
		case !d.Made() && d.Path == "":
			x.add(path+"path", "it is missing", "name a file")
		case d.Made() && !image && d.Size == 0:
			x.add(path+"size", "it is missing", "add size or image_uuid")
		case g.Brand == KVM && d.ImageUUID != "" && d.Size != 0:
			x.add(path+"size", "the image determines the size", "remove it")
		case image && d.BlockSize != 0:
			x.add(path+"block_size", "the image determines this value", "remove it")
		}
		if d.Path != "" && !made {
			x.checkPath(path+"path", d.Path)
		}
		for name, written := range map[string]bool{"uuid": d.UUID != "", "pci_slot": d.PCISlot != "",
			"guest_block_size": d.GuestBlockSize != "", "notrim": d.NoTrim} {
			if written && g.Brand != Bhyve {
				x.add(path+name, "disks of brand "+string(g.Brand)+" do not have this property", "remove it")
			}
		}
		if d.Media == "" {
			d.Media = "disk"
		}
	}
}

// GuestBlocks are the sizes of the logical and the physical blocks that the guest sees, in bytes:
// those of guest_block_size, or the block size of the storage. 0 is the usual one. ok is false if
// guest_block_size is neither SIZE nor LOGICAL/PHYSICAL.
func (d Disk) GuestBlocks() (logical, physical int, ok bool) {
	if d.GuestBlockSize == "" {
		return 0, d.BlockSize, true
	}
	first, second, both := strings.Cut(d.GuestBlockSize, "/")
	if !both {
		second = first
	}
	logical, lerr := strconv.Atoi(first)
	physical, perr := strconv.Atoi(second)
	size := func(n, most int) bool { return n >= 512 && n <= most && n&(n-1) == 0 }
	return logical, physical, lerr == nil && perr == nil && size(logical, 4096) && size(physical, 131072) &&
		logical <= physical
}

// UsualQuota is the default of quota.
func UsualQuota(b Brand) int {
	if b == Bhyve {
		return 1
	}
	return 10
}

// Complete sets the defaults of vmadm, and the usual driver.
func Complete(g *Guest) {
	defer func() {
		g.Quota, g.TmpFS = UsualQuota(g.Brand), 0
		if !g.Brand.Machine() {
			g.TmpFS = g.MaxPhysicalMemory
		}
	}()
	g.Driver = DriverOf(*g)
	extra := map[Brand]int{KVM: 1024, Bhyve: 1280, MicroVM: 1024}[g.Brand]
	if g.RAM == 0 && !g.Brand.Machine() {
		g.RAM = g.MaxPhysicalMemory
	}
	orDefault := func(v *int, standard int) {
		if *v == 0 {
			*v = standard
		}
	}
	orDefault(&g.RAM, 256)
	orDefault(&g.MaxPhysicalMemory, g.RAM+extra)
	if g.Brand.Machine() {
		g.MaxPhysicalMemory = max(g.MaxPhysicalMemory, g.RAM+256)
		orDefault(&g.VCPUs, 1)
	} else {
		g.RAM = g.MaxPhysicalMemory
	}
	orDefault(&g.MaxLockedMemory, g.MaxPhysicalMemory)
	g.MaxLockedMemory = min(g.MaxLockedMemory, g.MaxPhysicalMemory)
	g.MaxSwap = max(g.MaxSwap, g.MaxPhysicalMemory, 256)
	orDefault(&g.CPUShares, 100)
	orDefault(&g.ZFSIOPriority, 100)
	orDefault(&g.MaxLWPs, 2000)
	for i := range g.NICs {
		n := &g.NICs[i]
		n.Interface = "net" + strconv.Itoa(i)
		if n.Model == "" && g.Brand.Machine() {
			n.Model = g.NICDriver
		}
		n.IP, n.Netmask, n.Gateway = "", "", "" // the old form shows the first ones
		if len(n.IPs) > 0 {
			n.IP = n.IPs[0]
			if p, err := netip.ParsePrefix(n.IP); err == nil && p.Addr().Is4() {
				n.IP, n.Netmask = p.Addr().String(), net.IP(net.CIDRMask(p.Bits(), 32)).String()
			}
		}
		if len(n.Gateways) > 0 {
			n.Gateway = n.Gateways[0]
		}
	}
}
