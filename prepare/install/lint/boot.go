package lint

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"math/bits"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/prepare/install/installed"
)

// Properties of ZFSBootMenu.
const (
	propCommandLine = "org.zfsbootmenu:commandline"
	propKeySource   = "org.zfsbootmenu:keysource"
	propReadOnly    = "org.zfsbootmenu:readonly"
	propActive      = "org.zfsbootmenu:active"
	propKernel      = "org.zfsbootmenu:kernel"
)

const parentArguments = "%{parent}"

// setAt returns the dataset from which a dataset has a property of a user, and the value.
func (l *linter) setAt(dataset, prop string) (string, string) {
	for d := dataset; d != ""; d = installed.Parent(d) {
		p, ok := l.Datasets[d][prop]
		if !ok {
			continue
		}
		if from, inherited := strings.CutPrefix(p.Source, "inherited from "); inherited && from != d {
			if v, ok := l.Datasets[from][prop]; ok {
				return from, v.Value
			}
		}
		return d, p.Value
	}
	return "", ""
}

// menuArguments returns the arguments that ZFSBootMenu passes to the kernel of a dataset.
func (l *linter) menuArguments(dataset string) string {
	at, value := l.setAt(dataset, propCommandLine)
	if at == "" {
		return "quiet loglevel=4" // the default
	}
	if strings.Contains(value, parentArguments) {
		above := ""
		if p := installed.Parent(at); p != "" {
			if a, _ := l.setAt(p, propCommandLine); a != "" {
				above = l.menuArguments(p)
			}
		}
		value = strings.ReplaceAll(value, parentArguments, above)
	}
	return value
}

// arguments returns the arguments of the kernel, and where they are written.
func (l *linter) arguments() (string, string) {
	switch {
	case l.menu:
		at, _ := l.setAt(l.rootSet, propCommandLine)
		if at == "" {
			at = l.rootSet
		}
		return l.menuArguments(l.rootSet), at + " " + propCommandLine
	case len(l.UKI) > 0 || l.exists("etc/kernel/cmdline"):
		return l.text("etc/kernel/cmdline"), "etc/kernel/cmdline"
	default:
		v := assignments(l.text(grubDefaults), map[string]string{})
		for _, f := range files(l.root, "etc/default/grub.d", ".cfg") {
			assignments(l.text(f), v)
		}
		return strings.TrimSpace(v["GRUB_CMDLINE_LINUX"] + " " + v["GRUB_CMDLINE_LINUX_DEFAULT"]), grubDefaults
	}
}

// knowsArguments reports whether the arguments of the kernel are among the facts.
func (l *linter) knowsArguments() bool {
	if l.menu {
		return l.Datasets != nil
	}
	_, where := l.arguments()
	return where != grubDefaults || l.exists(grubDefaults)
}

// loaderUnknown reports whether nobody knows what starts the system, and with which arguments.
func (l *linter) loaderUnknown() bool {
	return !l.knowsArguments() && (l.menu || l.Bootloader == "")
}

// grubDefaults is the file with the arguments that GRUB gives to the kernel.
const grubDefaults = "etc/default/grub"

// checkCommandLines checks the arguments that ZFSBootMenu passes on.
func (l *linter) checkCommandLines() {
	if !l.menu {
		if l.rootSet != "" && l.linux() {
			args, where := l.arguments()
			l.checkHostIDArgument(where, args)
			l.checkForce(where, args)
		}
		return
	}
	for _, name := range l.Names() {
		p, ok := l.Datasets[name][propCommandLine]
		if !ok || !p.Local() {
			continue
		}
		where := name + " " + propCommandLine
		if strings.Contains(p.Value, parentArguments+"%") {
			l.report("commandline-parent-typo", Warning, where,
				"%{parent}% is a misprint in the manual of ZFSBootMenu: a % remains after the arguments of the parent.",
				"Write "+parentArguments+" without a second %.")
		}
		above, inherited := "", ""
		if parent := installed.Parent(name); parent != "" {
			above, inherited = l.setAt(parent, propCommandLine)
		}
		if above != "" && !strings.Contains(p.Value, parentArguments) && lost(inherited, p.Value) != "" {
			l.report("commandline-drops-parent", Warning, where, fmt.Sprintf(
				"The value replaces that of %s: the arguments %s do not reach the kernel.", above, lost(inherited, p.Value)),
				fmt.Sprintf("zfs set %s='%s %s' %s", propCommandLine, parentArguments, p.Value, name))
		}
		if v, ok := argument(p.Value, "root"); ok && !strings.Contains(v, name) && v != "zfs:AUTO" && v != "ZFS=AUTO" {
			l.report("commandline-root", Info, where,
				"root="+v+" has no effect: ZFSBootMenu replaces root= with the dataset that it starts.", "Remove root=.")
		}
		l.checkHostIDArgument(where, p.Value)
		l.checkForce(where, p.Value)
	}
}

// checkForce finds arguments that import a pool that is not exported.
func (l *linter) checkForce(where, cmdline string) {
	if v, ok := argument(cmdline, "zfs_force"); ok && v != "0" && v != "no" || argumentIs(cmdline, "zfs.force") {
		l.report("import-forced", Error, where,
			"zfs_force imports the pool even if another system uses it, such as a hibernated one.", "Remove zfs_force.")
	}
}

// lost returns the arguments of a line that another one lacks.
func lost(from, to string) string {
	have := strings.Fields(to)
	return strings.Join(slices.DeleteFunc(strings.Fields(from), func(a string) bool {
		return a == parentArguments || slices.Contains(have, a)
	}), " ")
}

// checkHostIDArgument checks spl_hostid= and spl.spl_hostid=.
func (l *linter) checkHostIDArgument(where, cmdline string) {
	for _, name := range []string{"spl_hostid", "spl.spl_hostid"} {
		v, ok := argument(cmdline, name)
		if !ok {
			continue
		}
		want, known := l.hostID()
		switch {
		case name == "spl.spl_hostid" && !strings.HasPrefix(v, "0x"):
			l.report("hostid-argument-form", Warning, where,
				"The module reads spl.spl_hostid="+v+" as a decimal number, or ignores it, because it has no 0x.",
				"Write spl.spl_hostid=0x"+v+".")
		case name == "spl_hostid" && l.menu && decimal.MatchString(v):
			l.report("hostid-argument-form", Warning, where,
				"ZFSBootMenu reads spl_hostid="+v+" as a decimal number, because it has no 0x.", "Write spl_hostid=0x"+v+".")
		case known && !sameID(v, want):
			l.report("hostid-argument-differs", Error, where,
				fmt.Sprintf("The kernel starts with the hostid %s, but etc/hostid has 0x%08x.", v, want),
				"Remove the argument: the initramfs has the hostid.")
		}
	}
}

var decimal = lazy.Compile(`^[0-9]+$`)

// checkBootEnvironments checks the datasets that are /.
func (l *linter) checkBootEnvironments() {
	if l.rootSet == "" {
		return
	}
	// On NetBSD the RAM disk mounts the root by its name.
	if l.linux() {
		for _, name := range l.environments() {
			switch l.Datasets[name]["canmount"].Value {
			case "off":
				if name != l.rootSet {
					continue // a parent that only hands its mountpoint down
				}
				l.report("environment-canmount", Warning, name+" canmount",
					"zfs mount refuses the root: a rescue system or another boot environment cannot mount it.",
					"zfs set canmount=noauto "+name)
			case "on":
				l.report("environment-canmount", Error, name+" canmount",
					"An import that mounts datasets mounts this one at /, although another one may have been started.",
					"zfs set canmount=noauto "+name)
			}
		}
	}
	pool, p := l.rootPool()
	bootfs := p.Props["bootfs"]
	switch d := l.Datasets[bootfs]; {
	case !l.linux() || p.Props == nil || len(l.Datasets) == 0:
	case bootfs == "" || bootfs == "-":
		if l.menu {
			l.report("bootfs-unset", Warning, pool+" bootfs",
				"Without bootfs ZFSBootMenu does not count down, and asks at each start.", fmt.Sprintf(
					"zpool set bootfs=%s %s", l.rootSet, pool))
		}
	case d == nil:
		l.report("bootfs-missing", Error, pool+" bootfs", "There is no dataset "+bootfs+".",
			fmt.Sprintf("zpool set bootfs=%s %s", l.rootSet, pool))
	case d["mountpoint"].Value == "":
	case d["mountpoint"].Value != "/" && d["mountpoint"].Value != "legacy":
		l.report("bootfs-no-root", Error, pool+" bootfs",
			fmt.Sprintf("%s is not a boot environment: its mountpoint is %s.", bootfs, d["mountpoint"].Value),
			fmt.Sprintf("zpool set bootfs=%s %s", l.rootSet, pool))
	}
}

// checkMenu checks what ZFSBootMenu needs to list, open and start the system.
func (l *linter) checkMenu() {
	if !l.menu {
		return
	}
	for _, name := range l.environments() {
		d := l.Datasets[name]
		switch active := d[propActive].Value; {
		case d["mountpoint"].Value == "legacy" && active != "on":
			l.report("environment-not-listed", Error, name+" mountpoint",
				"ZFSBootMenu lists a dataset with a legacy mountpoint only if "+propActive+" is on.",
				fmt.Sprintf("zfs set %s=on %s", propActive, name))
		case active == "off" && name == l.rootSet:
			l.report("environment-not-listed", Error, name+" "+propActive,
				"ZFSBootMenu does not list the dataset with the running system.",
				fmt.Sprintf("zfs inherit %s %s", propActive, name))
		}
	}
	pool, root := l.rootPool()
	for _, v := range root.VDevs {
		if strings.HasPrefix(v, "/dev/mapper/") || strings.HasPrefix(v, "/dev/dm-") ||
			strings.HasPrefix(v, "/dev/disk/by-id/dm-") {
			l.report("pool-behind-mapper", Error, pool+" vdevs",
				"Releases of ZFSBootMenu have no device mapper and no cryptsetup: they do not see the pool on "+v+".",
				"Put the pool on a partition, and encrypt it by ZFS; or build an image of ZFSBootMenu that opens "+v+".")
			break
		}
	}
	l.checkMenuBoot()
	l.checkKeySource()
	l.checkReadOnly()
	l.checkKernelChoice()
	for _, f := range files(l.root, "boot", ".kcl") {
		if v := l.ZBM.Version; v != "" && compareVersions(v, "3.1.0") <= 0 {
			l.report("kernel-arguments-unread", Warning, f, "ZFSBootMenu "+v+" does not read the arguments in this file.",
				"Write them into "+propCommandLine+".")
		}
	}
}

// checkMenuBoot checks that /boot is in the boot environment.
func (l *linter) checkMenuBoot() {
	const why = "ZFSBootMenu looks for kernels in /boot of the boot environment, and finds none there: " +
		"/boot is another filesystem."
	const fix = "Copy the kernels into the boot environment, and mount nothing at /boot."
	for _, name := range l.Names() {
		if d := l.Datasets[name]; d["mountpoint"].Value == "/boot" && d["canmount"].Value != "off" {
			l.report("boot-not-in-environment", Error, name+" mountpoint", why, fix)
			l.bootElsewhere = true
			return
		}
	}
	for _, f := range l.fstab {
		if f.target == "/boot" {
			l.report("boot-not-in-environment", Error, "etc/fstab", why, fix)
			l.bootElsewhere = true
			return
		}
	}
	for _, m := range l.Mounts {
		if m.Target == "/boot" && m.Source != l.rootSet {
			l.report("boot-not-in-environment", Error, m.Source, why, fix)
			l.bootElsewhere = true
			return
		}
	}
}

// checkKeySource checks the dataset in which ZFSBootMenu looks for keys.
func (l *linter) checkKeySource() {
	for _, name := range l.Names() {
		p, ok := l.Datasets[name][propKeySource]
		if !ok || !p.Local() || p.Value == "" {
			continue
		}
		where := name + " " + propKeySource
		d, there := l.Datasets[p.Value]
		switch {
		case !there:
			l.report("keysource-missing", Warning, where, "There is no dataset "+p.Value+
				": ZFSBootMenu asks for the passphrase of each dataset.",
				fmt.Sprintf("zfs set %s=%s %s", propKeySource, l.rootSet, name))
		case d["encryption"].Value == "" || d["encryption"].Value == "off":
			l.report("keysource-not-encrypted", Error, where,
				"The key is in "+p.Value+", which is not encrypted: anybody who has the disk has the key.",
				"Keep the key in an encrypted dataset, and name it here.")
		default:
			for _, root := range l.Names() { // which may have the property from here
				file, isFile := keyFile(l.Datasets[root]["keylocation"].Value)
				from, _ := l.setAt(root, propKeySource)
				if isFile && from == name && l.encryptionRoot(root) == root && !l.keyIn(p.Value, file) {
					l.report("keysource-without-key", Warning, where,
						fmt.Sprintf("%s is not in %s: ZFSBootMenu does not find the key of %s.", file, p.Value, root),
						fmt.Sprintf("zfs set %s=%s %s", propKeySource, l.rootSet, name))
					break
				}
			}
		}
	}
	if r := l.encryptionRoot(l.rootSet); r != "" {
		if f := l.Datasets[r]["keyformat"].Value; f != "" && f != "passphrase" && f != "-" && f != "none" {
			l.report("key-cannot-be-typed", Warning, r+" keyformat",
				"ZFSBootMenu asks for a passphrase; a key of format "+f+" cannot be typed when the file is lost.",
				"zfs change-key -o keyformat=passphrase "+r)
		}
	}
}

// keyIn reports whether a key of the system may be in a dataset: below its mountpoint, and
// below that of no dataset inside.
func (l *linter) keyIn(dataset, file string) bool {
	at := l.Datasets[dataset]["mountpoint"].Value
	if at == "legacy" && dataset == l.rootSet {
		at = "/"
	}
	if at == "legacy" || at == "none" || at != "/" && l.exists(strings.TrimPrefix(path.Join(at, file), "/")) {
		return true // the full path inside the dataset
	}
	if !within(file, at) {
		return false
	}
	for name, d := range l.Datasets {
		m := d["mountpoint"].Value
		if name != dataset && m != at && len(m) > len(at) && within(file, m) && d["canmount"].Value != "off" {
			return false
		}
	}
	return true
}

// within reports whether a path is below a folder.
func within(file, folder string) bool {
	return strings.HasPrefix(folder, "/") && strings.HasPrefix(file, strings.TrimSuffix(folder, "/")+"/")
}

// checkReadOnly checks that ZFSBootMenu does not write to the pool of a hibernated system.
func (l *linter) checkReadOnly() {
	for _, name := range l.Names() {
		if p, ok := l.Datasets[name][propReadOnly]; ok && p.Local() {
			l.report("readonly-on-dataset", Warning, name+" "+propReadOnly,
				propReadOnly+" is a property of the pool: on a dataset it does nothing.",
				fmt.Sprintf("zpool set %s=on %s", propReadOnly, installed.PoolOf(name)))
			if l.Hibernation {
				return // the pool then lacks it for this reason
			}
		}
	}
	pool, p := l.rootPool()
	if !l.Hibernation || pool == "" || p.Props == nil || !atLeast(l.Tools["zfs"], "2.2") {
		return // older pools cannot have such properties, and the properties of this one may be unknown
	}
	switch v := p.Props[propReadOnly]; {
	case v == "" || v == "-" || v == "off":
		l.report("readonly-unset", Error, pool+" "+propReadOnly,
			"The guard of ZFSBootMenu does not see a hibernation image inside LUKS. If somebody lets it import the pool "+
				"for writing while the system is hibernated, the pool is damaged on resume.",
			fmt.Sprintf("zpool set %s=on %s", propReadOnly, pool))
	case older(l.ZBM.Version, "3.1"):
		l.report("menu-too-old-for-readonly", Error, "zbm",
			"ZFSBootMenu "+l.ZBM.Version+" does not know "+propReadOnly+": it imports the pool of a hibernated system for "+
				"writing when asked.", "Install ZFSBootMenu 3.1.0 or later.")
	}
}

// checkKernelChoice checks the expression that chooses a kernel.
func (l *linter) checkKernelChoice() {
	at, expr := l.setAt(l.rootSet, propKernel)
	if expr == "" || expr == "-" {
		return
	}
	re, err := regexp.Compile(expr)
	match := err == nil && slices.ContainsFunc(l.Kernels, func(k installed.Kernel) bool {
		return re.MatchString(path.Base(k.Image)) || re.MatchString(k.Version)
	})
	if !match && len(l.Kernels) > 0 {
		l.report("kernel-choice-matches-none", Warning, at+" "+propKernel,
			"No kernel in /boot matches "+strconv.Quote(expr)+": ZFSBootMenu starts the newest one.",
			fmt.Sprintf("zfs inherit %s %s", propKernel, at))
	}
}

// defaultHostID is what the examples of ZFSBootMenu write into etc/hostid.
const defaultHostID = 0x00bab10c

// hostID returns the hostid of the system.
func (l *linter) hostID() (uint32, bool) {
	if l.root == nil {
		return 0, false
	}
	data, err := fs.ReadFile(l.root, follow(l.root, "etc/hostid"))
	if err != nil || len(data) != 4 {
		return 0, false
	}
	return binary.LittleEndian.Uint32(data), true
}

// sameID compares a hexadecimal hostid, with or without 0x, with a number.
func sameID(text string, id uint32) bool {
	n, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(text), "0x"), 16, 64)
	return err == nil && n == uint64(id)
}

// checkHostID compares the hostids of the system, its images and its pool.
func (l *linter) checkHostID() {
	const where = "etc/hostid"
	if l.rootSet == "" || !l.linux() {
		return
	}
	id, ok := l.hostID()
	switch {
	case !l.exists(where):
		l.report(
			"hostid-missing",
			Error,
			where,
			"Without etc/hostid the next initramfs gets an arbitrary hostid, and the pool is refused as that of "+
				"another machine.",
			"zgenhostid, and rebuild every initramfs",
		)
		return
	case !ok && l.leadsNowhere(where):
		return
	case !ok:
		l.report("hostid-form", Error, where, "etc/hostid must have 4 bytes, a number in little endian, not text.",
			"zgenhostid -f, and rebuild every initramfs")
		return
	case id == 0:
		l.report("hostid-zero", Error, where, "The hostid is 0: the pool cannot tell machines apart.",
			"zgenhostid -f, and rebuild every initramfs")
		return
	case id == defaultHostID:
		l.report("hostid-literal", Warning, where,
			"0x00bab10c is the hostid of the examples: every machine that followed them has the same hostid, and does not "+
				"refuse a pool that another of these machines uses.",
			"zgenhostid -f, rebuild every initramfs, and export and import the pool")
	}
	pool, p := l.rootPool()
	stale, other := []string{}, ""
	for _, k := range l.Kernels {
		image, there := l.Initramfs[k.Initramfs]
		if there && image.HostID != nil && !sameID(*image.HostID, id) {
			stale, other = append(stale, k.Initramfs), *image.HostID
		}
	}
	swapped := bits.ReverseBytes32(id)
	switch {
	case sameID(p.Label.HostID, swapped) && swapped != id, sameID(other, swapped) && swapped != id:
		l.report("hostid-form", Error, where, fmt.Sprintf(
			"etc/hostid has the bytes of 0x%08x in the wrong order: it is a number in little endian.", swapped),
			fmt.Sprintf("zgenhostid -f 0x%08x, and rebuild every initramfs", swapped))
	case len(stale) > 0:
		l.report("hostid-initramfs-differs", Error, stale[0], fmt.Sprintf(
			"The initramfs has the hostid %s, and etc/hostid 0x%08x (%s).", other, id, strings.Join(stale, ", ")),
			l.rebuild())
	case p.Label.HostID != "" && !sameID(p.Label.HostID, id):
		l.report("hostid-pool-differs", Error, where, fmt.Sprintf(
			"Pool %s was last used by the host %s; this system is 0x%08x. It cannot import its own root without force.",
			pool, p.Label.HostID, id), fmt.Sprintf("zgenhostid -f %s, and rebuild every initramfs",
			p.Label.HostID))
	}
}

// rebuild is the command that makes all initial RAM disks again.
func (l *linter) rebuild() string {
	switch {
	case l.tool == "initramfs-tools":
		return "update-initramfs -u -k all"
	case l.OS.ID == "void":
		return "xbps-reconfigure -fa"
	case l.tool == "mkinitcpio":
		return "mkinitcpio -P"
	case l.tool == "mkinitfs":
		return "mkinitfs KERNEL"
	case l.OS.ID == "nixos":
		return "nixos-rebuild boot"
	default:
		return "dracut --regenerate-all --force"
	}
}
