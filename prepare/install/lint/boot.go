package lint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/shell"
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

// checkCommandLines checks the arguments that ZFSBootMenu, or another loader, passes on, and those in the images.
func (l *linter) checkCommandLines() {
	if args := l.imageArguments(); args.line != "" && l.rootSet != "" {
		l.checkHostIDArgument(args)
		l.checkForce(args)
	}
	if !l.menu {
		if l.rootSet == "" || !l.linux() {
			return
		}
		args := l.kernelArguments()
		l.checkHostIDArgument(args)
		l.checkForce(args)
		file, _ := l.unifiedArguments()
		for _, u := range l.UKI {
			if !l.exists(file) && u.Cmdline != args.line { // else the next image has those of the file
				l.checkForce(kernelArguments{line: u.Cmdline, where: u.Path, apply: l.rebuildUnified()})
			}
		}
		return
	}
	for _, name := range l.Names() {
		if !l.isLocal(name, propCommandLine) {
			continue
		}
		p := l.Datasets[name][propCommandLine]
		where := name + " " + propCommandLine
		if strings.Contains(p.Value, parentArguments+"%") {
			l.report("commandline-parent-typo", Warning, where,
				"%{parent}% is a misprint in the manual of ZFSBootMenu: a % remains after the arguments of the parent.",
				"Write "+parentArguments+" without a second %.")
		}
		above, inherited := "", ""
		if parent := installed.Parent(name); parent != "" {
			a, p := l.setAt(parent, propCommandLine)
			above, inherited = a, p.Value
		}
		if above != "" && !strings.Contains(p.Value, parentArguments) && lost(inherited, p.Value) != "" {
			l.report("commandline-drops-parent", Warning, where, fmt.Sprintf(
				"This value replaces the value inherited from %s, so the arguments %s do not reach the "+
					"kernel.", above, lost(inherited, p.Value)),
				fmt.Sprintf("zfs set %s=%s %s", propCommandLine, shell.Quote(parentArguments+" "+p.Value), shell.Quote(name)))
		}
		if v, ok := argument(p.Value, "root"); ok && !strings.Contains(v, name) && v != "zfs:AUTO" && v != "ZFS=AUTO" {
			l.report("commandline-root", Info, where,
				"root="+v+" has no effect: ZFSBootMenu replaces root= with the dataset that it starts.", "Remove root=.")
		}
		args := kernelArguments{line: p.Value, where: where}
		l.checkHostIDArgument(args)
		l.checkForce(args)
	}
}

// checkForce finds arguments that import a pool that is not exported.
func (l *linter) checkForce(args kernelArguments) {
	for _, name := range []string{"zfs_force", "zfs.force", "zfsforce"} { // of zfs-initramfs and zfs-dracut
		if v, ok := argument(args.line, name); ok && !installed.SurelyOff(v) {
			l.report("import-forced", Error, args.at(name),
				name+" imports the pool even if another system uses it, such as a hibernated one.",
				args.then("Remove "+name))
		}
	}
}

// checkForcedImport finds files that import pools by force.
func (l *linter) checkForcedImport() {
	const defaults = "etc/default/zfs" // which the import of zfs-initramfs and the units read
	report := func(f, option string, apply string) {
		l.report("import-forced", Error, f,
			"-f imports the pool even if another system uses it, such as a hibernated one.",
			"Remove -f from "+option+", then "+apply+".")
	}
	options := assignments(l.text(defaults), map[string]string{})["ZPOOL_IMPORT_OPTS"]
	if forces(strings.Fields(options)) && l.rootSet != "" {
		report(defaults, "ZPOOL_IMPORT_OPTS", l.rebuild())
		return
	}
	if !l.systemd() {
		return
	}
	for _, unit := range []string{"zfs-import-scan.service", "zfs-import-cache.service"} {
		for _, f := range l.unitFiles(unit) {
			for _, line := range lines(joinLines(l.text(f))) {
				key, command, _ := strings.Cut(line, "=")
				if w := strings.Fields(command); strings.TrimSpace(key) == "ExecStart" && slices.Contains(w, "import") &&
					forces(w) {
					report(f, "ExecStart", l.rebuild())
					return
				}
			}
		}
	}
}

// forces reports whether arguments of zpool import have the option -f, which may be joined with others: -aNf.
func forces(words []string) bool {
	for i := 0; i < len(words); i++ {
		options, ok := strings.CutPrefix(words[i], "-")
		if !ok || strings.HasPrefix(options, "-") {
			continue
		}
		if at := strings.IndexAny(options, "RTcdo"); at >= 0 { // the rest, or the next word, is its value
			if at == len(options)-1 {
				i++
			}
			options = options[:at]
		}
		if strings.Contains(options, "f") {
			return true
		}
	}
	return false
}

// checkBootEnvironments checks the datasets that are /.
func (l *linter) checkBootEnvironments() {
	if l.rootSet == "" {
		return
	}
	// On NetBSD the RAM disk mounts the root by its name.
	if l.linux() {
		all := l.environments()
		// A loader that starts the only environment, or zsys, which changes canmount before it starts another one.
		chosen := !l.menu && len(all) == 1
		for _, name := range all {
			d := l.Datasets[name]
			switch d["canmount"].Value {
			case "off":
				if name != l.rootSet {
					continue // a parent that only hands its mountpoint down
				}
				l.report("environment-canmount", Warning, name+" canmount",
					"zfs mount refuses the root: a rescue system or another boot environment cannot mount it.",
					"zfs set canmount=noauto "+shell.Quote(name))
			case "on":
				if d["mountpoint"].Value == "legacy" || chosen || d["com.ubuntu.zsys:bootfs"].Value == "yes" {
					continue
				}
				l.report("environment-canmount", Error, name+" canmount",
					"An import that mounts datasets mounts this one at /, even if the system was started from another one.",
					"zfs set canmount=noauto "+shell.Quote(name))
			}
		}
	}
	pool, p := l.rootPool()
	bootfs := p.Props["bootfs"]
	switch d, there := l.Datasets[bootfs]; {
	case !l.linux() || bootfs == "" || len(l.Datasets) == 0: // unknown
	case bootfs == "-":
		if l.menu {
			l.report("bootfs-unset", Warning, pool+" bootfs",
				"Without bootfs, ZFSBootMenu does not start a system by itself: it asks at each start.", fmt.Sprintf(
					"zpool set bootfs=%s %s", shell.Quote(l.rootSet), shell.Quote(pool)))
		}
	case !there:
		l.report("bootfs-missing", Error, pool+" bootfs", "There is no dataset "+bootfs+".",
			fmt.Sprintf("zpool set bootfs=%s %s", shell.Quote(l.rootSet), shell.Quote(pool)))
	case d["mountpoint"].Value == "":
	case d["mountpoint"].Value != "/" && d["mountpoint"].Value != "legacy":
		l.report("bootfs-no-root", Error, pool+" bootfs",
			fmt.Sprintf("%s is not a boot environment: its mountpoint is %s.", bootfs, d["mountpoint"].Value),
			fmt.Sprintf("zpool set bootfs=%s %s", shell.Quote(l.rootSet), shell.Quote(pool)))
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
		case d[propActive].Unknown:
		case d["mountpoint"].Value == "legacy" && active != "on":
			l.report("environment-not-listed", Error, name+" mountpoint",
				"ZFSBootMenu lists a dataset with a legacy mountpoint only if "+propActive+" is on.",
				fmt.Sprintf("zfs set %s=on %s", propActive, shell.Quote(name)))
		case active == "off" && name == l.rootSet:
			l.report("environment-not-listed", Error, name+" "+propActive,
				"The running system is on this dataset, which ZFSBootMenu does not list.",
				fmt.Sprintf("zfs inherit %s %s", propActive, shell.Quote(name)))
		}
	}
	pool, root := l.rootPool()
	for _, v := range root.VDevs {
		if strings.HasPrefix(v, "/dev/mapper/") || strings.HasPrefix(v, "/dev/dm-") ||
			strings.HasPrefix(v, "/dev/disk/by-id/dm-") {
			l.report("pool-behind-mapper", Error, pool+" vdevs",
				"Releases of ZFSBootMenu have no device mapper and no cryptsetup: they do not see the pool on "+v+".",
				"Put the pool on a partition, and encrypt it with the encryption of ZFS; or build "+
					"an image of ZFSBootMenu that opens "+v+".")
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
	for _, f := range l.fstab() {
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
		p := l.Datasets[name][propKeySource]
		if !l.isLocal(name, propKeySource) || p.Value == "" {
			continue
		}
		where := name + " " + propKeySource
		d, there := l.Datasets[p.Value]
		switch {
		case !there:
			l.report("keysource-missing", Warning, where, "There is no dataset "+p.Value+
				": ZFSBootMenu asks for the passphrase of each dataset.",
				fmt.Sprintf("zfs set %s=%s %s", propKeySource, shell.Quote(l.rootSet), shell.Quote(name)))
		case d["encryption"].Value == "": // unknown
		case d["encryption"].Value == "off":
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
						fmt.Sprintf("zfs set %s=%s %s", propKeySource, shell.Quote(l.rootSet), shell.Quote(name)))
					break
				}
			}
		}
	}
	if r := l.encryptionRoot(l.rootSet); r != "" {
		if f := l.Datasets[r]["keyformat"].Value; f != "" && f != "passphrase" && f != "-" && f != "none" {
			l.report("key-cannot-be-typed", Warning, r+" keyformat",
				"ZFSBootMenu asks for a passphrase; a key of format "+f+" cannot be typed when the file is lost.",
				"zfs change-key -o keyformat=passphrase "+shell.Quote(r))
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
		if l.isLocal(name, propReadOnly) {
			fix := fmt.Sprintf("zpool set %s=on %s", propReadOnly, shell.Quote(installed.PoolOf(name)))
			if older(l.Tools["zfs"], "2.2") {
				fix = fmt.Sprintf("zfs inherit %s %s; only OpenZFS 2.2 and later can set it on a pool", propReadOnly,
					shell.Quote(name))
			}
			l.report("readonly-on-dataset", Warning, name+" "+propReadOnly,
				propReadOnly+" is a property of the pool: on a dataset it does nothing.", fix)
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
			"ZFSBootMenu checks for a hibernation image, but does not see one inside LUKS. If ZFSBootMenu imports the pool "+
				"for writing while the system is hibernated, the resume damages the pool.",
			fmt.Sprintf("zpool set %s=on %s", propReadOnly, shell.Quote(pool)))
	case older(l.ZBM.Version, "3.1"):
		l.report("menu-too-old-for-readonly", Error, "zbm",
			"ZFSBootMenu "+l.ZBM.Version+" does not know "+propReadOnly+": if asked, it imports the pool of a hibernated "+
				"system for writing.", "Install ZFSBootMenu 3.1.0 or later.")
	}
}

// checkKernelChoice checks the expression that chooses a kernel.
func (l *linter) checkKernelChoice() {
	at, p := l.setAt(l.rootSet, propKernel)
	expr := p.Value
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
			fmt.Sprintf("zfs inherit %s %s", propKernel, shell.Quote(at)))
	}
}

// rebuild is the command that makes all initial RAM disks again, and the unified images with them.
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
	case len(l.UKI) > 0 && l.dracut().vars["uefi"] != "yes":
		return "kernel-install add-all"
	default:
		return "dracut --regenerate-all --force"
	}
}

// rebuildUnified is the command that makes all unified images again.
func (l *linter) rebuildUnified() string {
	if l.tool == "initramfs-tools" { // which makes no unified image
		return "kernel-install add-all"
	}
	return l.rebuild()
}
