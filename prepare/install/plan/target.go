package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/base/lists"
	"bakeoff/prepare/install/installed"
)

// zfsVersion finds the version in what zfs version prints, such as zfs-2.1.5-1ubuntu6.
var zfsVersion = lazy.Compile(`[0-9]+(\.[0-9]+)+`)

// Target is what a plan needs to know of the machine that gets the system.
type Target struct {
	RAM        int64    `json:"ram"` // bytes, in whole GiB: the kernel reports less than there is
	EFI        bool     `json:"efi"`
	EFIVars    bool     `json:"efivars"` // boot entries can be written
	SecureBoot *bool    `json:"secure_boot"`
	Pools      []string `json:"pools"` // those that are imported
	Arch       string   `json:"-"`     // as uname -m prints it, "" is unknown; it changes no identity
	ZFS        string   `json:"-"`     // version of OpenZFS there, "" is unknown; it changes no identity
	Disks      []Disk   `json:"disks"`
	Labels     []Label  `json:"-"` // those of pools that blkid finds; they change no identity
	// Images are the devices with the image of a hibernated system. They change no identity.
	Images []string `json:"-"`
	// MOK are the names of the enrolled keys of the machine owner; nil is unknown. It changes no identity.
	MOK []string `json:"-"`
	// Unknown are the facts that nobody knows, by their names in the facts: zpool, blkid, firmware.mode,
	// firmware.efivars. They change no identity.
	Unknown []string `json:"-"`
}

// Label is a label of a pool on a partition, or on a disk.
type Label struct{ Device, Disk, Pool string }

// Disk is a disk of the target. Users are what uses it or a part of it
// ("mounted on /", "swap", "pool tank"), Signatures what wipefs finds on it.
type Disk struct {
	Path       string           `json:"path"`
	ByID       string           `json:"by_id"`
	Serial     string           `json:"serial"`
	Size       int64            `json:"size"`    // bytes
	Logical    int64            `json:"logical"` // bytes in a sector
	Known      bool             `json:"known"`   // the next four were looked for
	System     bool             `json:"system,omitempty"`
	Users      []string         `json:"users,omitempty"`
	Signatures []string         `json:"signatures,omitempty"`
	Parts      []string         `json:"parts,omitempty"` // its partitions, which go
	partBytes  map[string]int64 // sizes of Parts; 0 is unknown
	missing    []missing
	links      []string // other names below /dev/disk/by-id
}

// missing is a use of a disk, or a signature on it, that other facts show and those of the disk lack.
type missing struct {
	signature string // "" of a use
	problem   string
}

func (t Target) unknown(fact string) bool { return slices.Contains(t.Unknown, fact) }

// TargetOf reads facts.
func TargetOf(s installed.System) Target {
	t := Target{RAM: (s.RAMBytes + gib - 1) / gib * gib, EFI: s.Firmware.Mode == "uefi",
		EFIVars: s.Firmware.EFIVars != nil && *s.Firmware.EFIVars, SecureBoot: s.Firmware.SecureBoot, Arch: s.OS.Arch,
		ZFS: zfsVersion.FindString(s.Tools["zfs"])}
	for _, fact := range []struct {
		name  string
		known bool
	}{{"zpool", s.Pools != nil}, {"blkid", s.Blkid != nil}, {"firmware.mode", s.Firmware.Mode != ""},
		{"firmware.efivars", s.Firmware.EFIVars != nil}} {
		if !fact.known {
			t.Unknown = append(t.Unknown, fact.name)
		}
	}
	for name := range s.Pools {
		t.Pools = append(t.Pools, name)
	}
	slices.Sort(t.Pools)
	if s.Firmware.MOK != nil {
		t.MOK = lists.Map(s.Firmware.MOK, func(c installed.Certificate) string { return c.Subject })
	}
	for _, d := range s.Disks {
		to := Disk{Path: "/dev/" + d.Name, Serial: d.Serial, Size: d.Size, Logical: d.Logical, Users: d.Users,
			Signatures: d.Signatures, Known: d.System != nil && d.Users != nil && d.Signatures != nil && d.Partitions != nil,
			partBytes: map[string]int64{}, missing: missingFacts(s, d)}
		if d.ByID != "" {
			to.ByID = installed.LinkFolder + strings.TrimPrefix(d.ByID, installed.LinkFolder)
		}
		to.links = lists.Map(d.Links, func(name string) string { return installed.LinkFolder + name })
		if strings.HasPrefix(d.Name, "loop") {
			to.ByID = to.Path
		}
		to.System = d.System != nil && *d.System
		for _, p := range d.Partitions {
			to.Parts = append(to.Parts, p.Device)
			to.partBytes[p.Device] = p.Size
		}
		t.Disks = append(t.Disks, to)
		for _, dev := range append([]string{to.Path}, to.Parts...) {
			if b := s.Blkid[dev]; b["TYPE"] == "zfs_member" && b["LABEL"] != "" {
				t.Labels = append(t.Labels, Label{dev, to.Path, b["LABEL"]})
			}
		}
	}
	for _, dev := range slices.Sorted(maps.Keys(s.Blkid)) {
		if s.Blkid[dev]["TYPE"] == "swsuspend" {
			t.Images = append(t.Images, dev)
		}
	}
	return t
}

// missingFacts compares the users and the signatures of a disk with what other facts show of it.
func missingFacts(s installed.System, d installed.Disk) (all []missing) {
	use := func(dev, format string, args ...any) {
		if d.Users != nil && len(d.Users) == 0 && d.Has(dev) {
			all = append(all, missing{"", "has no users, but " + fmt.Sprintf(format, args...)})
		}
	}
	for _, m := range s.Mounts {
		if strings.HasPrefix(m.Source, "/dev/") { // others are datasets, and file systems of the kernel
			use(m.Source, "mounts shows %s on %s", m.Source, m.Target)
		}
	}
	for _, w := range s.Swaps {
		use(w.Device, "swaps shows %s", w.Device)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Pools)) {
		for _, v := range s.Pools[name].VDevs {
			use(v, "zpool shows %s in the pool %s", v, name)
		}
	}
	for _, dev := range slices.Sorted(maps.Keys(s.Blkid)) {
		kind := s.Blkid[dev]["TYPE"]
		known := slices.Contains(d.Signatures, kind) ||
			kind == "zfs_member" && slices.Contains(d.Signatures, "zfs") // as NetBSD calls it
		if d.Signatures != nil && kind != "" && !known && d.Has(dev) {
			all = append(all, missing{kind, fmt.Sprintf("has no signature %s, but blkid shows it on %s", kind, dev)})
		}
	}
	return all
}
