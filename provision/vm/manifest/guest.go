// Package manifest reads the descriptions of guests: SmartOS's JSON as vmadm takes it,
// or the same in YAML.
//
// Read reports every mistake at once, each with the property's path, the value, the reason and what is allowed. A
// property that is unknown, or that the guest's brand does not have, is a mistake.
//
// The names, defaults and limits are those of vmadm(8) in illumos-joyent, unless the
// description of a property says otherwise.
package manifest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/fault"
)

// Brand is a kind of guest.
type Brand string

// The brands.
const (
	KVM           Brand = "kvm"
	Bhyve         Brand = "bhyve"
	MicroVM       Brand = "microvm"
	Joyent        Brand = "joyent"
	JoyentMinimal Brand = "joyent-minimal"
	LX            Brand = "lx"
	Docker        Brand = "docker"
)

// Brands are all brands: first the machines, then the containers.
var Brands = []Brand{KVM, Bhyve, MicroVM, Joyent, JoyentMinimal, LX, Docker}

// Machine reports whether guests of the brand are machines with a kernel of their own.
// All others are containers.
func (b Brand) Machine() bool { return b == KVM || b == Bhyve || b == MicroVM }

// Guest is a guest whose description was checked and completed. Sizes are in MiB unless
// a property says otherwise; 0 in Quota, CPUCap and TmpFS means no limit or none.
type Guest struct {
	UUID     string `json:"uuid"`
	Brand    Brand  `json:"brand"`
	Alias    string `json:"alias,omitzero"`
	Hostname string `json:"hostname,omitzero"`
	Zonename string `json:"zonename,omitzero"`
	Zpool    string `json:"zpool,omitzero"`
	Autoboot bool   `json:"autoboot"`

	ImageUUID string `json:"image_uuid,omitzero"`
	// Image, Driver, Kernel and the like are bakeoff's own: what SmartOS has no word for.
	Image       string            `json:"image,omitzero"`
	Driver      string            `json:"driver,omitzero"` // of Brand.Drivers
	Kernel      string            `json:"kernel,omitzero"`
	KernelArgs  string            `json:"kernel_args,omitzero"`
	Initrd      string            `json:"initrd,omitzero"`
	Command     []string          `json:"command,omitempty"`
	Entrypoint  []string          `json:"entrypoint,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
	User        string            `json:"user,omitzero"`
	Workdir     string            `json:"workdir,omitzero"`
	Ports       []string          `json:"ports,omitempty"`
	Restart     string            `json:"restart,omitzero"`
	Consoles    int               `json:"consoles,omitzero"` // further ones, of machines
	TTY         bool              `json:"tty,omitzero"`      // the program of a container has a terminal

	RAM               int `json:"ram"`
	MaxPhysicalMemory int `json:"max_physical_memory"`
	MaxLockedMemory   int `json:"max_locked_memory"`
	MaxSwap           int `json:"max_swap"`
	TmpFS             int `json:"tmpfs,omitzero"`
	CPUCap            int `json:"cpu_cap,omitzero"` // percent of one CPU
	CPUShares         int `json:"cpu_shares"`
	ZFSIOPriority     int `json:"zfs_io_priority"`
	MaxLWPs           int `json:"max_lwps"`
	VCPUs             int `json:"vcpus,omitzero"`
	Quota             int `json:"quota,omitzero"` // GiB

	NICDriver         string         `json:"nic_driver,omitzero"`
	NICs              []NIC          `json:"nics,omitempty"`
	DiskDriver        string         `json:"disk_driver,omitzero"`
	Disks             []Disk         `json:"disks,omitempty"`
	FlexibleDiskSize  int            `json:"flexible_disk_size,omitzero"`
	Filesystems       []Filesystem   `json:"filesystems,omitempty"`
	Resolvers         []string       `json:"resolvers,omitempty"`
	MaintainResolvers bool           `json:"maintain_resolvers,omitzero"`
	DNSDomain         string         `json:"dns_domain,omitzero"`
	Routes            map[string]any `json:"routes,omitempty"`

	// The values of metadata and tags are strings, booleans and json.Number.
	Tags                       map[string]any `json:"tags,omitempty"`
	CustomerMetadata           map[string]any `json:"customer_metadata,omitempty"`
	InternalMetadata           map[string]any `json:"internal_metadata,omitempty"`
	InternalMetadataNamespaces []string       `json:"internal_metadata_namespaces,omitempty"`

	IndestructibleZoneroot  bool   `json:"indestructible_zoneroot,omitzero"`
	IndestructibleDelegated bool   `json:"indestructible_delegated,omitzero"`
	DelegateDataset         bool   `json:"delegate_dataset,omitzero"`
	FirewallEnabled         bool   `json:"firewall_enabled,omitzero"`
	OwnerUUID               string `json:"owner_uuid,omitzero"`
	BillingID               string `json:"billing_id,omitzero"`
	PackageName             string `json:"package_name,omitzero"`
	PackageVersion          string `json:"package_version,omitzero"`
	KernelVersion           string `json:"kernel_version,omitzero"`

	VNCPort       int    `json:"vnc_port,omitzero"` // 0 is any port, -1 none
	VNCPassword   string `json:"vnc_password,omitzero"`
	Boot          string `json:"boot,omitzero"`
	CPUType       string `json:"cpu_type,omitzero"`
	VGA           string `json:"vga,omitzero"`
	QEMUOpts      string `json:"qemu_opts,omitzero"`
	QEMUExtraOpts string `json:"qemu_extra_opts,omitzero"`
	Bootrom       string `json:"bootrom,omitzero"`
	BhyveOpts     string `json:"bhyve_extra_opts,omitzero"`

	ZFSRootCompression string `json:"zfs_root_compression,omitzero"`
	ZFSDataCompression string `json:"zfs_data_compression,omitzero"`
	ZFSRootRecsize     int    `json:"zfs_root_recsize,omitzero"`
	ZFSDataRecsize     int    `json:"zfs_data_recsize,omitzero"`
}

// NIC is a network interface of a guest.
type NIC struct {
	Interface string   `json:"interface"`
	MAC       string   `json:"mac"` // six pairs of lower-case hexadecimal digits
	NicTag    string   `json:"nic_tag"`
	Model     string   `json:"model,omitzero"`
	MTU       int      `json:"mtu,omitzero"`
	VLAN      int      `json:"vlan_id,omitzero"`
	IPs       []string `json:"ips,omitempty"` // ADDRESS/LENGTH, dhcp or addrconf
	Gateways  []string `json:"gateways,omitempty"`
	Primary   bool     `json:"primary,omitzero"`
	// IP, Netmask and Gateway are the first of IPs and Gateways, in SmartOS's old form.
	IP      string `json:"ip,omitzero"`
	Netmask string `json:"netmask,omitzero"`
	Gateway string `json:"gateway,omitzero"`

	AllowMACSpoofing       bool     `json:"allow_mac_spoofing,omitzero"`
	AllowRestrictedTraffic bool     `json:"allow_restricted_traffic,omitzero"`
	AllowIPSpoofing        bool     `json:"allow_ip_spoofing,omitzero"`
	AllowDHCPSpoofing      bool     `json:"allow_dhcp_spoofing,omitzero"`
	AllowUnfilteredPromisc bool     `json:"allow_unfiltered_promisc,omitzero"`
	DHCPServer             bool     `json:"dhcp_server,omitzero"`
	AllowedIPs             []string `json:"allowed_ips,omitempty"` // addresses and prefixes
	AllowedDHCPCIDs        []string `json:"allowed_dhcp_cids,omitempty"`
	BlockedOutgoingPorts   []int    `json:"blocked_outgoing_ports,omitempty"`
	VRRPVRID               int      `json:"vrrp_vrid,omitzero"`
	VRRPPrimaryIP          string   `json:"vrrp_primary_ip,omitzero"`
	NetworkUUID            string   `json:"network_uuid,omitzero"`
}

// Disk is a disk of a machine.
type Disk struct {
	Path           string `json:"path,omitzero"`
	NoCreate       bool   `json:"nocreate,omitzero"`
	Size           int    `json:"size,omitzero"`
	ImageUUID      string `json:"image_uuid,omitzero"`
	Image          string `json:"image,omitzero"` // bakeoff's own: an image of the store, or a file
	ImageSize      int    `json:"image_size,omitzero"`
	ImageName      string `json:"image_name,omitzero"`
	Boot           bool   `json:"boot,omitzero"`
	Media          string `json:"media"` // disk or cdrom
	Model          string `json:"model,omitzero"`
	BlockSize      int    `json:"block_size,omitzero"`
	GuestBlockSize string `json:"guest_block_size,omitzero"`
	Compression    string `json:"compression,omitzero"`
	Refreservation int    `json:"refreservation,omitzero"`
	UUID           string `json:"uuid,omitzero"`
	PCISlot        string `json:"pci_slot,omitzero"`
	NoTrim         bool   `json:"notrim,omitzero"`
	Zpool          string `json:"zpool,omitzero"`
}

// The types of file systems of machines. Those of containers are lofs and bind, which are the
// same.
const (
	Plan9 = "9p"
	NFS   = "nfs"
)

// Filesystem is a folder of the host that a guest sees.
type Filesystem struct {
	Source  string   `json:"source"`
	Target  string   `json:"target"`
	Type    string   `json:"type"`
	Options []string `json:"options,omitempty"`
	Raw     string   `json:"raw,omitzero"`
}

// Problem is one mistake, or one remark.
type Problem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Path    string `json:"path"`            // nics.0.ip; "" is the whole guest
	Value   string `json:"value,omitempty"` // as it was written, in JSON's form
	Reason  string `json:"reason"`
	Allowed string `json:"allowed,omitempty"` // what to write instead
}

// String returns "file:line:column: path: value: reason; allowed".
func (p Problem) String() string {
	var b strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&b, "%s:%d:%d: ", p.File, p.Line, p.Column)
	}
	for _, part := range []string{p.Path, p.Value} {
		if part != "" {
			b.WriteString(part + ": ")
		}
	}
	b.WriteString(p.Reason)
	if p.Allowed != "" {
		b.WriteString("; " + p.Allowed)
	}
	return b.String()
}

// Problems is everything that is wrong with a file, in the order of the places.
type Problems []Problem

// Error returns one problem per line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, x := range p {
		lines[i] = x.String()
	}
	return strings.Join(lines, "\n")
}

// When is the moment at which a change takes effect.
type When string

// The moments, from the earliest.
const (
	Live     When = "live"      // at once
	NextBoot When = "next boot" // when the guest starts again
	Stopped  When = "stopped"   // only while the guest is stopped
	Never    When = "never"     // never: the property is fixed at creation
)

// Change is one property that an update changes. Old or New is nil if the property is
// absent before or after.
type Change struct {
	Path string `json:"path"`
	Old  any    `json:"old,omitempty"`
	New  any    `json:"new,omitempty"`
	When When   `json:"when"`
}

// String returns "path: old -> new (when)".
func (c Change) String() string {
	side := func(v any) string {
		if v == nil {
			return "(none)"
		}
		return jsonText(v)
	}
	return fmt.Sprintf("%s: %s -> %s (%s)", c.Path, side(c.Old), side(c.New), c.When)
}

// Made reports whether bakeoff makes the file of the disk.
func (d Disk) Made() bool { return d.Media != "cdrom" && !d.NoCreate }

// Compare returns what differs between a guest and what it shall become, and refuses changes
// of what is fixed when a guest or a disk is created.
func Compare(old, new Guest) ([]Change, error) {
	changes := Diff(old, new)
	out := checkDisksChange(old, new)
	for _, c := range changes {
		if c.When == Never {
			out = append(out, Problem{Path: c.Path, Value: jsonText(c.New), Reason: "it is fixed when a guest is created",
				Allowed: "create another guest"})
		}
	}
	if len(out) > 0 {
		return changes, fault.Wrap(fault.Invalid, "", out)
	}
	return changes, nil
}

// checkDisksChange refuses changes of what is fixed when a disk is created.
func checkDisksChange(old, new Guest) (out Problems) {
	for i, d := range new.Disks {
		at := slices.IndexFunc(old.Disks, func(o Disk) bool { return o.Path == d.Path })
		if at < 0 || d.Path == "" {
			continue
		}
		o := old.Disks[at]
		add := func(name string, value any, reason, allowed string) {
			out = append(out, Problem{Path: fmt.Sprintf("disks.%d.%s", i, name), Value: jsonText(value), Reason: reason,
				Allowed: allowed})
		}
		for _, c := range [...]struct {
			name     string
			old, new any
		}{{"image", o.Image, d.Image}, {"image_uuid", o.ImageUUID, d.ImageUUID}, {"media", o.Media, d.Media},
			{"nocreate", o.NoCreate, d.NoCreate}, {"block_size", o.BlockSize, d.BlockSize}} {
			if c.old != c.new {
				add(c.name, c.new, "it is fixed when a disk is created", "remove the disk and add another one")
			}
		}
		switch {
		case d.Size == o.Size:
		case !d.Made():
			add("size", d.Size, "bakeoff did not make the disk", "change the size of the file yourself")
		case new.Brand == KVM:
			add("size", d.Size, "disks of brand kvm keep their size", "add another disk, or use brand bhyve")
		case d.Size < o.Size:
			add("size", d.Size, fmt.Sprintf("bakeoff cannot make a disk smaller, and this one has %d", o.Size),
				"write a larger size, or add another disk")
		}
	}
	return out
}

func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
