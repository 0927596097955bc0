package lint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/shell"
	"bakeoff/base/unit"
	"bakeoff/prepare/install/installed"
)

// checkSwap checks the space to which the system hibernates, and how it is found again.
func (l *linter) checkSwap() {
	if dev, where := l.swapOnVolume(); dev != "" {
		l.report(
			"swap-on-zvol",
			Error,
			where,
			dev+" is a volume of a pool: a machine that is short of memory can hang. It cannot resume from this swap, "+
				"because the pool must not be imported before the resume.",
			"Use a partition for swap.",
		)
		return
	}
	pending := false
	for _, dev := range slices.Sorted(maps.Keys(l.Blkid)) {
		if b := l.Blkid[dev]; b["TYPE"] == "swsuspend" {
			pending = true
			mkswap := []string{"mkswap"} // which the system finds by these names
			if b["UUID"] != "" {
				mkswap = append(mkswap, "-U", b["UUID"])
			}
			if b["LABEL"] != "" {
				mkswap = append(mkswap, "-L", b["LABEL"])
			}
			l.report("hibernation-pending", Error, dev,
				"There is a hibernation image. If the pool is imported for writing now, the resume damages it.",
				"Resume the system, or destroy the image before an import: "+shell.Quote(append(mkswap, dev)...))
		}
	}
	if !l.Hibernation {
		return
	}
	cmdline, _ := l.arguments()
	resume, named := argument(cmdline, "resume")
	largest, other := l.largestSwap()
	if e := l.randomSwap(); e != nil && (!other || named && l.deviceOf(resume) == e.device()) {
		l.report("swap-key-random", Error, "etc/crypttab",
			"Each start encrypts "+e.name+" with a new key: a hibernation image cannot be read.",
			"Give the swap a LUKS header and a key that stays.")
		return
	}
	if l.Swaps == nil || pending && !other {
		return // unknown: a swap with an image is not active
	}
	if len(l.Swaps) == 0 {
		l.report("swap-missing", Error, "swap", "The system should hibernate, but has no active swap.",
			"Make a partition for swap that is larger than the memory.")
		return
	}
	if !other {
		l.report("swap-missing", Error, "swap", "The system should hibernate, but its only swap is in memory (zram).",
			"Make a partition for swap that is larger than the memory.")
		return
	}
	if named {
		for _, s := range l.diskSwaps() {
			if l.names(resume, s) {
				largest = s // the only one that gets the image
			}
		}
	}
	if l.RAMBytes > 0 && largest.Size > 0 && largest.Size <= l.RAMBytes {
		l.report("swap-smaller-than-ram", Error, "swap", fmt.Sprintf(
			"%s has %s, and the memory has %s: the hibernation image of a full memory does not fit. (LUKS needs 2 or 16 MiB "+
				"of a partition for itself.)", largest.Device, unit.Bytes(largest.Size), unit.Bytes(l.RAMBytes)),
			"Make the partition for swap larger than the memory.")
	}
	if l.resume == nil && l.encryptionRoot(l.rootSet) != "" && l.inClear(largest.Device) {
		l.report("swap-in-clear", Error, "swap", "The pool is encrypted, and "+largest.Device+" is not: a hibernation "+
			"image contains the memory in clear, with the key of the "+
			"pool.", "Give the swap a LUKS header (cryptsetup luksFormat), and "+
			"open it by crypttab.")
	}
	l.checkResumeArgument()
}

// swapOnVolume returns the swap that is a volume of a pool, and what names it.
func (l *linter) swapOnVolume() (dev, where string) {
	isVolume := func(dev string) bool {
		return strings.HasPrefix(dev, "/dev/zd") || strings.HasPrefix(dev, "/dev/zvol/")
	}
	for _, s := range l.Swaps {
		if isVolume(s.Device) {
			return s.Device, "swap"
		}
	}
	for _, e := range l.fstab() {
		if e.kind == "swap" && isVolume(e.source) {
			return e.source, "etc/fstab"
		}
	}
	return "", ""
}

// inClear reports whether a swap is known to be a partition that is not encrypted.
func (l *linter) inClear(dev string) bool {
	_, _, ok := l.Partition(dev)
	return ok && l.Blkid[dev]["TYPE"] == "swap"
}

// diskSwaps are the active swaps that are not in memory.
func (l *linter) diskSwaps() []installed.Swap {
	return slices.DeleteFunc(slices.Clone(l.Swaps), func(s installed.Swap) bool {
		return strings.HasPrefix(s.Device, "/dev/zram")
	})
}

// randomSwap returns the swap whose key changes with each start.
func (l *linter) randomSwap() *cryptEntry {
	for _, e := range l.crypttab() {
		if e.random() && (e.has("swap") || slices.ContainsFunc(l.Swaps, func(s installed.Swap) bool {
			return s.Device == e.device()
		})) {
			return &e
		}
	}
	return nil
}

// checkResumeArgument checks the arguments that find the image.
func (l *linter) checkResumeArgument() {
	args := l.kernelArguments()
	cmdline, where := args.line, args.where
	if !args.known {
		return
	}
	for _, a := range []struct{ argument, does string }{
		{"noresume", "discards the hibernation image"}, {"nohibernate", "forbids hibernation"},
		{"hibernate=no", "forbids hibernation"}, {"hibernate=noresume", "discards the hibernation image"},
	} {
		if slices.Contains(kernelWords(cmdline), a.argument) {
			l.report("resume-off", Error, args.at(a.argument), a.argument+" "+a.does+".",
				args.then("Remove "+a.argument))
			return
		}
	}
	name := "resume"
	resume, ok := argument(cmdline, name)
	at := args.at(name)
	image := l.imageArguments()
	if !ok && !l.systemd() { // systemd reads those of the kernel only
		if resume, ok = argument(image.line, name); ok {
			at, args.apply = image.where, image.apply
		}
	}
	if !ok && l.tool == "initramfs-tools" {
		for _, f := range l.initramfsConfig() {
			if v := assignments(l.text(f), map[string]string{})["RESUME"]; v != "" {
				name, resume, ok, at = "RESUME", v, true, f
				args.apply = l.rebuild()
			}
		}
	}
	_, isFile := argument(cmdline, "resume_offset")
	switch {
	case l.tool == "initramfs-tools" && (!ok || resume == "auto"): // the largest active swap
	case resume == "none":
		l.report("resume-off", Error, at, name+"=none: nothing looks for the hibernation image, and it is lost.",
			args.then("Write "+name+"="+settingOf(l.swapDevice())))
	case !ok && l.tool != "" && !l.mayResumeByFirmware() && (l.systemd() || image.known):
		l.report("resume-missing", Error, where, "No resume= names the swap: the hibernation image is ignored, and lost.",
			args.then("Add resume="+settingOf(l.swapDevice())))
	case ok && !isFile && !l.isSwap(resume) && !l.mayBeSwap(resume):
		l.report("resume-wrong", Error, at, name+"="+resume+" is not the swap "+l.swapDevice()+".",
			args.then("Write "+name+"="+settingOf(l.swapDevice())))
	}
	l.checkLUKSArguments(args)
}

// checkLUKSArguments checks that the arguments open the swap.
func (l *linter) checkLUKSArguments(args kernelArguments) {
	fix := args.then("Write the UUID that blkid shows for the swap partition")
	if l.tool == "initramfs-tools" {
		return // it reads none of them
	}
	for _, name := range []string{"rd.luks", "luks"} {
		if v, ok := argument(args.line, name); ok && installed.MayBeOff(v) && l.resume != nil {
			l.report("luks-off", Error, args.at(name), name+"="+v+" does not match a LUKS partition, so the swap is not opened.",
				args.then("Remove "+settingOf(name+"="+v)))
			return
		}
	}
	swap := "" // the UUID of the encrypted swap
	if l.resume != nil {
		if b := l.Blkid[l.deviceOf(l.resume.source)]; b["TYPE"] == "crypto_LUKS" {
			swap = b["UUID"]
		}
	}
	other, opened, named := "", false, false
	for _, f := range kernelWords(args.line) {
		uuid, name := l.luksArgument(f)
		if full := l.startOfUUID(uuid); full != "" && l.tool == "dracut" && !l.systemd() {
			uuid = full // dracut without systemd compares the beginning
		}
		switch {
		case uuid == "" || !l.knowsUUIDs():
		case slices.ContainsFunc(l.crypttab(), func(e cryptEntry) bool {
			return strings.EqualFold(e.source, "UUID="+uuid) && l.staysClosed(e)
		}): // crypttab-uuid-wrong
		case !l.hasUUID("crypto_LUKS", uuid):
			l.report("luks-uuid-wrong", Error, args.at(f), "No LUKS partition has the UUID "+uuid+": the swap stays closed.",
				fix)
			return
		case strings.EqualFold(swap, uuid):
			opened, named = true, named || name != ""
		default:
			other = uuid
		}
	}
	if swap == "" {
		return // crypttab, not the argument, may be wrong
	}
	if other != "" && !opened {
		l.report(
			"luks-uuid-wrong",
			Error,
			args.at("rd.luks.uuid"),
			"Only the partition "+other+" is opened, and the swap is "+l.resume.source+".",
			fix,
		)
		return
	}
	for _, name := range []string{"rd.luks.crypttab", "luks.crypttab"} {
		if v, ok := argument(args.line, name); ok && installed.MayBeOff(v) && l.systemd() && !named {
			l.report("luks-crypttab-off", Error, args.at(name), name+"="+v+" ignores crypttab: the swap stays closed, or has "+
				"another name than "+l.resume.name+".", args.then("Remove "+settingOf(name+"="+v)))
			return
		}
	}
	l.checkLUKSMissing(args, swap)
}

// checkLUKSMissing checks that an argument opens the swap: dracut without systemd opens no other partition. Source:
// parse-crypt.sh of dracut.
func (l *linter) checkLUKSMissing(args kernelArguments, swap string) {
	opens := func(line string) bool {
		return slices.ContainsFunc(kernelWords(line), func(a string) bool {
			return strings.HasPrefix(a, "rd.luks.") || strings.HasPrefix(a, "rd.auto") || strings.HasPrefix(a, "rd_LUKS")
		})
	}
	image := l.imageArguments()
	inImage := !image.known || opens(image.line) || slices.ContainsFunc(l.images(), func(name string) bool {
		return slices.Contains(l.Initramfs[name].Modules, "systemd") ||
			slices.ContainsFunc(l.Initramfs[name].Files, func(f string) bool { return within(f, "/etc/cmdline.d") })
	})
	if l.tool != "dracut" || l.OS.Init == "" || l.systemd() || opens(args.line) || inImage ||
		!l.resume.hasKey() && l.hostonly() || // which may add it
		slices.ContainsFunc(l.findings, func(f Finding) bool { return args.has(f.Where) }) { // which may be the cause
		return
	}
	l.report("luks-uuid-missing", Error, args.where, "No rd.luks.uuid= names the encrypted swap. Without systemd, the "+
		"initramfs of dracut opens only the partitions that rd.luks.uuid= names, whatever crypttab "+
		"says.", args.then("Add rd.luks.uuid="+swap))
}

// staysClosed reports whether the system needs an entry of crypttab whose source is not there, or is not encrypted.
func (l *linter) staysClosed(e cryptEntry) bool {
	isResume := l.resume != nil && e.name == l.resume.name
	return (l.absent(e.source) || l.notLUKS(e) != "") && (isResume || !e.has("noauto") && !e.has("nofail"))
}

// inArguments names the arguments that open the source of an entry of crypttab, too, "" if there are none.
func (l *linter) inArguments(e cryptEntry) string {
	args := l.kernelArguments()
	for _, f := range kernelWords(args.line) {
		if uuid, _ := l.luksArgument(f); uuid != "" && strings.EqualFold(e.source, "UUID="+uuid) {
			name, _, _ := strings.Cut(f, "=")
			return ", also in " + name + "= (" + args.at(f) + ")"
		}
	}
	return ""
}

// luksArgument returns the UUID of a LUKS partition that an argument opens, and the name that it gives.
func (l *linter) luksArgument(argument string) (uuid, name string) {
	key, value, _ := strings.Cut(argument, "=")
	switch {
	case key == "rd.luks.uuid", key == "luks.uuid" && l.systemd():
		return strings.TrimPrefix(value, "luks-"), ""
	case l.systemd() && (key == "rd.luks.name" || key == "luks.name"):
		uuid, name, _ = strings.Cut(value, "=")
	}
	return uuid, name
}

// mayResumeByFirmware reports whether systemd may find the image by an EFI variable.
func (l *linter) mayResumeByFirmware() bool {
	return (l.OS.Init == "" || l.systemd()) && !older(l.Tools["systemd"], "255") && !isUnset(l.Firmware.EFIVars)
}

// swapDevice is the device to resume from.
func (l *linter) swapDevice() string {
	if l.resume != nil {
		return l.resume.device()
	}
	if s, ok := l.largestSwap(); ok {
		return l.stableName(s.Device)
	}
	return "DEVICE"
}

// largestSwap returns the largest active swap on a disk that does not get a new key at each start.
func (l *linter) largestSwap() (installed.Swap, bool) {
	entries := l.crypttab()
	disks := slices.DeleteFunc(l.diskSwaps(), func(s installed.Swap) bool {
		return slices.ContainsFunc(entries, func(e cryptEntry) bool { return e.random() && e.device() == s.Device })
	})
	if len(disks) == 0 {
		return installed.Swap{}, false
	}
	return slices.MaxFunc(disks, func(a, b installed.Swap) int { return cmp.Compare(a.Size, b.Size) }), true
}

// isSwap reports whether a source names active swap.
func (l *linter) isSwap(name string) bool {
	return slices.ContainsFunc(l.Swaps, func(s installed.Swap) bool { return l.names(name, s) })
}

// names reports whether a source names a swap.
func (l *linter) names(name string, s installed.Swap) bool {
	dev := l.deviceOf(name)
	return dev != "" && dev == l.deviceOf(s.Device)
}

// mayBeSwap reports whether a source may name active swap, whose name of this kind is not known.
func (l *linter) mayBeSwap(name string) bool {
	tag, _ := tagOf(name)
	dev := l.deviceOf(name)
	_, _, isPartition := l.Partition(dev)
	unknown := func(known func(s installed.Swap) bool) bool {
		return slices.ContainsFunc(l.diskSwaps(), func(s installed.Swap) bool { return !known(s) })
	}
	switch {
	case strings.Contains(name, ":"): // numbers of a device
		return true
	case dev != "":
		return strings.HasPrefix(dev, "/dev/dm-") ||
			!isPartition && unknown(func(s installed.Swap) bool { return !strings.HasPrefix(s.Device, "/dev/dm-") })
	case tag == "UUID", tag == "LABEL":
		return unknown(func(s installed.Swap) bool { return l.Blkid[s.Device][tag] != "" })
	case tag == "PARTUUID":
		return !l.knowsPartitions()
	}
	return true
}

// startOfUUID returns the UUID of the LUKS partition that begins so, "" if none does.
func (l *linter) startOfUUID(start string) string {
	for _, b := range l.Blkid {
		if b["TYPE"] == "crypto_LUKS" && len(start) >= 4 && strings.HasPrefix(strings.ToLower(b["UUID"]),
			strings.ToLower(start)) {
			return b["UUID"]
		}
	}
	return ""
}

// checkCrypttab checks the lines of crypttab for the swap.
func (l *linter) checkCrypttab() {
	const where = "etc/crypttab"
	_, lasts := l.largestSwap()
	for _, e := range l.crypttab() {
		isResume := l.resume != nil && e.name == l.resume.name
		tag, _ := tagOf(e.source)
		then := func(fix string) string {
			if isResume { // the initramfs has a copy of the line
				return fix + ", then " + l.rebuild() + "."
			}
			return fix + "."
		}
		switch {
		case unstableName(e.source) && e.random():
			l.report("crypttab-device-name", Warning, where, e.source+" names another disk if the order of the disks changes: "+
				"the next start then overwrites that disk.", "Write PARTUUID= with what blkid shows for it.")
		case unstableName(e.source):
			l.report("crypttab-device-name", Warning, where,
				e.source+" names another disk if the order of the disks changes.",
				then("Write UUID= with what blkid shows for it"))
		case l.Hibernation && e.random() && !lasts: // swap-key-random
		case e.random() && (tag == "UUID" || tag == "LABEL") && !e.hasOffset():
			l.report("crypttab-uuid-wrong", Error, where, "The first start overwrites "+e.source+
				" with random data: "+e.name+" is not opened again.", "Write PARTUUID= with what blkid shows for the partition.")
		case l.staysClosed(e):
			why, partition := "No device is "+e.source, "partition"
			if kind := l.notLUKS(e); kind != "" {
				why, partition = e.source+" is not an encrypted partition, but "+kind, "LUKS partition"
			}
			l.report(
				"crypttab-uuid-wrong",
				Error,
				where,
				why+": "+e.name+" is not opened.",
				then("Write the UUID that blkid shows for the "+partition+l.inArguments(e)),
			)
		}
	}
	e := l.resume
	if e == nil {
		l.checkSwapInCrypttab()
		return
	}
	if skipped := l.skipped(*e); skipped != "" {
		l.report("crypttab-skipped", Error, where, fmt.Sprintf(
			"The initramfs skips an entry with the option %s: the swap stays closed, and the system does not resume.",
			skipped,
		), fmt.Sprintf("Remove %s, then %s.", skipped, l.rebuild()))
	}
	if l.tool == "dracut" && l.hostonly() && older(l.Tools["dracut"], "106") && !e.has("force") &&
		!(e.has("x-initrd.attach") && atLeast(l.Tools["dracut"], "103")) {
		l.report("crypttab-not-in-initramfs", Error, where,
			"dracut "+l.Tools["dracut"]+" in hostonly mode leaves out an entry without the option force.",
			"Add the option force to "+settingOf(e.name)+", then "+l.rebuild()+".")
	}
	if e.hasKey() && l.lacksKey(e.key) {
		l.report("key-file-missing", Error, where, "There is no "+e.key+".",
			"Put the key there, or correct the path, then "+l.rebuild()+".")
	}
}

// skipped returns the options of an entry for which the initramfs skips it.
func (l *linter) skipped(e cryptEntry) string {
	return strings.Join(slices.DeleteFunc([]string{"swap", "noauto", "tmp"}, func(o string) bool {
		return !e.has(o) || l.tool == "initramfs-tools" // which ignores them
	}), ",")
}

// notLUKS returns what the source of an entry of crypttab is, "" if it may be encrypted.
func (l *linter) notLUKS(e cryptEntry) string {
	kind := l.Blkid[l.deviceOf(e.source)]["TYPE"]
	if kind == "crypto_LUKS" || e.random() || slices.ContainsFunc(e.options, func(o string) bool {
		name, _, _ := strings.Cut(o, "=")
		return slices.Contains([]string{"plain", "header", "bitlk", "fvault2", "loopaes"}, name) ||
			strings.HasPrefix(name, "tcrypt")
	}) {
		return ""
	}
	return kind
}

// checkSwapInCrypttab checks that something opens the encrypted swap.
func (l *linter) checkSwapInCrypttab() {
	if l.tool == "" {
		return // such as that of NixOS, which reads no crypttab
	}
	entries := l.crypttab()
	if l.tool == "mkinitcpio" {
		entries = append(slices.Clone(entries), readCrypttab(l.text("etc/crypttab.initramfs"))...)
	}
	cmdline, _ := l.arguments()
	for _, s := range l.Swaps {
		name, ok := strings.CutPrefix(s.Device, "/dev/mapper/")
		known := slices.ContainsFunc(entries, func(e cryptEntry) bool { return e.name == name })
		byArgument := slices.ContainsFunc(kernelWords(cmdline), func(a string) bool {
			return strings.HasPrefix(a, "cryptdevice=") && strings.Contains(a, ":"+name) || // of mkinitcpio
				strings.Contains(a, "luks.name=") && strings.HasSuffix(a, "="+name) ||
				strings.HasPrefix(a, "rd.luks.uuid=") && strings.HasSuffix(a, strings.TrimPrefix(name, "luks-"))
		})
		if !l.Hibernation || !ok || known || byArgument || !l.knowsArguments() || !l.hasType("crypto_LUKS") ||
			l.hasType("LVM2_member") {
			continue
		}
		l.report("crypttab-without-swap", Error, "etc/crypttab",
			"Nothing opens "+s.Device+" when the system starts: no entry has the name "+name+".",
			settingOf(name)+" UUID=UUID_OF_THE_PARTITION KEYFILE luks")
	}
}

// moduleOptions returns what the configuration of modprobe says about a module.
func (l *linter) moduleOptions(module string) (out []written) {
	for _, f := range l.dropIns(".conf", "usr/lib/modprobe.d", "etc/modprobe.d") {
		for _, line := range lines(joinLines(l.text(f))) {
			if w := strings.Fields(line); len(w) > 2 && w[0] == "options" && w[1] == module {
				for _, o := range w[2:] {
					out = append(out, written{o, f})
				}
			}
		}
	}
	return out
}

// settingsAtStart returns the limits of the ARC that the system writes each time it starts.
func (l *linter) settingsAtStart() (out []written) {
	for _, f := range append(files(l.root, "etc/tmpfiles.d", ".conf"), "etc/rc.local") {
		for _, line := range lines(l.text(f)) {
			if before, after, ok := strings.Cut(line, "/zfs/parameters/zfs_arc_max"); ok {
				// w PATH - - - - BYTES, or a command such as echo BYTES > PATH
				value := "unknown"
				for w := range strings.FieldsSeq(before + " " + after) {
					if _, err := strconv.ParseInt(w, 0, 64); err == nil {
						value = w
					}
				}
				out = append(out, written{"zfs_arc_max=" + value, f})
			}
		}
	}
	return out
}

// Limits of the ARC.
const (
	arcShare    = 0.75     // of the memory, up to which a cache leaves room to hibernate
	minARCLimit = 64 << 20 // bytes, MIN_ARC_MAX of OpenZFS
)

// checkMemoryLimit checks that the ARC, the cache of ZFS, leaves memory for a hibernation.
func (l *linter) checkMemoryLimit() {
	if !l.Hibernation || l.rootSet == "" {
		return
	}
	limit, where := "", "etc/modprobe.d/zfs.conf"
	for _, o := range slices.Concat(l.moduleOptions("zfs"), l.settingsAtStart()) {
		if v, ok := strings.CutPrefix(o.argument, "zfs_arc_max="); ok {
			limit, where = v, o.file
		}
	}
	args := l.kernelArguments()
	quarter := "BYTES (a quarter of the memory)"
	if l.RAMBytes > 0 {
		quarter = strconv.FormatInt(max(l.RAMBytes/4, minARCLimit), 10)
	}
	fix := "options zfs zfs_arc_max=" + quarter + ", then " + l.rebuild() // which loads the module
	if v, ok := argument(args.line, "zfs.zfs_arc_max"); ok {
		limit, where = v, args.at("zfs.zfs_arc_max")
		fix = args.then("Write zfs.zfs_arc_max=" + quarter)
	}
	n, err := strconv.ParseInt(strings.Trim(limit, `"`), 0, 64)
	switch {
	case limit == "" && !l.knowsArguments(), limit == "unknown":
	case limit == "" || err == nil && n == 0:
		l.report("arc-uncapped", Warning, where,
			"The ARC may take half of the memory or more: when it is full, too few pages are left to hibernate.",
			fix)
	case err != nil:
		l.report("arc-limit-form", Warning, where, "zfs_arc_max="+limit+" is not a number of bytes.", fix)
	case n < minARCLimit:
		l.report("arc-limit-low", Warning, where, "ZFS ignores zfs_arc_max="+limit+", as it is below 64 MiB.", fix)
	case l.RAMBytes > 0 && float64(n) > arcShare*float64(l.RAMBytes):
		l.report(
			"arc-limit-high",
			Warning,
			where,
			fmt.Sprintf("The ARC may take %s of %s: when it is full, too few "+
				"pages are left to hibernate.", unit.Bytes(n), unit.Bytes(l.RAMBytes)),
			fix,
		)
	}
}
