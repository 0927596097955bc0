package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/unit"
	"bakeoff/base/yamltree"
	"bakeoff/prepare/install/spec"
)

const gib = 1 << 30

// minPool is the least room that is left for the pool.
const minPool = 8 * gib

// refusals collects the reasons why a target is refused, each with what to do.
type refusals []error

func (r *refusals) add(fix, format string, args ...any) {
	*r = append(*r, fault.WithFix(fault.New(fault.Invalid, format, args...), fix))
}

// admit finds the disks and the size of the swap in GiB, or says why the target is
// refused: all reasons at once.
func admit(s *spec.Spec, t Target) ([]Disk, int64, error) {
	var all refusals
	swap := int64(s.SwapGiB)
	if swap == 0 {
		swap = (t.RAM+t.RAM/8)/gib + 1
	}
	if s.Secrets.Swap == "" {
		swap = 0
	}
	all.machine(s, t, swap)
	var disks []Disk
	for _, name := range []string{s.Disk, s.MirrorDisk} {
		if name == "" {
			continue
		}
		i := slices.IndexFunc(t.Disks, func(d Disk) bool {
			return d.ByID == name || d.Path == name || slices.Contains(d.links, name)
		})
		if i < 0 {
			known := lists.Map(t.Disks, func(d Disk) string { return cmp.Or(d.ByID, d.Path) })
			fix := "use " + yamltree.OneOf(known) + ", or probe the target again"
			if len(known) == 0 {
				fix = "run bakeoff install probe on the target, as root"
			}
			all.add(fix, "the target has no disk %s", name)
			continue
		}
		d := t.Disks[i]
		d.ByID = name
		all.disk(s, d, swap)
		disks = append(disks, d)
	}
	if len(disks) == 2 {
		all.mirror(disks[0], disks[1])
	}
	all.namesakes(s, t, disks)
	return disks, swap, errors.Join(all...)
}

// mirror refuses two disks that are one, or that one pool cannot use alike.
func (r *refusals) mirror(a, b Disk) {
	if a.Path == b.Path || a.Serial == b.Serial && a.Serial != "" {
		r.add("choose another disk", "disk and mirror_disk are the same disk %s, serial number %s", a.Path, a.Serial)
	}
	if a.Logical != b.Logical {
		r.add("choose disks with sectors of one size", "%s has sectors of %d bytes, and %s of %d", a.Path, a.Logical,
			b.Path, b.Logical)
	}
}

// namesakes refuses other disks that have a pool of the same name: the new system imports its pool by this name.
func (r *refusals) namesakes(s *spec.Spec, t Target, disks []Disk) {
	for _, l := range t.Labels {
		ours := l.Pool == poolName(s) || l.Pool == bootPool && usesGRUB(s)
		written := slices.ContainsFunc(disks, func(d Disk) bool { return d.Path == l.Disk })
		if !ours || written || strings.HasPrefix(l.Disk, "/dev/loop") {
			continue
		}
		what := "may find the wrong one, or none"
		if s.Recipe == "netbsd-zfs" {
			what = "imports any pool of this name by force"
		}
		fix := "detach that disk, or, if no hibernated system uses that pool, give it another name: " +
			"zpool import -N GUID other; zpool export other" // LUKS hides an image
		if len(t.Images) > 0 {
			fix = "detach that disk; do not import that pool: " + strings.Join(t.Images, ", ") + " holds the image of a " +
				"hibernated system, which damages the pool if it resumes after an import"
		}
		r.add(fix, "%s has another pool called %s: the new system %s", l.Device, l.Pool, what)
	}
}

// machine refuses a machine on which the system would not start or resume.
func (r *refusals) machine(s *spec.Spec, t Target, swapGiB int64) {
	if t.unknown("zpool") {
		r.add("run bakeoff install probe on the target, as root; if zpool fails there, load the module of ZFS",
			"the facts do not say which pools are imported")
	}
	for _, name := range []string{poolName(s), bootPool} {
		if slices.Contains(t.Pools, name) && (name == poolName(s) || s.Recipe == "debian-zfs") {
			r.add("export it, or restart the rescue system", "a pool called %s is imported already", name)
		}
	}
	r.secureBoot(s, t)
	r.modules(s)
	if arch := t.Arch; arch != "" && arch != "amd64" && !strings.HasPrefix(arch, "x86_64") {
		r.add("choose an x86_64 machine, and start a 64-bit installation medium there",
			"the target is a machine of the architecture %s, and the recipe installs a system for x86_64", arch)
	}
	netbsd, unknown := s.Recipe == "netbsd-zfs", t.unknown("firmware.mode")
	switch {
	case unknown && !netbsd:
		r.add("run bakeoff install probe on the target", "the facts do not say whether the target was started by UEFI")
	case !unknown && !t.EFI:
		r.add("start its installation medium by UEFI; to plan for another machine, add --host user@host, or "+
			"--facts FILE with what `bakeoff install probe` prints there", "the target was not started by UEFI")
	}
	if netbsd {
		return
	}
	// zpool create would refuse the set, and zpool set the property, after the disk was wiped.
	if older(t.ZFS, s.FeatureSetSince()) {
		r.add("start a rescue system with a newer OpenZFS, or choose a smaller set by pool.compatibility",
			"the rescue system has OpenZFS %s, which does not know the features of %s", t.ZFS, s.FeatureSet())
	}
	if s.Hibernate && s.Bootloader.File != "" && older(t.ZFS, "2.2") {
		r.add("start a rescue system with OpenZFS 2.2 or later, or leave hibernate out", "the rescue system has OpenZFS %s, "+
			"which cannot set the property of the pool that keeps ZFSBootMenu from writing to it", t.ZFS)
	}
	if t.RAM <= 0 {
		r.add("run bakeoff install probe again", "the facts do not say how much RAM the target has")
	}
	if len(s.Bootloader.SSHKeys) > 0 && !t.EFIVars {
		r.add("start a rescue system in which efibootmgr works, or leave zfsbootmenu.ssh_keys out",
			"the target is not known to have EFI variables, and the image of ZFSBootMenu that has ssh_keys starts only by a "+
				"boot entry")
	}
	// The header of LUKS1 takes 2 MiB of the partition.
	if s.Hibernate && swapGiB*gib-2<<20 <= t.RAM {
		r.add(
			"raise swap_gib, or leave it out",
			"swap of %d GiB does not exceed the RAM: hibernation would fail",
			swapGiB,
		)
	}
	if s.Hibernate && s.Release == "bookworm" && s.Bootloader.File != "" {
		r.add("use release trixie, or leave zfsbootmenu or hibernate out",
			"OpenZFS 2.1 of Debian 12 has no property that keeps "+
				"ZFSBootMenu from writing to a pool that a hibernated system holds")
	}
}

// secureBoot refuses a firmware that would not start the system, with what the kernel would refuse after it.
func (r *refusals) secureBoot(s *spec.Spec, t Target) {
	if t.SecureBoot == nil || !*t.SecureBoot {
		return
	}
	why := "Secure Boot is on: bakeoff signs no boot loader"
	switch {
	case s.Recipe == "netbsd-zfs":
	case t.MOK == nil:
		why += "; the kernel forbids hibernation, and the modules of ZFS unless their key is enrolled"
	case len(t.MOK) == 0:
		why += "; the kernel forbids hibernation, and the modules of ZFS: no key of the machine owner is enrolled"
	default:
		why += fmt.Sprintf("; the kernel forbids hibernation, and the modules of ZFS, which the new system signs with "+
			"another key than those that are enrolled (%s)", strings.Join(t.MOK, ", "))
	}
	r.add("switch Secure Boot off in the firmware", "%s", why)
}

// disk refuses a disk whose content is in use, unknown, or not named for destruction.
func (r *refusals) disk(s *spec.Spec, d Disk, swapGiB int64) {
	if d.Serial == "" {
		r.add("choose a disk with a serial number",
			"%s has no serial number, so bakeoff could not recognize it later", d.Path)
	}
	if !d.Known {
		r.add("run bakeoff install probe on the target, as root",
			"the facts do not say what %s holds and what uses it", d.Path)
	}
	if d.System {
		r.add("choose another disk, or start a rescue system", "%s holds the running system", d.Path)
	}
	for _, u := range d.Users {
		r.add("stop this use first", "%s is in use: %s", d.Path, u)
	}
	for _, g := range d.Signatures {
		switch {
		case slices.Contains(s.Destroy, g):
		case g == "swsuspend":
			r.add("resume that system and shut it down, or add swsuspend to destroy",
				"%s holds the image of a hibernated system (swsuspend)", d.Path)
		default:
			r.add("add it to destroy if bakeoff may destroy it", "%s holds %s, which destroy does not name", d.Path, g)
		}
	}
	for _, m := range d.missing {
		if m.signature == "" || !slices.Contains(s.Destroy, m.signature) {
			r.add("run bakeoff install probe on the target, as root", "the facts contradict each other: %s %s", d.Path,
				m.problem)
		}
	}
	for _, p := range d.Parts {
		if s.Recipe != "netbsd-zfs" && slices.Contains(d.Signatures, "zfs_member") && d.partBytes[p] == 0 {
			r.add("run bakeoff install probe on the target, as root",
				"the facts do not say how large %s is, so the labels of an old pool at its end cannot be removed", p)
		}
	}
	if d.Logical == 0 || d.Size == 0 {
		r.add("run bakeoff install probe on the target, as root",
			"the facts do not say how large %s and its sectors are", d.Path)
		return
	}
	if d.Logical != 512 && d.Logical != 4096 {
		r.add("choose another disk", "%s has sectors of %d bytes; bakeoff supports only 512 and 4096", d.Path, d.Logical)
	}
	least := swapGiB*gib + max(gib, espMiB(s)<<20) + minPool
	if usesGRUB(s) {
		least += bootGiB * gib
	}
	if d.Size < least {
		what := "a pool of 8 GiB"
		if swapGiB > 0 {
			what = fmt.Sprintf("%d GiB of swap and %s", swapGiB, what)
		}
		r.add("choose a larger disk", "%s is too small for %s", d.Path, what)
		return
	}
	r.reserved(s, d, d.Size-least+minPool)
}

// reserved refuses reservations that zfs create would refuse after the disk was wiped. room is what the pool gets at
// most.
func (r *refusals) reserved(s *spec.Spec, d Disk, room int64) {
	all := append([]spec.Dataset{{Name: "the pool", Properties: s.Pool.Properties}}, s.Datasets...)
	for _, set := range all {
		for _, name := range []string{"reservation", "refreservation"} {
			value := set.Properties[name]
			if n, ok := spec.Bytes(value); ok && n > float64(room) {
				r.add("choose a smaller one", "the %s of %s is %s, and the pool on %s gets only %s", name, set.Name, value,
					d.Path, unit.Bytes(room>>30<<30))
			}
		}
	}
}

// older reports whether a version of OpenZFS is known and before another one; a version may be
// followed by other text.
func older(version, than string) bool {
	var a, b [2]int
	_, aerr := fmt.Sscanf(version, "%d.%d", &a[0], &a[1])
	_, berr := fmt.Sscanf(than, "%d.%d", &b[0], &b[1])
	return aerr == nil && berr == nil && slices.Compare(a[:], b[:]) < 0
}

// poolName is the pool that a recipe makes.
func poolName(s *spec.Spec) string {
	if s.Recipe == "netbsd-zfs" {
		return "rpool"
	}
	return "zroot"
}
