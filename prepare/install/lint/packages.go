package lint

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/base/shell"
	"bakeoff/prepare/install/installed"
)

// checkKernels checks that each kernel has its ZFS module and its image.
func (l *linter) checkKernels() {
	if l.rootSet == "" || !l.linux() {
		return
	}
	newest, _ := l.newest()
	headers := len(l.debianHeaders())+len(l.voidHeaders()) > 0
	for _, k := range l.Kernels {
		severity := Warning
		if k.Version == newest.Version {
			severity = Error // the one that starts
		}
		_, known := l.Initramfs[k.Initramfs]
		switch {
		case isUnset(k.ZFSModule) && headers: // kernel-headers-missing
		case isUnset(k.ZFSModule):
			l.report("kernel-without-zfs", severity, k.Image, fmt.Sprintf(
				"Linux %s has no ZFS module, and cannot mount the root. %s may be too old for it, or its "+
					"headers are missing.", k.Version, strings.TrimSpace("OpenZFS "+l.Tools["zfs"])),
				"Install kernel, headers and ZFS from one suite, and run dkms autoinstall; or remove the kernel."+l.stayBehind())
		case len(l.UKI) == 0 && (k.Initramfs == "" && l.isAlone(k) || k.Initramfs != "" &&
			(!known && l.root != nil && !l.exists(k.Initramfs) || !paired(k))):
			l.report("kernel-without-initramfs", severity, k.Image, "Linux "+k.Version+
				" has no initial RAM disk of its version next to it.", l.rebuild())
		case k.ZFSModuleVersion != "" && l.Tools["zfs"] != "" && release(k.ZFSModuleVersion) != release(l.Tools["zfs"]):
			fix := "dkms autoinstall, then " + l.rebuild()
			if dkms := l.Packages["zfs-dkms"]; dkms != "" && release(dkms) != release(l.Tools["zfs"]) {
				fix = "Install zfs-dkms and zfsutils-linux of one version"
				if strings.Contains(dkms, "~bpo") {
					fix = l.fromBackports()
				}
				fix = strings.TrimSuffix(fix, ".") + ", then " + l.rebuild()
			}
			l.report("zfs-versions-differ", Warning, "packages", fmt.Sprintf(
				"The ZFS module of Linux %s is %s, and the ZFS programs are %s.",
				k.Version,
				k.ZFSModuleVersion,
				l.Tools["zfs"],
			), fix)
		}
	}
}

// isAlone reports whether no initial RAM disk of a kernel is in its folder.
func (l *linter) isAlone(k installed.Kernel) bool {
	return k.Image != "" && l.exists(k.Image) && !slices.ContainsFunc(files(l.root, path.Dir(k.Image), ""),
		func(f string) bool {
			return strings.HasPrefix(path.Base(f), "initr") && paired(installed.Kernel{Image: k.Image, Initramfs: f})
		})
}

// paired reports whether an initial RAM disk belongs to its kernel by name, as loaders find
// it: initramfs-lts to vmlinuz-lts. Images of other names are paired by a configuration.
func paired(k installed.Kernel) bool {
	image, initramfs := path.Base(k.Image), path.Base(k.Initramfs)
	for _, prefix := range []string{"vmlinuz-", "vmlinux-", "kernel-"} {
		if name, ok := strings.CutPrefix(image, prefix); ok {
			return strings.Contains(initramfs, name)
		}
	}
	return true
}

// checkUnifiedImages checks unified kernel images.
func (l *linter) checkUnifiedImages() {
	if len(l.UKI) == 0 || l.rootSet == "" {
		return
	}
	file, written := l.unifiedArguments()
	build := l.rebuildUnified()
	unwritten := false
	if l.root != nil && !l.exists(file) && !strings.Contains(l.dracut().vars["kernel_cmdline"], "root=") {
		why := "The next unified image gets the command line of the system that builds the image, which may be a live system."
		fix := "echo " + shell.Quote(l.wantedArguments()) + " > /" + file
		for _, u := range l.UKI {
			if cmdline := strings.Join(strings.Fields(u.Cmdline), " "); cmdline != "" && !l.namesRoot(cmdline) {
				why += " " + u.Path + " has " + cmdline + ", which does not name the root."
				fix += ", then " + build
				break
			}
		}
		l.report("uki-without-cmdline", Error, file, why, fix)
		unwritten = true
	}
	if written != "" && !l.namesRoot(written) {
		l.report("cmdline-root", Error, file, "The arguments do not name the root "+l.rootSet+".",
			"root=ZFS="+settingOf(l.rootSet)+", then "+build)
		return
	}
	have := false
	newest, _ := l.newest()
	for _, u := range l.UKI {
		have = have || u.Kernel == newest.Version || u.Kernel == ""
		cmdline := strings.Join(strings.Fields(u.Cmdline), " ")
		switch {
		case cmdline == "": // unknown
		case !l.namesRoot(cmdline) && unwritten: // uki-without-cmdline
		case !l.namesRoot(cmdline):
			l.report("uki-root", Error, u.Path, "The arguments inside do not name the root "+l.rootSet+": "+cmdline,
				"Correct "+file+", then "+build+".")
		case written != "" && withoutRoot(cmdline) != withoutRoot(written): // another environment has another root
			l.report(
				"uki-cmdline-differs",
				Warning,
				u.Path,
				"The arguments inside are "+cmdline+", and "+file+" has "+written+".",
				build,
			)
		}
	}
	if !have && newest.Image != "" && newest.Version != "" {
		fix := build
		if strings.HasPrefix(build, "kernel-install") {
			fix = shell.Quote("kernel-install", "add", newest.Version, "/"+newest.Image)
		}
		l.report(
			"kernel-without-uki",
			Error,
			newest.Image,
			"Linux "+newest.Version+" has no unified image: it is never started.",
			fix,
		)
	}
	// Without a configuration, kernel-install makes no unified image; programs of other distributions may.
	installs := l.text("etc/kernel/install.conf") != "" || l.root != nil && l.OS.ID == "debian"
	if l.tool != "mkinitcpio" && installs && l.kernelInstall()["layout"] != "uki" && l.dracut().vars["uefi"] != "yes" {
		l.report(
			"uki-layout",
			Warning,
			"etc/kernel/install.conf",
			"The next kernel gets no unified image: layout is not uki.",
			"layout=uki",
		)
	}
}

// wantedArguments returns the arguments for the next unified image: those of the newest one, or if that does not
// start this system, those that start it.
func (l *linter) wantedArguments() string {
	if line := strings.Join(strings.Fields(l.kernelArguments().line), " "); l.namesRoot(line) {
		return line
	}
	line := "root=ZFS=" + l.rootSet + " ro quiet"
	if l.resume != nil {
		if b := l.Blkid[l.deviceOf(l.resume.source)]; b["TYPE"] == "crypto_LUKS" && l.tool != "initramfs-tools" {
			line += " rd.luks.uuid=" + b["UUID"]
		}
	}
	if l.Hibernation {
		line += " resume=" + l.swapDevice()
	}
	return line
}

// kernelInstall returns the settings of kernel-install.
func (l *linter) kernelInstall() map[string]string {
	vars := map[string]string{}
	file := "usr/lib/kernel/install.conf"
	if l.exists("etc/kernel/install.conf") { // which replaces that one
		file = "etc/kernel/install.conf"
	}
	for _, f := range append([]string{file},
		l.dropIns(".conf", "usr/lib/kernel/install.conf.d", "etc/kernel/install.conf.d")...) {
		assignments(l.text(f), vars)
	}
	return vars
}

// unifiedArguments returns the file with the arguments of the next unified image, and the arguments.
func (l *linter) unifiedArguments() (file, line string) {
	if l.tool == "mkinitcpio" {
		if parts := files(l.root, "etc/cmdline.d", ".conf"); len(parts) > 0 {
			var all []string
			for _, f := range parts {
				all = append(all, lines(l.text(f))...)
			}
			return parts[len(parts)-1], strings.Join(strings.Fields(strings.Join(all, " ")), " ")
		}
	}
	for _, f := range []string{kernelCmdline, "usr/lib/kernel/cmdline"} {
		if l.exists(f) {
			return f, strings.Join(strings.Fields(strings.Join(lines(l.text(f)), " ")), " ")
		}
	}
	return kernelCmdline, ""
}

// dropIns returns the files of folders whose names end in suffix, by name. A file of a later folder replaces
// one of the same name.
func (l *linter) dropIns(suffix string, folders ...string) (out []string) {
	byName := map[string]string{}
	for _, folder := range folders {
		for _, f := range files(l.root, folder, suffix) {
			byName[path.Base(f)] = f
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, byName[name])
	}
	return out
}

// withoutRoot removes the arguments that name the root.
func withoutRoot(cmdline string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(cmdline), func(a string) bool {
		return strings.HasPrefix(a, "root=") || strings.HasPrefix(a, "zfs=")
	}), " ")
}

// namesRoot reports whether arguments name a root that exists.
func (l *linter) namesRoot(cmdline string) bool {
	v, ok := argument(cmdline, "root")
	if zfs, of := argument(cmdline, "zfs"); of {
		v, ok = zfs, true // of mkinitcpio
	}
	v = strings.Trim(strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(v, "ZFS="), "zfs:"), "zfs="), `"`)
	return ok && (l.Datasets == nil || slices.Contains([]string{l.rootSet, "AUTO", "zfs", "bootfs"}, v) ||
		slices.Contains(l.environments(), v))
}

// link returns what a symbolic link names, "" if the file is none.
func (l *linter) link(name string) string {
	if l.root == nil {
		return ""
	}
	t, err := fs.ReadLink(l.root.FS, name)
	if err != nil {
		return ""
	}
	return t
}

// hasPackage reports whether a package is installed whose name begins so.
func (l *linter) hasPackage(prefix string) bool {
	for name := range l.Packages {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// lacksSystemdCryptsetup reports whether the images of dracut open no encrypted disk, as their systemd lacks the
// program.
func (l *linter) lacksSystemdCryptsetup() bool {
	return l.OS.ID == "debian" && len(l.Packages) > 0 && l.tool == "dracut" && l.resume != nil && l.systemd() &&
		atLeast(l.OS.Version, "13") && !l.hasPackage("systemd-cryptsetup")
}

// lacksZFSPackage returns the package that puts ZFS into the images of Debian if it is missing, "" otherwise.
func (l *linter) lacksZFSPackage() string {
	name := map[string]string{"dracut": "zfs-dracut", "initramfs-tools": "zfs-initramfs"}[l.tool]
	if l.OS.ID != "debian" || len(l.Packages) == 0 || l.rootSet == "" || name == "" || l.hasPackage(name) {
		return ""
	}
	return name
}

// checkDebian checks what only Debian has.
func (l *linter) checkDebian() {
	if l.OS.ID != "debian" || len(l.Packages) == 0 {
		return
	}
	has := l.hasPackage
	if name := l.lacksZFSPackage(); name != "" {
		part := map[string]string{"dracut": "module", "initramfs-tools": "hook"}[l.tool]
		l.report("zfs-package-missing", Error, "packages", fmt.Sprintf(
			"%s has no %s for ZFS without %s: the next initramfs cannot mount the root.", l.tool, part, name),
			"apt-get install "+name)
	}
	const policy = "usr/sbin/policy-rc.d"
	if strings.Contains(l.text(policy), "exit 101") {
		l.report("policy-rc-left", Warning, policy,
			"An installer left this file, which forbids packages to start their services: an update then stops a service and "+
				"does not start it again.", "rm /"+policy)
	}
	for _, f := range append(files(l.root, "etc/dkms", ".conf"), files(l.root, "etc/dkms/framework.conf.d", ".conf")...) {
		// Debian 12 and 13 have version 3.
		ignores := atLeast(l.Packages["dkms"], "3") || len(numbers(l.Packages["dkms"])) == 0 && atLeast(l.OS.Version, "12")
		if v := assignments(l.text(f), map[string]string{})["REMAKE_INITRD"]; v != "" && ignores {
			l.report("dkms-remake-initrd", Info, f,
				"dkms ignores REMAKE_INITRD since version 3: the hooks of the kernel's package rebuild the initramfs.",
				"Remove it, and check that "+l.rebuild()+" ran after the last build of the module.")
		}
	}
	for _, headers := range l.debianHeaders() {
		l.reportHeaders(headers, "apt-get install ")
	}
	if l.tool == "initramfs-tools" && l.resume != nil && !has("cryptsetup-initramfs") {
		l.report("cryptsetup-missing", Error, "packages",
			"Without the package cryptsetup-initramfs, initramfs-tools ignores crypttab: the next initramfs does not open the "+
				"swap.",
			"apt-get install cryptsetup-initramfs, then "+l.rebuild())
	}
	if l.lacksSystemdCryptsetup() {
		l.report(
			"cryptsetup-missing",
			Error,
			"packages",
			"The initramfs of dracut cannot open an encrypted disk: systemd-cryptsetup, since Debian 13 a separate and only "+
				"recommended package, is not installed.",
			"apt-get install systemd-cryptsetup, then "+l.rebuild(),
		)
	}
	for name, v := range l.Packages {
		if strings.HasPrefix(name, "linux-image-") && strings.Contains(v, "~bpo") &&
			l.Packages["zfs-dkms"] != "" && !strings.Contains(l.Packages["zfs-dkms"], "~bpo") &&
			!slices.ContainsFunc(l.Kernels, func(k installed.Kernel) bool { return isUnset(k.ZFSModule) }) {
			l.report(
				"suites-mixed",
				Warning,
				"packages",
				fmt.Sprintf("The kernel %s is from backports, but ZFS %s is not: this ZFS may be too old to build a module for "+
					"the kernel.", v, l.Packages["zfs-dkms"]),
				l.fromBackports(),
			)
			break
		}
	}
	l.checkAPT()
}

// debianKernel matches the packages that follow the kernels of a kind: linux-image-amd64, linux-image-cloud-amd64.
var debianKernel = lazy.Compile(`^linux-image-((686|[a-z])[a-z0-9-]*)$`)

// debianHeaders returns the packages of headers that the next kernels of Debian need and that are missing.
func (l *linter) debianHeaders() (out []string) {
	if l.OS.ID != "debian" || l.Packages["zfs-dkms"] == "" {
		return nil
	}
	followed := false
	for _, name := range slices.Sorted(maps.Keys(l.Packages)) {
		if kind := debianKernel.FindStringSubmatch(name); kind != nil && !strings.HasSuffix(name, "-dbg") {
			followed = true
			if headers := "linux-headers-" + kind[1]; l.Packages[headers] == "" {
				out = append(out, headers)
			}
		}
	}
	if !followed && !l.hasPackage("linux-headers-") {
		out = append(out, "linux-headers-"+cmp.Or(map[string]string{"aarch64": "arm64"}[l.OS.Arch], "amd64"))
	}
	return out
}

// fromBackports returns what installs ZFS from backports.
func (l *linter) fromBackports() string {
	for _, s := range l.aptSources() {
		for _, suite := range s.suites {
			if s.ofDebian() && isBackports(suite) {
				return shell.Quote("apt-get", "install", "-t", suite, "zfs-dkms", "zfsutils-linux")
			}
		}
	}
	return "Add backports, with contrib, to the sources of apt, and install zfs-dkms and zfsutils-linux from there."
}

// aptSource is one source of packages.
type aptSource struct {
	file       string
	uris       []string
	suites     []string
	components []string
}

// Comments, and lines that continue the one before, in sources of packages.
var (
	comments = lazy.Compile(`(?m)^#.*\n?`)
	folded   = lazy.Compile(`\n[ \t]+`)
)

// aptSources reads the sources of packages, in both forms.
func (l *linter) aptSources() (out []aptSource) {
	for _, f := range append(files(l.root, "etc/apt/sources.list.d", ".list"), "etc/apt/sources.list") {
		for _, line := range lines(l.text(f)) {
			w := strings.Fields(strings.Split(line, "#")[0])
			if len(w) > 1 && strings.HasPrefix(w[1], "[") {
				for len(w) > 1 && !strings.HasSuffix(w[1], "]") {
					w = slices.Delete(w, 1, 2)
				}
				w = slices.Delete(w, 1, min(2, len(w)))
			}
			if len(w) > 3 && w[0] == "deb" {
				out = append(out, aptSource{f, w[1:2], w[2:3], w[3:]})
			}
		}
	}
	for _, f := range files(l.root, "etc/apt/sources.list.d", ".sources") {
		text := strings.ReplaceAll(l.text(f), "\r", "")
		text = folded.ReplaceAllString(comments.ReplaceAllString(text, ""), " ")
		for block := range strings.SplitSeq(text, "\n\n") {
			s := aptSource{file: f}
			off := false
			for _, line := range lines(block) {
				name, value, _ := strings.Cut(line, ":")
				switch strings.ToLower(name) {
				case "types":
					off = off || !slices.Contains(strings.Fields(value), "deb")
				case "uris":
					s.uris = strings.Fields(value)
				case "suites":
					s.suites = strings.Fields(value)
				case "components":
					s.components = strings.Fields(value)
				case "enabled":
					// StringToBool of apt ignores the case.
					value = strings.ToLower(strings.TrimSpace(value))
					off = off || slices.Contains([]string{"no", "false", "without", "off", "disable", "0"}, value)
				}
			}
			if len(s.suites) > 0 && len(s.components) > 0 && !off {
				out = append(out, s)
			}
		}
	}
	return out
}

// ofDebian reports whether a source is an archive of Debian, and not one of another
// project.
func (s aptSource) ofDebian() bool {
	return slices.ContainsFunc(s.uris, func(uri string) bool {
		name := path.Base(uri)
		return name == "debian" || strings.HasPrefix(name, "debian-security") || strings.Contains(uri, "debian.org") ||
			strings.HasPrefix(uri, "cdrom:") || strings.HasPrefix(uri, "mirror")
	})
}

func isBackports(suite string) bool { return strings.HasSuffix(suite, "-backports") }

// hasComponent reports whether a source of Debian has a component of one of the suites.
func hasComponent(sources []aptSource, suites []string, component string) bool {
	return slices.ContainsFunc(sources, func(s aptSource) bool {
		return s.ofDebian() && slices.Contains(s.components, component) &&
			slices.ContainsFunc(suites, func(suite string) bool { return slices.Contains(s.suites, suite) })
	})
}

// checkAPT checks that the updates of what is installed are found.
func (l *linter) checkAPT() {
	sources := l.aptSources()
	for _, need := range []struct {
		component, what string
		packages        []string // zfs-fuse, for example, is in main
	}{{"contrib", "ZFS", []string{"zfsutils-linux", "zfs-dkms", "zfs-dracut", "zfs-initramfs", "zfs-zed"}},
		{"non-free-firmware", "the microcode", []string{"intel-microcode", "amd64-microcode"}}} {
		needed, backported := false, false
		for _, name := range need.packages {
			v := l.Packages[name]
			needed, backported = needed || v != "", backported || strings.Contains(v, "~bpo")
		}
		if !needed {
			continue
		}
		for _, s := range sources {
			suites := slices.DeleteFunc(slices.Clone(s.suites), func(suite string) bool {
				// apt takes nothing from backports unasked; the other ones have symbols only.
				return isBackports(suite) && !backported || strings.HasSuffix(suite, "-debug")
			})
			if s.ofDebian() && len(suites) > 0 && slices.Contains(s.components, "main") &&
				!hasComponent(sources, suites, need.component) {
				l.report("apt-component-missing", Warning, s.file, fmt.Sprintf(
					"%s lacks the component %s, so apt does not update %s from there.",
					strings.Join(suites, " "),
					need.component,
					need.what,
				),
					"Add "+need.component+" to the components, then apt-get update.")
				break
			}
		}
	}
}

// checkServices checks that systemd imports and mounts the pools.
func (l *linter) checkServices() {
	if !l.systemd() || l.rootSet == "" || len(l.Services) == 0 {
		return
	}
	on := func(name string) bool {
		return slices.Contains(l.Services, name) || slices.Contains(l.Services, name+".service")
	}
	// NixOS has a unit for each pool.
	scan := on("zfs-import-scan") || on("zfs-import-"+installed.PoolOf(l.rootSet))
	cache := on("zfs-import-cache")
	switch {
	case scan:
	case cache && (l.root == nil || l.exists("etc/zfs/zpool.cache")):
	case cache:
		l.report("import-service", Error, "services",
			"zfs-import-cache imports what etc/zfs/zpool.cache names; the file does not exist, and zfs-import-scan is off.",
			"systemctl enable zfs-import-scan")
		return
	default:
		l.report("import-service", Error, "services", "Neither zfs-import-scan nor zfs-import-cache is enabled.",
			"systemctl enable zfs-import-scan")
		return
	}
	how := "zfs-mount is off"
	enable := "zfs-mount"
	switch {
	case on("zfs-mount") && on("zfs.target"):
		return
	case on("zfs-mount"):
		how, enable = "zfs.target, which starts zfs-mount, is off", "zfs.target"
	}
	for _, name := range l.Names() {
		d := l.Datasets[name]
		if m := d["mountpoint"].Value; strings.HasPrefix(m, "/") && m != "/" && d["canmount"].Value == "on" {
			if slices.ContainsFunc(l.Services, func(s string) bool { return strings.HasPrefix(s, "zfs-zed") }) &&
				len(files(l.root, "etc/zfs/zfs-list.cache", "")) > 0 {
				return // the mount generator
			}
			l.report("mount-service", Error, "services", how+": "+name+" is not mounted at "+m+".",
				"systemctl enable "+enable)
			return
		}
	}
}
