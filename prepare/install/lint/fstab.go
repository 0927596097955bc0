package lint

import (
	"fmt"
	"slices"
	"strings"

	"bakeoff/prepare/install/installed"
)

// checkFstab checks the lines of fstab.
func (l *linter) checkFstab() {
	const where = "etc/fstab"
	swap := false
	var unstable []string
	var esps []fstabEntry
	for _, e := range l.fstab() {
		dev := l.deviceOf(e.source)
		p, _, isPartition := l.Partition(dev)
		t := l.Blkid[dev]["TYPE"]
		fat := e.kind == "vfat" || e.kind == "auto" && (t == "" || t == "vfat")
		esp := fat && (isPartition && strings.EqualFold(p.Type, installed.TypeESP) ||
			slices.Contains([]string{"/boot/efi", "/efi", "/boot/EFI"}, e.target))
		removable := !esp && e.kind != "swap" && (e.has("noauto") || e.has("nofail"))
		swap = swap || e.kind == "swap"
		switch {
		case l.absent(e.source) && !removable:
			l.report(
				"fstab-uuid-wrong",
				Error,
				where,
				fmt.Sprintf("No device matches %s, so %s is not mounted.", e.source, e.target),
				"Write the UUID that blkid shows.",
			)
		case unstableName(e.source):
			unstable = append(unstable, e.source)
		case e.kind == "swap" && l.neverOpened(dev):
			l.report("fstab-swap-closed", Error, where, "Nothing opens "+dev+": this swap is not activated.",
				"Name the device that crypttab opens.")
		case e.kind == "swap" && l.Blkid[dev]["TYPE"] == "crypto_LUKS":
			l.report(
				"fstab-swap-closed",
				Error,
				where,
				dev+" is an encrypted partition, not swap.",
				"Name the device that opening this partition makes, below /dev/mapper.",
			)
		case e.kind == "zfs":
			if m := l.Datasets[e.source]["mountpoint"].Value; m != "" && m != "legacy" && l.linux() && !e.has("zfsutil") {
				l.report("fstab-zfs", Warning, where, e.source+" already has the "+
					"mountpoint "+m+" as a property of ZFS, so it is mounted twice.",
					"Remove the line, or set mountpoint=legacy.")
			}
		case esp:
			esps = append(esps, e)
		}
	}
	if n := len(unstable); n > 0 {
		l.report("fstab-device-name", Warning, where, listOf(unstable)+plural(n, " names another disk", " name other disks")+
			" if the order of the disks changes.", "Write UUID= with what blkid shows for "+plural(n, "it", "each")+".")
	}
	l.checkESPMounts(esps)
	isSwapUnit := func(name string) bool { return strings.HasSuffix(name, ".swap") }
	swap = swap || slices.ContainsFunc(l.Services, isSwapUnit) || len(files(l.root, "etc/systemd/system", ".swap")) > 0
	if l.Hibernation && !swap && len(l.fstab()) > 0 && len(l.diskSwaps()) > 0 {
		l.report(
			"fstab-without-swap",
			Error,
			where,
			"Nothing activates the swap when the system starts, so the system cannot hibernate.",
			settingOf(l.swapDevice())+" none swap defaults 0 0",
		)
	}
}

// neverOpened reports whether a device of the device mapper is known not to be there, and not to be opened.
func (l *linter) neverOpened(dev string) bool {
	name, ok := strings.CutPrefix(dev, "/dev/mapper/")
	return ok && len(l.Blkid) > 0 && l.Blkid[dev] == nil && len(l.crypttab()) > 0 && l.linux() && !l.isSwap(dev) &&
		l.knowsArguments() && !names(l.kernelArguments().line, name) && !strings.HasPrefix(name, "luks-") &&
		!l.hasType("LVM2_member") && len(l.diskSwaps()) > 0 &&
		!slices.ContainsFunc(l.diskSwaps(), func(s installed.Swap) bool { return strings.HasPrefix(s.Device, "/dev/dm-") }) &&
		!slices.ContainsFunc(l.crypttab(), func(e cryptEntry) bool { return e.name == name })
}

// names reports whether an argument of a kernel ends in a name.
func names(cmdline, name string) bool {
	return slices.ContainsFunc(kernelWords(cmdline), func(a string) bool {
		return strings.HasSuffix(a, "="+name) || strings.HasSuffix(a, ":"+name)
	})
}

// checkESPMounts checks the options with which ESPs are mounted.
func (l *linter) checkESPMounts(esps []fstabEntry) {
	const nofail, umask = "nofail", "umask=0077"
	without := map[string]string{
		nofail: "without nofail, the system does not boot if this partition is missing, although the system does not need " +
			"the partition",
		umask: "without umask=0077 every user reads the loaders and the random seed",
	}
	lacking := map[string][]string{} // the mount points, by the options
	var order []string
	for _, e := range esps {
		var lacks []string
		automount := l.systemd() && e.has("x-systemd.automount")
		if !automount && !e.has(nofail) && !e.has("noauto") {
			lacks = append(lacks, nofail)
		}
		if e.fileMask()&0o007 != 0o007 {
			lacks = append(lacks, umask)
		}
		options := strings.Join(lacks, ",")
		if options == "" {
			continue
		}
		if lacking[options] == nil {
			order = append(order, options)
		}
		lacking[options] = append(lacking[options], e.target)
	}
	for _, options := range order {
		var why, targets []string
		for o := range strings.SplitSeq(options, ",") {
			why = append(why, without[o])
		}
		for _, target := range lacking[options] {
			targets = append(targets, settingOf(target))
		}
		l.report("esp-mount-options", Warning, "etc/fstab", fmt.Sprintf("%s: %s.", listOf(lacking[options]),
			strings.Join(why, "; ")), "Add "+options+" to the end of the options of "+listOf(targets)+".")
	}
}
