package lint

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/base/shell"
	"bakeoff/base/unit"
	"bakeoff/prepare/install/installed"
)

// checkFirmware checks Secure Boot, and the memory of the firmware.
func (l *linter) checkFirmware() {
	if n := l.Firmware.Dumps; n > 0 {
		l.report("firmware-dumps", Warning, "firmware", fmt.Sprintf("Kernel messages (dump-type0-*) take %s of the memory "+
			"of the firmware: when it is full, efibootmgr cannot write an entry (No space left on device).",
			unit.Count(n, "dump")), "Read them below /sys/fs/pstore, then remove the files there.")
	}
	if !isSet(l.Firmware.SecureBoot) {
		return
	}
	var why []string
	if l.menu && isUnset(l.ZBM.Signed) {
		why = append(why, "ZFSBootMenu is not signed, so the firmware refuses it")
	}
	if l.Hibernation {
		why = append(why, "the kernel in lockdown does not hibernate")
	}
	if w := l.moduleRefused(); w != "" {
		why = append(why, w)
	}
	if len(why) > 0 {
		l.report("secure-boot", Error, "firmware", "Secure Boot is on: "+strings.Join(why, ", and ")+".",
			"Turn Secure Boot off in the firmware, or sign what the firmware checks and enroll the key (mokutil --import "+
				"/var/lib/dkms/mok.pub for the modules of dkms).")
	}
}

// vendorKey is a certificate that came with shim.
var vendorKey = lazy.Compile(`(?i)secure boot|certificate authority`)

// moduleRefused says why a kernel under Secure Boot does not load its ZFS module, "" if it may.
func (l *linter) moduleRefused() string {
	dkms := l.Packages["zfs-dkms"] != "" // else the distribution may have signed it with a key of the kernel
	unknown := len(l.Kernels) == 0
	for _, k := range l.Kernels {
		switch {
		case k.ZFSModuleKey == nil:
			unknown = unknown || !isUnset(k.ZFSModule)
		case *k.ZFSModuleKey == "":
			return "the ZFS module of Linux " + k.Version + " is not signed, so the kernel does not load it"
		case dkms && l.Firmware.MOK != nil && !slices.ContainsFunc(l.Firmware.MOK, func(c installed.Certificate) bool {
			return c.Serial == "" || strings.EqualFold(c.Serial, *k.ZFSModuleKey)
		}):
			return "the ZFS module of Linux " + k.Version + " is signed with the key " + *k.ZFSModuleKey +
				", which is not enrolled, so the kernel does not load it"
		}
	}
	switch {
	case !dkms || !unknown:
		return ""
	case l.Firmware.MOK == nil:
		return "the kernel loads the module that dkms built only if its key is enrolled"
	case !slices.ContainsFunc(l.Firmware.MOK, func(c installed.Certificate) bool {
		return !vendorKey.MatchString(c.Subject)
	}):
		return "no key of the machine owner is enrolled, so the kernel does not load the module that dkms built"
	}
	return ""
}

// path returns the path of a loader on its ESP.
func loaderPath(loader string) string {
	return strings.TrimPrefix(strings.ReplaceAll(loader, `\`, "/"), "/")
}

// hasFile reports whether a FAT filesystem has a file.
func hasFile(files map[string]string, name string) bool {
	for f := range files {
		if strings.EqualFold(strings.TrimPrefix(f, "/"), name) {
			return true
		}
	}
	return false
}

// checkEntries checks the boot entries of the firmware.
func (l *linter) checkEntries() {
	const where = "efibootmgr"
	if l.EFI == nil {
		return
	}
	l.checkStub()
	order := map[string]bool{}
	for _, n := range l.EFI.Order {
		if order[n] {
			l.report("boot-order-doubled", Info, where, "BootOrder has "+n+" more than once; only the first has an effect.",
				"efibootmgr --remove-dups")
			break
		}
		order[n] = true
	}
	var idle []installed.EFIEntry
	tried := false            // the firmware may try an entry of this system
	unplaced := false         // an entry may start from any disk
	ours := map[string]bool{} // the partitions from which the firmware may start
	var lost, fileless byPartition
	for _, e := range l.withoutDoubles() {
		if e.Loader == "" || e.PartUUID == "" {
			unplaced = unplaced || e.Loader != "" || e.Number == ""
			if e.PartUUID != "" && !l.isIdle(e) { // by the fallback path
				ours[strings.ToLower(e.PartUUID)] = true
				tried = true
			}
			continue
		}
		if l.knowsPartitions() && !slices.ContainsFunc(l.allPartitions(), func(p installed.Partition) bool {
			return strings.EqualFold(p.PartUUID, e.PartUUID)
		}) {
			lost.add(e)
			continue
		}
		if files, ok := l.filesOf(e.PartUUID); ok && !hasFile(files, loaderPath(e.Loader)) {
			if l.reportedByESP(e) {
				ours[strings.ToLower(e.PartUUID)] = true
				continue
			}
			fileless.add(e)
			continue
		}
		if isWindows(e.Loader) {
			continue
		}
		if l.isIdle(e) {
			idle = append(idle, e)
		} else {
			ours[strings.ToLower(e.PartUUID)] = true
			tried = true
		}
	}
	l.reportLost(lost)
	l.reportFileless(fileless)
	if !tried && len(idle) > 0 {
		why := "not in BootOrder"
		if isUnset(idle[0].Active) {
			why = "inactive"
		}
		l.report("entries-not-in-order", Error, where,
			fmt.Sprintf("Boot%s is %s: the firmware does not try it.", idle[0].Number, why), l.activation(idle))
	}
	esps := l.loaderESPs()
	for _, p := range esps {
		if len(esps) > 1 && len(ours) > 0 && !unplaced && p.PartUUID != "" && !ours[strings.ToLower(p.PartUUID)] &&
			l.mirrored() && !l.isEmpty(p) {
			l.report("entry-missing-for-disk", Warning, where, fmt.Sprintf(
				"No active entry in BootOrder starts from %s: if the other disk fails, the firmware finds the system only by the "+
					"fallback path.",
				p.Device), "efibootmgr -c for that partition")
		}
	}
}

// byPartition are entries in order, those of one partition together.
type byPartition [][]installed.EFIEntry

func (b *byPartition) add(e installed.EFIEntry) {
	for i, same := range *b {
		if strings.EqualFold(same[0].PartUUID, e.PartUUID) {
			(*b)[i] = append(same, e)
			return
		}
	}
	*b = append(*b, []installed.EFIEntry{e})
}

// reportLost reports entries of partitions that are on no disk.
func (l *linter) reportLost(all byPartition) {
	for _, entries := range all {
		var names, fixes []string
		for _, e := range entries {
			names = append(names, fmt.Sprintf("Boot%s (%s)", e.Number, e.Label))
			fixes = append(fixes, "efibootmgr -b "+shell.Quote(e.Number)+" -B")
		}
		n := len(entries)
		l.report("entry-partition-missing", Warning, "efibootmgr", fmt.Sprintf(
			"%s %s the partition %s, which is on no disk.", listOf(names), plural(n, "names", "name"), entries[0].PartUUID),
			strings.Join(fixes, "; ")+", and make the "+plural(n, "entry", "entries")+" again")
	}
}

// reportFileless reports entries whose loaders are not on their partitions.
func (l *linter) reportFileless(all byPartition) {
	for _, entries := range all {
		var starts []string
		for _, e := range entries {
			starts = append(starts, fmt.Sprintf("Boot%s (%s) starts %s", e.Number, e.Label, e.Loader))
		}
		n := len(entries)
		l.report("entry-file-missing", Error, "efibootmgr", listOf(starts)+plural(n,
			", which is not on its partition.", ": these files are not on their partition."), plural(n,
			"Install the loader, or correct the entry.", "Install the loaders, or correct the entries."))
	}
}

// withoutDoubles returns the entries. Of several that start the same file, it returns the one that the
// firmware prefers, and reports the others.
func (l *linter) withoutDoubles() (out []installed.EFIEntry) {
	at := map[string]int{}
	rank := func(e installed.EFIEntry) [3]int {
		r := [3]int{0, 0, slices.Index(l.EFI.Order, e.Number)}
		if l.isIdle(e) {
			r[0] = 1
		}
		if e.Number != l.EFI.Current {
			r[1] = 1
		}
		return r
	}
	for _, e := range l.EFI.Entries {
		id := strings.ToLower(e.PartUUID + loaderPath(e.Loader))
		i, ok := at[id]
		if !ok || e.Loader == "" || e.PartUUID == "" || isKernel(e.Loader) { // which gets its arguments from the entry
			at[id] = len(out)
			out = append(out, e)
			continue
		}
		first := out[i]
		keep, drop := first, e
		if a, b := rank(e), rank(first); slices.Compare(a[:], b[:]) < 0 {
			keep, drop = e, first
		}
		out[i] = keep
		fix := "efibootmgr -b " + shell.Quote(drop.Number) + " -B"
		if l.EFI.Order == nil || keep.Active == nil || drop.Active == nil {
			fix = "Delete the one that the firmware does not use (efibootmgr -b NUMBER -B)."
		} else if keep.Label != drop.Label {
			fix = "If efibootmgr -v shows the same arguments for both: " + fix
		}
		l.report("entries-doubled", Warning, "efibootmgr",
			fmt.Sprintf("Boot%s and Boot%s start the same file: the command that made them ran twice. The memory of the "+
				"firmware for entries is small.", first.Number, e.Number), fix)
	}
	return out
}

// isIdle reports whether the firmware is known not to try an entry by itself.
func (l *linter) isIdle(e installed.EFIEntry) bool {
	return isUnset(e.Active) || l.EFI.Order != nil && e.Number != "" && !slices.Contains(l.EFI.Order, e.Number)
}

// activation returns the commands after which the firmware tries entries.
func (l *linter) activation(idle []installed.EFIEntry) string {
	var commands, order []string
	for _, e := range idle {
		if isUnset(e.Active) {
			commands = append(commands, "efibootmgr -b "+shell.Quote(e.Number)+" -a")
		}
		if l.EFI.Order != nil && !slices.Contains(l.EFI.Order, e.Number) {
			order = append(order, e.Number)
		}
	}
	if len(order) > 0 {
		for _, n := range l.EFI.Order {
			if !slices.Contains(order, n) {
				order = append(order, n)
			}
		}
		commands = append(commands, "efibootmgr -o "+shell.Quote(strings.Join(order, ",")))
	}
	return strings.Join(commands, "; ")
}

// isKernel reports whether a loader is a kernel, and not a program of the name *.efi, as ZFSBootMenu and
// unified images are.
func isKernel(loader string) bool {
	name := strings.ToLower(path.Base(loaderPath(loader)))
	return !strings.HasSuffix(name, ".efi") && (strings.HasPrefix(name, "vmlinuz") || strings.HasPrefix(name, "bzimage"))
}

// checkStub finds entries that start a kernel with arguments from the entry.
func (l *linter) checkStub() {
	for _, e := range l.EFI.Entries {
		name := strings.ToLower(path.Base(loaderPath(e.Loader)))
		unified := slices.ContainsFunc(l.UKI, func(u installed.UKI) bool {
			return hasSuffixFold(u.Path, "/"+loaderPath(e.Loader))
		})
		if l.menu || unified || !isKernel(e.Loader) && (!strings.Contains(strings.ToLower(l.Bootloader), "stub") ||
			!strings.HasPrefix(name, "vmlinuz") && !strings.HasPrefix(name, "bzimage")) {
			continue
		}
		l.report("entry-arguments", Warning, "efibootmgr", fmt.Sprintf(
			"Boot%s (%s) starts the kernel %s itself: some firmware drops the arguments of an entry, and the kernel then "+
				"finds neither its initial RAM disk nor its root.", e.Number, e.Label, e.Loader),
			"Start a unified kernel image, which holds the arguments, or a loader.")
		return
	}
}

// filesOf returns the files of a partition, if they are known.
func (l *linter) filesOf(partuuid string) (map[string]string, bool) {
	for id, files := range l.ESPFiles {
		if strings.EqualFold(id, partuuid) {
			return files, files != nil
		}
	}
	return nil, false
}

// mirrored reports whether the pool of the root is on several disks.
func (l *linter) mirrored() bool { return len(l.rootDisks()) > 1 }

// rootDisks returns the disks of the pool of the root.
func (l *linter) rootDisks() (out []installed.Disk) {
	_, p := l.rootPool()
	for _, d := range l.Disks {
		if slices.ContainsFunc(p.VDevs, func(v string) bool { return d.Has(v) }) {
			out = append(out, d)
		}
	}
	return out
}

// loaderESPs returns the EFI system partitions that may start this system: those on its disks, those that are
// mounted, and those with an entry. Others, as on the disk of another system, are returned only if there are no such.
func (l *linter) loaderESPs() []installed.Partition {
	all, disks := l.ESPs(), l.rootDisks()
	ours := slices.DeleteFunc(slices.Clone(all), func(p installed.Partition) bool {
		return !l.isMounted(p) && !slices.ContainsFunc(disks, func(d installed.Disk) bool { return d.Has(p.Device) }) &&
			!slices.ContainsFunc(l.entries(), func(e installed.EFIEntry) bool {
				return p.PartUUID != "" && strings.EqualFold(e.PartUUID, p.PartUUID) && !isWindows(e.Loader)
			})
	})
	if len(disks) == 0 || len(ours) == 0 {
		return all
	}
	return ours
}

// isMounted reports whether a partition is mounted.
func (l *linter) isMounted(p installed.Partition) bool {
	return slices.ContainsFunc(l.Mounts, func(m installed.Mount) bool { return m.Source == p.Device })
}

// entries returns the boot entries of the firmware, nil if they are unknown.
func (l *linter) entries() []installed.EFIEntry {
	if l.EFI == nil {
		return nil
	}
	return l.EFI.Entries
}

// isWindows reports whether a loader is that of Windows.
func isWindows(loader string) bool {
	return strings.HasPrefix(strings.ToLower(loaderPath(loader)), "efi/microsoft/")
}

// Sizes of EFI system partitions.
const (
	minESP4Kn = 260 << 20 // FAT32 with clusters of 4 KiB
	minESPUKI = 1_000_000_000
)

// fallbackLoaders are the files that firmware starts without an entry, by architecture.
var fallbackLoaders = map[string]string{
	"x86_64":  "BOOTX64.EFI",
	"aarch64": "BOOTAA64.EFI",
	"riscv64": "BOOTRISCV64.EFI",
}

// checkESPs checks the EFI system partitions.
func (l *linter) checkESPs() {
	esps := l.loaderESPs()
	uuids := map[string]string{}
	raid := false
	for _, p := range esps {
		_, disk, _ := l.Partition(p.Device)
		b := l.Blkid[p.Device]
		switch {
		case l.unformatted(p):
			l.report("esp-not-formatted", Error, p.Device, "The EFI system partition has no filesystem.",
				fmt.Sprintf("If blkid -p %s finds nothing: mkfs.vfat -F 32 %[1]s, and copy the loaders", shell.Quote(p.Device)))
			continue
		case b["TYPE"] == "linux_raid_member" && raid:
			continue // both members are one finding
		case b["TYPE"] == "linux_raid_member":
			raid = true
			l.report("esp-on-raid", Warning, p.Device,
				"The EFI system partition is a member of a Linux RAID. The firmware does not know the RAID: if it writes to one "+
					"member, the members differ.",
				"Give each disk a FAT filesystem of its own, and copy the files.")
			continue
		case b["TYPE"] != "" && b["TYPE"] != "vfat":
			l.report("esp-not-fat", Error, p.Device, "The EFI system partition is "+b["TYPE"]+": firmware reads FAT.",
				"Save its files, then mkfs.vfat -F 32 "+shell.Quote(p.Device)+", and copy the loaders")
			continue
		}
		if u := b["UUID"]; u != "" && b["TYPE"] == "vfat" {
			if first, ok := uuids[u]; ok {
				l.report("esp-same-serial", Warning, p.Device, fmt.Sprintf(
					"%s and %s have the same serial number %s: one is a copy of the other, and the order of the disks decides which "+
						"one is mounted.",
					first,
					p.Device,
					u,
				), "Format it with a serial number of its own, and copy the files.")
			}
			uuids[u] = p.Device
		}
		switch {
		case p.Size == 0: // unknown
		case disk.Logical == 4096 && p.Size < minESP4Kn:
			l.report("esp-small", Warning, p.Device, fmt.Sprintf(
				"%s is too small for FAT32 on sectors of 4096 bytes: some firmware does not read it.", unit.Bytes(p.Size)),
				"Make it 260 MiB or larger.")
		case len(l.UKI) > 0 && p.Size < minESPUKI:
			l.report("esp-small", Warning, p.Device, fmt.Sprintf(
				"%s is small for unified kernel images, of which two or three must fit during an update.", unit.Bytes(p.Size)),
				"Make it 1 GB or larger.")
		}
	}
	l.checkTypes()
	l.checkFallback(esps)
	if l.mirrored() {
		l.checkMirroredESPs(esps)
	}
}

// unformatted reports whether a partition is known to have no file system: blkid found the others, or nothing in it.
func (l *linter) unformatted(p installed.Partition) bool {
	b, known := l.Blkid[p.Device]
	return len(l.Blkid) > 0 && (!known || b != nil && len(b) == 0) && !l.hasContent(p)
}

// isEmpty reports whether an EFI system partition is known to have no files: unformatted ones, and those without
// the files of the other one, are reported.
func (l *linter) isEmpty(p installed.Partition) bool {
	files, ok := l.filesOf(p.PartUUID)
	return ok && len(files) == 0 || l.unformatted(p)
}

// reportedByESP reports whether the missing file of an entry shows in a finding about its partition: it has no
// file system, or not the files of the mounted one.
func (l *linter) reportedByESP(e installed.EFIEntry) bool {
	esps := l.loaderESPs()
	at := slices.IndexFunc(esps, func(p installed.Partition) bool { return strings.EqualFold(p.PartUUID, e.PartUUID) })
	if at < 0 {
		return false
	}
	if l.unformatted(esps[at]) {
		return true
	}
	first := l.firstESP(esps)
	want, _ := l.filesOf(first.PartUUID)
	return l.mirrored() && first.PartUUID != esps[at].PartUUID && hasFile(want, loaderPath(e.Loader)) &&
		l.starts(loaderPath(e.Loader))
}

// hasSuffixFold is strings.HasSuffix for the names of a FAT file system.
func hasSuffixFold(s, suffix string) bool {
	return strings.HasSuffix(strings.ToLower(s), strings.ToLower(suffix))
}

// hasContent reports whether a partition is known to have a file system.
func (l *linter) hasContent(p installed.Partition) bool {
	files, _ := l.filesOf(p.PartUUID)
	return len(files) > 0 || l.isMounted(p)
}

// checkTypes checks that the firmware recognizes the partition with the loaders.
func (l *linter) checkTypes() {
	if l.Firmware.Mode == "bios" {
		return
	}
	for _, p := range l.mistyped() {
		_, disk, _ := l.Partition(p.Device)
		l.report("esp-type", Error, p.Device, "The partition with the loaders is not marked as an EFI system partition: "+
			"firmware may not look for a loader there.",
			fmt.Sprintf("sgdisk -t %d:ef00 %s", p.Number, shell.Quote("/dev/"+disk.Name)))
	}
}

// mistyped returns the partitions with loaders that are not marked as EFI system partitions: what is mounted as one,
// and those of the other disks of a mirror like it.
func (l *linter) mistyped() (out []installed.Partition) {
	for _, m := range l.Mounts {
		p, _, ok := l.Partition(m.Source)
		if ok && p.Type != "" && !strings.EqualFold(p.Type, installed.TypeESP) && m.Type == "vfat" &&
			slices.Contains([]string{"/boot/efi", "/efi", "/boot/EFI"}, m.Target) {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return nil
	}
	for _, d := range l.rootDisks() {
		for _, p := range d.Partitions {
			if p.Number == out[0].Number && p.Type == out[0].Type && l.Blkid[p.Device]["TYPE"] == "vfat" &&
				!slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	return out
}

// checkFallback checks that firmware without entries finds a loader.
func (l *linter) checkFallback(esps []installed.Partition) {
	file, ok := fallbackLoaders[l.OS.Arch]
	if !ok || l.Firmware.Mode == "bios" {
		return
	}
	for _, p := range esps {
		files, ok := l.filesOf(p.PartUUID)
		if !ok || len(files) == 0 || hasFile(files, "EFI/BOOT/"+file) {
			continue
		}
		severity, why := Warning, "Firmware that loses its entries, as after an update or a reset, finds no loader."
		if isUnset(l.Firmware.EFIVars) {
			severity, why = Error, "The system cannot write entries, and the firmware finds no loader without one."
		}
		l.report("fallback-loader-missing", severity, l.onESP(p, "EFI/BOOT/"+file), why,
			"Copy the loader to EFI/BOOT/"+file+" of "+p.Device+".")
	}
}

// onESP returns the path of a file of an EFI system partition below the root, or the key of the facts.
func (l *linter) onESP(p installed.Partition, file string) string {
	for _, m := range l.Mounts {
		if m.Source == p.Device {
			return strings.TrimPrefix(m.Target, "/") + "/" + strings.TrimPrefix(file, "/")
		}
	}
	return "esp_files"
}

// checkMirroredESPs checks that each disk of a mirror starts the system.
func (l *linter) checkMirroredESPs(esps []installed.Partition) {
	mistyped := l.mistyped()
	for _, d := range l.rootDisks() {
		if !withoutTable(d) && !slices.ContainsFunc(d.Partitions, func(p installed.Partition) bool {
			return p.Type == "" || strings.EqualFold(p.Type, installed.TypeESP) || slices.Contains(mistyped, p)
		}) {
			l.report("esp-missing-on-disk", Warning, "/dev/"+d.Name,
				"This disk has a mirror of the pool, but cannot boot the system if the other disk is missing.",
				"Make an EFI system partition, and copy the loaders.")
		}
	}
	if len(esps) < 2 || len(l.ESPFiles) == 0 {
		return
	}
	first := l.firstESP(esps)
	want, _ := l.filesOf(first.PartUUID)
	for _, p := range esps {
		if p.PartUUID == first.PartUUID {
			continue
		}
		have, known := l.filesOf(p.PartUUID)
		if t := l.Blkid[p.Device]["TYPE"]; !known || t != "" && t != "vfat" || l.unformatted(p) {
			continue // esp-not-fat, esp-not-formatted
		}
		var differ []string
		for _, f := range slices.Sorted(maps.Keys(want)) {
			fallback := !hasFile(have, f) && strings.EqualFold(f, "EFI/BOOT/"+fallbackLoaders[l.OS.Arch])
			if !sameDigest(have, want, f) && !fallback && l.starts(f) { // the fallback is fallback-loader-missing
				differ = append(differ, f)
			}
		}
		if len(differ) > 0 {
			l.report("esp-out-of-step", Warning, p.Device, fmt.Sprintf(
				"The files %[2]s on %[1]s differ from those on %[3]s: if %[3]s is missing, an old system starts, or "+
					"none.", p.Device,
				strings.Join(differ, ", "), first.Device), "Copy the files, first under another name, and compare them.")
		}
	}
}

// bootFile is the name of a file from which a loader starts a kernel outside the folder EFI.
var bootFile = lazy.Compile(`(?i)^(linux|vmlinu[xz].*|bzimage.*|init.*|.*\.(cfg|conf|dtb|efi|img))$`)

// starts reports whether a file of an EFI system partition may be needed to start the system. Firmware, and other
// systems, write their own files to one of the partitions.
func (l *linter) starts(file string) bool {
	name := strings.ToLower(strings.TrimPrefix(file, "/"))
	if path.Base(name) == "random-seed" || strings.HasSuffix(name, ".cap") { // of the partition itself, or an update
		return false
	}
	inside, isEFI := strings.CutPrefix(name, "efi/")
	vendor, _, _ := strings.Cut(inside, "/")
	switch {
	case !isEFI:
		return strings.HasPrefix(name, "loader/") || strings.HasPrefix(name, "grub/") || bootFile.MatchString(path.Base(name))
	case slices.Contains([]string{"boot", "linux", "zbm", "zfsbootmenu"}, vendor):
		return true
	case len(l.entries()) == 0:
		return !isWindows(name)
	}
	return slices.ContainsFunc(l.entries(), func(e installed.EFIEntry) bool {
		loader := strings.ToLower(loaderPath(e.Loader))
		return !isWindows(loader) && (loader == name || strings.HasPrefix(loader, "efi/"+vendor+"/"))
	})
}

// firstESP returns the EFI system partition to which updates write: the mounted one.
func (l *linter) firstESP(esps []installed.Partition) installed.Partition {
	for _, p := range esps {
		if l.isMounted(p) {
			return p
		}
	}
	return esps[0]
}

// sameDigest reports whether a file is in two file systems, and is not known to differ.
func sameDigest(a, b map[string]string, name string) bool {
	x, inA := a[name]
	y, inB := b[name]
	return inA == inB && (x == y || x == "" || y == "")
}
