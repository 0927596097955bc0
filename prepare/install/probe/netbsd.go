package probe

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/prepare/install/installed"
	"bakeoff/reach/conn"
)

// netbsd reports whether the machine runs NetBSD.
func (m machine) netbsd() bool { return strings.TrimSpace(m.run("uname", "-s")) == "NetBSD" }

var (
	bsdName   = lazy.Compile(`^(wd|sd|ld)[0-9]+$`)
	bsdSerial = lazy.Compile(`Serial #: *([^\s,]+)`)
	tableGUID = lazy.Compile(`(?m)Pri GPT header - ([0-9a-fA-F-]{36})`)
	gptPart   = lazy.Compile(`GPT part - (.*)`)
	wedgeLine = lazy.Compile(`(?m)^(dk[0-9]+): .* type: (\S+)`)
)

// readNetBSD reads what plan needs to know of a machine that runs NetBSD.
func (m machine) readNetBSD(s *installed.System) {
	s.OS = installed.OS{ID: "netbsd", Version: strings.TrimSpace(m.run("uname", "-r")),
		Arch: map[string]string{"amd64": "x86_64", "evbarm": "aarch64"}[strings.TrimSpace(m.run("uname", "-m"))], Init: "rc"}
	if n, err := strconv.ParseInt(strings.TrimSpace(m.run("sysctl", "-n", "hw.physmem64")), 10, 64); err == nil && n > 0 {
		s.RAMBytes = n
	}
	switch strings.TrimSpace(m.run("sysctl", "-n", "machdep.bootmethod")) {
	case "UEFI":
		s.Firmware.Mode = "uefi"
	case "BIOS":
		s.Firmware.Mode = "bios"
	}
	s.Pools, s.Datasets, s.Snapshots = m.pools()
	if out, ok := m.output("mount"); ok {
		s.Mounts = bsdMounts(out)
	}
	s.Files = m.configuration(nil)
	names, ok := m.output("sysctl", "-n", "hw.disknames")
	if !ok {
		return
	}
	s.Disks, s.Blkid = []installed.Disk{}, map[string]map[string]string{}
	for _, name := range strings.Fields(names) {
		if d, ok := m.bsdDisk(name); ok {
			s.Disks = append(s.Disks, d)
		}
		for _, f := range wedgeLine.FindAllStringSubmatch(m.run("dkctl", name, "listwedges"), -1) {
			if f[2] != "zfs" {
				continue
			}
			if l := labelOf(m.run("zdb", "-l", "/dev/"+f[1])); l["name"] != "" {
				s.Blkid["/dev/"+f[1]] = map[string]string{"TYPE": "zfs_member", "LABEL": l["name"], "UUID": l["pool_guid"]}
			}
		}
	}
}

var mountLine = lazy.Compile(`^(\S+) on (.+) type (\S+)`)

// bsdMounts reads the output of mount, without the kernel's own file systems.
func bsdMounts(text string) []installed.Mount {
	all := []installed.Mount{}
	for line := range strings.Lines(text) {
		f := mountLine.FindStringSubmatch(line)
		if f != nil && (strings.HasPrefix(f[1], "/") || f[3] == "zfs") {
			all = append(all, installed.Mount{Source: f[1], Target: f[2], Type: f[3]})
		}
	}
	return all
}

// bsdDisk reads a disk of NetBSD. Only ATA disks say their serial number.
func (m machine) bsdDisk(name string) (d installed.Disk, ok bool) {
	if !bsdName.MatchString(name) {
		return d, false
	}
	geometry := func(key string) int64 {
		n, err := strconv.ParseInt(strings.TrimSpace(m.run("drvctl", "-p", name, "disk-info/geometry/"+key)), 10, 64)
		if err != nil || n <= 0 || n > 1<<50 {
			return 0
		}
		return n
	}
	d = installed.Disk{Name: name, Logical: geometry("sector-size")}
	d.Size = d.Logical * geometry("sectors-per-unit")
	if d.Size <= 0 {
		return d, false
	}
	if f := bsdSerial.FindStringSubmatch(m.run("atactl", name, "identify")); f != nil {
		d.Serial = f[1]
	}
	wedges, haveWedges := m.output("dkctl", name, "listwedges")
	parts := map[string]string{} // the types of the wedges, by name
	for _, f := range wedgeLine.FindAllStringSubmatch(wedges, -1) {
		parts[f[1]] = f[2]
	}
	if haveWedges {
		d.Partitions = []installed.Partition{}
		for _, name := range slices.Sorted(maps.Keys(parts)) {
			d.Partitions = append(d.Partitions, installed.Partition{Device: "/dev/" + name})
		}
	}
	mounted, haveMounts := m.output("mount")
	swaps, haveSwaps := m.output("swapctl", "-l")
	pools, havePools := m.output("zpool", "list", "-Hv", "-o", "name")
	if haveWedges && haveMounts && haveSwaps && (havePools || m.withoutZFS()) {
		d.Users = bsdUsers(name, parts, mounted, swaps, pools)
		system := slices.Contains(d.Users, "mounted on /")
		d.System = &system
	}
	if table, ok := m.output("gpt", "show", name); ok && haveWedges {
		d.Signatures = bsdSignatures(table, parts)
	}
	return d, true
}

// bsdUsers says what a disk and its wedges are used for.
func bsdUsers(name string, parts map[string]string, mounted, swaps, pools string) []string {
	all := []string{}
	ours := func(device string) bool {
		device = strings.TrimPrefix(device, "/dev/")
		_, wedge := parts[device]
		return wedge || device == name || len(device) == len(name)+1 && strings.HasPrefix(device, name) &&
			device[len(name)] >= 'a' && device[len(name)] <= 'p' // wd0a
	}
	for line := range strings.Lines(mounted) {
		if f := strings.Fields(line); len(f) > 2 && f[1] == "on" && ours(f[0]) {
			all = append(all, "mounted on "+f[2])
		}
	}
	for line := range strings.Lines(swaps) {
		if f := strings.Fields(line); len(f) > 0 && ours(f[0]) {
			all = append(all, "swap on "+f[0])
		}
	}
	pool := ""
	for line := range strings.Lines(pools) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case line[0] != '\t' && line[0] != ' ':
			pool = f[0]
		case ours(f[0]):
			all = append(all, "pool "+pool)
		}
	}
	return all
}

// bsdSignatures reads gpt show: the tables and the types of the partitions.
func bsdSignatures(table string, parts map[string]string) []string {
	all := []string{}
	for line := range strings.Lines(table) {
		f := gptPart.FindStringSubmatch(line)
		switch {
		case f != nil:
			all = append(all, "partition "+strings.TrimSpace(f[1]))
		case strings.Contains(line, "GPT header"):
			all = append(all, "gpt")
		case strings.HasPrefix(line, "GPT not found"):
		case strings.Contains(line, "PMBR"):
			all = append(all, "PMBR")
		case strings.Contains(line, "MBR"):
			all = append(all, "dos")
		}
	}
	for _, kind := range parts {
		all = append(all, kind)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Table returns the GUID of the partition table of a disk, "" if it has none.
func Table(ctx context.Context, c conn.Conn, disk string) (string, error) {
	m := machine{ctx, c}
	if !m.netbsd() {
		return strings.TrimSpace(m.run("blkid", "-p", "-s", "PTUUID", "-o", "value", disk)), ctx.Err()
	}
	if f := tableGUID.FindStringSubmatch(m.run("gpt", "show", "-g", strings.TrimPrefix(disk, "/dev/"))); f != nil {
		return strings.ToLower(f[1]), ctx.Err()
	}
	return "", ctx.Err()
}
