package lint

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/prepare/install/installed"
)

// tagOf returns the tag and the value of UUID=… and its like, and of the link below /dev/disk that means
// the same. The tag of another path is "".
func tagOf(source string) (tag, value string) {
	if link, ok := strings.CutPrefix(source, "/dev/disk/by-"); ok {
		tag, value, _ = strings.Cut(link, "/")
		tag = strings.ToUpper(tag)
	} else if !strings.HasPrefix(source, "/") && strings.Contains(source, "=") {
		tag, value, _ = strings.Cut(source, "=")
		value = strings.Trim(value, `"`)
	}
	if v, err := strconv.Unquote(`"` + value + `"`); err == nil {
		value = v // udev writes a space as \x20, and fstab as \040
	}
	return tag, value
}

// mappedName finds the name of a device in the identifiers that udev makes of it.
var mappedName = lazy.Compile(`^dm-(?:name|uuid-CRYPT-[A-Z0-9]+-[0-9a-f]{32})-(.+)$`)

// deviceOf returns the device that a source names: a path, a link below /dev/disk, or UUID=… and its like.
// It returns "" if no known device has this name.
func (l *linter) deviceOf(source string) string {
	tag, value := tagOf(source)
	switch tag {
	case "":
		return l.mapperPath(source)
	case "UUID", "LABEL":
		for _, dev := range slices.Sorted(maps.Keys(l.Blkid)) {
			if v := l.Blkid[dev][tag]; v != "" && (v == value || tag == "UUID" && strings.EqualFold(v, value)) {
				return dev
			}
		}
		return ""
	case "ID":
		if m := mappedName.FindStringSubmatch(value); m != nil {
			return "/dev/mapper/" + m[1]
		}
	}
	for _, d := range l.Disks {
		names := d.Names()
		if tag == "ID" && slices.Contains(names, value) {
			return "/dev/" + d.Name
		}
		for _, p := range d.Partitions {
			if tag == "PARTUUID" && p.PartUUID != "" && strings.EqualFold(value, p.PartUUID) ||
				tag == "PARTLABEL" && p.Label != "" && value == p.Label ||
				tag == "ID" && slices.ContainsFunc(names, func(name string) bool {
					return value == fmt.Sprintf("%s-part%d", name, p.Number)
				}) {
				return p.Device
			}
		}
	}
	return ""
}

// mapperPath returns /dev/mapper/GROUP-VOLUME of a volume /dev/GROUP/VOLUME that is known by this name, and
// another path as it is.
func (l *linter) mapperPath(dev string) string {
	if w := strings.Split(dev, "/"); len(w) == 4 {
		mapped := "/dev/mapper/" + strings.ReplaceAll(w[2], "-", "--") + "-" + strings.ReplaceAll(w[3], "-", "--")
		if _, ok := l.Blkid[mapped]; ok ||
			slices.ContainsFunc(l.Swaps, func(s installed.Swap) bool { return s.Device == mapped }) {
			return mapped
		}
	}
	return dev
}

// absent reports whether a source such as UUID=… names what no device has. All devices must be known.
func (l *linter) absent(source string) bool {
	if l.deviceOf(source) != "" {
		return false
	}
	switch tag, _ := tagOf(source); tag {
	case "UUID":
		return l.knowsUUIDs()
	case "LABEL":
		// blkid may have been asked for other things.
		return l.knowsUUIDs() && slices.ContainsFunc(slices.Collect(maps.Values(l.Blkid)),
			func(b map[string]string) bool { return b["LABEL"] != "" && b["TYPE"] != "zfs_member" })
	case "PARTUUID":
		return l.knowsPartitions()
	}
	return false
}

// differ reports whether two sources are known to name different devices.
func (l *linter) differ(a, b string) bool {
	x, y := l.deviceOf(a), l.deviceOf(b)
	return x != "" && y != "" && x != y || l.absent(a) && y != "" || l.absent(b) && x != ""
}

// withUUID are the types of partitions whose content has a UUID: swap, LUKS and a file system of Linux.
var withUUID = []string{"0657FD6D-A4AB-43C4-84E5-0933C84B4F4F", "CA7D7CCB-63ED-4C53-861C-1742536059CC",
	"0FC63DAF-8483-4772-8E79-3D69D8477DE4"}

// knowsUUIDs reports whether the UUID of each device with content is known.
func (l *linter) knowsUUIDs() bool {
	for _, b := range l.Blkid {
		if b["TYPE"] == "" || b["UUID"] == "" && b["TYPE"] != "zfs_member" {
			return false
		}
	}
	unread := func(dev string) bool { return strings.HasPrefix(dev, "/dev/") && l.Blkid[dev] == nil }
	return len(l.Blkid) > 0 && !slices.ContainsFunc(l.allPartitions(), func(p installed.Partition) bool {
		return unread(p.Device) && slices.Contains(withUUID, strings.ToUpper(p.Type))
	}) && !slices.ContainsFunc(l.Mounts, func(m installed.Mount) bool { return unread(m.Source) }) &&
		!slices.ContainsFunc(l.diskSwaps(), func(s installed.Swap) bool { return unread(s.Device) })
}

// knowsPartitions reports whether the partitions of all disks are known by their identifiers.
func (l *linter) knowsPartitions() bool {
	return len(l.Disks) > 0 && !slices.ContainsFunc(l.Disks, withoutTable) &&
		!slices.ContainsFunc(l.allPartitions(), func(p installed.Partition) bool { return p.PartUUID == "" })
}

// hasUUID reports whether a device of a type has a UUID.
func (l *linter) hasUUID(kind, uuid string) bool {
	for _, b := range l.Blkid {
		if (kind == "" || b["TYPE"] == kind) && strings.EqualFold(b["UUID"], uuid) {
			return true
		}
	}
	return false
}

// hasType reports whether blkid knows a device of a type.
func (l *linter) hasType(kind string) bool {
	for _, b := range l.Blkid {
		if b["TYPE"] == kind {
			return true
		}
	}
	return false
}

// withoutTable reports whether the partitions of a disk are not known.
func withoutTable(d installed.Disk) bool { return d.Partitions == nil }

func (l *linter) allPartitions() (out []installed.Partition) {
	for _, d := range l.Disks {
		out = append(out, d.Partitions...)
	}
	return out
}

var unstable = lazy.Compile(`^/dev/(x?vd|[sh]d)[a-z]+[0-9]*$|^/dev/(nvme|mmcblk|dm-)[0-9]`)

// unstableName reports whether a device is named by the order in which the kernel found it.
func unstableName(dev string) bool {
	return unstable.MatchString(dev)
}

// stableName returns a name of a device that does not change with the order of the disks, if one is known.
func (l *linter) stableName(dev string) string {
	p, _, _ := l.Partition(dev)
	switch uuid := l.Blkid[dev]["UUID"]; {
	case !unstableName(dev):
		return dev
	case uuid != "":
		return "UUID=" + uuid
	case p.PartUUID != "":
		return "PARTUUID=" + p.PartUUID
	}
	return dev
}
