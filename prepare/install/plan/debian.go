package plan

import (
	"cmp"
	_ "embed" // of the script
	"path"
	"slices"
	"strings"

	"bakeoff/prepare/install/spec"
)

// debianZFS is the recipe debian-zfs: Debian 12 or 13 with an encrypted root on ZFS, started
// by ZFSBootMenu, or, where no image of it is given, by a unified kernel image.
func (r *recipe) debianZFS() {
	const root = pool + "/ROOT/debian"
	if r.menu() {
		r.verifyLoader()
	}
	if b := r.spec.Base; b.File != "" {
		r.assert("base-verify", "verify the archive of the base system before the disk is touched", "sha256sum", b.File).
			expect(b.SHA256).Local = true
	}
	if m := r.spec.Modules; m.File != "" {
		r.assert("modules-verify", "verify the archive of modules before the disk is touched", "sha256sum", m.File).
			expect(m.SHA256).Local = true
		r.archiveFits()
	}
	if key := r.spec.MirrorKey; key != "" {
		k := r.assert("repository-key", "see that the file has the public key of the repository", "head", "-n", "1", key).
			expect(keyBegins)
		k.Local, k.Until = true, "download"
	}
	s := r.assert("repository", "see that the repository answers", "curl", "-fsSL", "-o", "/dev/null",
		r.spec.Mirror+"/dists/"+r.spec.Release+"/InRelease")
	s.Local = true
	switch {
	case r.downloads() != "":
		s.Until = "download"
		r.debianDownload()
	case r.spec.Base.File == "": // the names come last
		r.run("packages-exist", "see that the repositories have all packages, and that they can be installed together",
			slices.Concat([]string{"mmdebstrap", "--simulate", "--variant=important", "--include=ca-certificates",
				r.spec.Release, "/dev/null"}, r.sources(r.spec.MirrorKey))...).Local = true
	}
	r.hostID()
	for _, d := range r.Drives() {
		r.disk(d)
	}
	r.makePool(root)
	if r.grub {
		r.makeBootPool()
	}
	r.debianBase()
	if r.swapGiB > 0 {
		r.makeSwap()
	}
	r.esp()
	r.keepESPs()
	r.debianConfigure(root)
	r.debianPackages()
	switch {
	case r.menu():
		r.commandLine(root)
		r.bootMenu()
	case !r.spec.Plain():
		r.set("zfs", "keylocation", "ask for the passphrase: an image that is not encrypted must not hold it",
			"keylocation", "prompt", pool)
	}
	r.run("rc-policy-remove", "let services start again", "rm", "-f", target+"/usr/sbin/policy-rc.d").
		check("find", target+"/usr/sbin", "-name", "policy-rc.d").replaces().nothing()
	if s := r.Step("packages-exist"); s != nil {
		s.Argv[3] += "," + strings.Join(r.download, ",")
	}
	r.nameDownloads()
	r.leave()
	r.exported()
}

// debianKeys verify the signatures of Debian's archives. The package of them is in every Debian.
const debianKeys = "/usr/share/keyrings/debian-archive-keyring.gpg"

// keyBegins is the first line of a file that apt takes for a key.
const keyBegins = "-----BEGIN PGP PUBLIC KEY BLOCK-----"

// mirrorKey is the file of the new system with the key of the specification.
const mirrorKey = "/etc/apt/keyrings/mirror.asc"

// sources are the lines of sources.list. The key verifies the mirror; "" is that of Debian, which
// always verifies the security updates.
func (r *recipe) sources(key string) []string {
	const parts = " main contrib non-free-firmware"
	deb := func(key, url, suite string) string {
		return "deb [signed-by=" + cmp.Or(key, debianKeys) + "] " + url + " " + r.spec.Release + suite + parts
	}
	return []string{deb(key, r.spec.Mirror, ""), deb(key, r.spec.Mirror, "-updates"),
		deb("", "http://security.debian.org/debian-security", "-security")}
}

// newSources are the lines of sources.list in the new system, which has the key in a file of its own.
func (r *recipe) newSources() []string {
	if r.spec.MirrorKey == "" {
		return r.sources("")
	}
	return r.sources(mirrorKey)
}

// Folders of apt, in the new system and below that of the downloads.
const (
	aptLists    = "/var/lib/apt/lists"
	aptArchives = "/var/cache/apt/archives"
)

// The free space, in bytes, that the rescue system needs for lists and packages, and for the base
// system while it is made. Debian 13 with a kernel and a compiler took 596 MiB of both. apt itself
// refuses packages for which there is no room.
const (
	roomPackages = 768 << 20
	roomBase     = 512 << 20
)

// debianDownload makes the base system, and downloads all packages that the plan installs. Its
// folder is a root for apt, with the sources of the new system and the list of the packages of its
// base system. So apt finds the packages that it will want there, and verifies signatures and
// digests.
func (r *recipe) debianDownload() {
	s, dir, first := r.spec, r.downloads(), len(r.Steps)
	r.clearDownloads()
	r.run("download-folder", "make a folder for the packages", "mkdir", "-p", dir+"/tmp", dir+"/etc/apt/apt.conf.d",
		dir+"/etc/apt/preferences.d", dir+aptLists, dir+aptArchives).check("test", "-d", dir+aptArchives)
	room := r.run("download-room", "see that there is room for the packages", "df", dir)
	room.Room = &Room{Dir: dir, Bytes: roomPackages}
	base := s.Base.File
	if base == "" {
		room.Room.Bytes += roomBase
		base = dir + "/base.tar"
		// mmdebstrap mounts file systems: if it is killed, the kernel removes them with the namespace.
		b := r.run("download-base", "make an archive of the base system", slices.Concat([]string{"env",
			"TMPDIR=" + dir + "/tmp", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "mmdebstrap",
			"--variant=important", "--include=ca-certificates", s.Release, base}, r.sources(s.MirrorKey))...).
			check("test", "-s", base)
		b.Redo, b.Again = true, []string{"find", dir + "/tmp", "-xdev", "-mindepth", "1", "-delete"}
	}
	const status = "/var/lib/dpkg/status"
	r.run("download-status", "tell apt what the base system has", "tar", "--extract", "--occurrence", "--file", base,
		"--directory", dir, "."+status).check("test", "-s", dir+status).Redo = true
	r.write("download-sources", "tell apt the sources of the new system", "0644", dir+"/etc/apt/sources.list",
		r.sources(s.MirrorKey)...)
	r.write("download-config", "let apt use this folder alone", "0644", dir+"/apt.conf", `Dir "`+dir+`";`,
		`APT::Architecture "amd64";`, `APT::Architectures { "amd64"; };`, `APT::Sandbox::User "root";`,
		`Acquire::Languages "none";`, `Acquire::Retries "3";`)
	lists := r.run("download-lists", "download the lists of packages, and verify their signatures",
		r.aptThere("update", "--error-on=any")...)
	for _, suite := range []string{"", "-updates", "-security"} {
		lists.check("find", dir+aptLists, "-name", "*_InRelease").expect("_dists_" + s.Release + suite + "_InRelease")
	}
	lists.Redo = true
	if len(s.Packages) > 0 { // with those of the specification, apt may choose other ones
		r.run("download-system", "download the packages of the system, and verify them")
	}
	r.run("download", "download all packages, and verify them")
	fits := []string{dir, base}
	if s.Modules.File != "" {
		fits = append(fits, s.Modules.File)
	}
	r.modulesFit(moduleApt, []string{"sed", "sort", "grep", "tar", "dpkg-deb"}, fits...)
	r.ofDownload(first)
}

// aptThere is a command of apt in the folder of the downloads.
func (r *recipe) aptThere(argv ...string) []string {
	return slices.Concat([]string{"env", "DEBIAN_FRONTEND=noninteractive", "APT_CONFIG=" + r.downloads() + "/apt.conf",
		"apt-get"}, argv)
}

// nameDownloads completes the steps that download packages.
func (r *recipe) nameDownloads() {
	for id, names := range map[string][]string{"download-system": r.download[:r.system], "download": r.download} {
		if s := r.Step(id); s != nil {
			s.Argv = append(r.aptThere("full-upgrade", "--download-only", "-y"), names...)
			s.check(append(slices.Clone(s.Argv), "--no-download")...) // it succeeds if all packages are there
		}
	}
}

func (r *recipe) debianBase() {
	s := r.spec
	base := s.Base.File
	argv := append([]string{"mmdebstrap", "--variant=important", "--skip=check/empty", "--include=ca-certificates",
		s.Release, target}, r.sources(s.MirrorKey)...)
	if dir := r.downloads(); base == "" && dir != "" {
		base = dir + "/base.tar"
	}
	if base != "" { // the kernel makes the nodes in dev
		argv = []string{"tar", "--extract", "--numeric-owner", "--xattrs", "--xattrs-include=*", "--exclude=./dev/*",
			"--file", base, "--directory", target}
	}
	b := r.run("base", "install the base system", argv...)
	// mmdebstrap refuses device nodes that are there, but not folders.
	b.Again = append([]string{"find"}, r.mountpoints()...)
	b.Again = append(b.Again, "-xdev", "-mindepth", "1", "-not", "-type", "d", "-delete")
	r.write("rc-policy", "start no service while it is installed", "0755", target+"/usr/sbin/policy-rc.d", "#!/bin/sh",
		"exit 101").Once = true
	r.bind()
	r.run("resolv", "let the new system find names while it is installed", "install", "-m", "0644", "/etc/resolv.conf",
		target+"/etc/resolv.conf")
	r.copyHostID()
	r.copyKey()
	r.write("hostname", "name the machine", "0644", target+"/etc/hostname", s.Hostname)
	r.write("hosts", "let it find its own name", "0644", target+"/etc/hosts", "127.0.0.1 localhost",
		"127.0.1.1 "+s.Hostname, "::1 localhost ip6-localhost ip6-loopback")
	if s.MirrorKey != "" {
		k := r.run("mirror-key", "keep the key of the repository", "install", "-D", "-m", "0644", s.MirrorKey,
			target+mirrorKey)
		k.check("head", "-n", "1", target+mirrorKey).expect(keyBegins).replaces().Redo = true
	}
	r.write("sources", "follow updates and security", "0644", target+"/etc/apt/sources.list", r.newSources()...)
}

// debianConfigure writes what the packages read when they are configured: hostid, keys and
// the configuration of dracut come before ZFS, whose package builds an initramfs.
func (r *recipe) debianConfigure(root string) {
	s := r.spec
	r.fstab()
	modules, items := r.initramfsItems()
	conf := []string{`hostonly="no"`, `add_dracutmodules+=" ` + modules + ` "`, `omit_dracutmodules+=" btrfs "`,
		`install_items+=" ` + strings.Join(items, " ") + ` "`}
	r.write("dracut", "put ZFS, resume and what opens them into every initramfs", "0644",
		target+"/etc/dracut.conf.d/zfs.conf", conf...)
	r.write("umask", "let only root read what dracut writes", "0644", target+"/etc/dracut.conf.d/umask.conf",
		"umask=0077")
	r.capARC()
	// Nothing else orders the import after the resume, and an import before it corrupts the pool.
	after := []string{"[Unit]", "After=local-fs-pre.target"}
	if s.Hibernate {
		after = append(after, "# A swap that was not opened may hold a hibernated system, and its resume later would damage",
			"# the pool. To start without that system, add noresume to the kernel line, then make the swap again.",
			"AssertPathExists=|/dev/mapper/"+r.Drives()[0].mapped(), "AssertKernelCommandLine=|noresume")
	}
	for _, unit := range []string{"scan", "cache"} {
		r.write("after-resume-"+unit, "import the pool after a resume only", "0644", target+afterResume(unit), after...)
	}
	r.write("locale-gen", "choose the locales to build", "0644", target+"/etc/locale.gen", r.locales()...)
	zone := s.Timezone
	if zone == "UTC" && s.Release == "bookworm" {
		zone = "Etc/UTC" // tzdata of Debian 12 replaces the link UTC by this one
	}
	r.link("timezone", "set the time zone", "/usr/share/zoneinfo/"+zone, "/etc/localtime")
	layout, variant := spec.XKB(s.Keymap)
	keyboard := []string{`XKBMODEL="pc105"`, `XKBLAYOUT="` + layout + `"`}
	if variant != "" {
		keyboard = append(keyboard, `XKBVARIANT="`+variant+`"`)
	}
	r.write("keyboard", "set the keymap", "0644", target+"/etc/default/keyboard", keyboard...)
	r.write("network", "get an address from the network", "0644", target+"/etc/systemd/network/20-wired.network",
		"[Match]", "Name=en* eth*", "", "[Network]", "DHCP=yes")
	if r.grub {
		// Quotes of /etc/default/grub; the packages of GRUB and of the kernel read it.
		r.write("grub-default", "tell GRUB how to start", "0644", target+"/etc/default/grub", "GRUB_DEFAULT=0",
			"GRUB_TIMEOUT=5", "GRUB_DISTRIBUTOR=Debian", `GRUB_CMDLINE_LINUX_DEFAULT="quiet"`,
			`GRUB_CMDLINE_LINUX="root=ZFS=`+root+r.resumeArgs()+`"`)
	}
	if r.uki {
		// The package of dracut builds the initramfs, and kernel-install would build another.
		r.write("uki-layout", "build unified kernel images", "0644", target+"/etc/kernel/install.conf", "layout=uki",
			"initrd_generator=none", "uki_generator=ukify")
		// Otherwise it is the machine ID, which the system gets at its first start.
		r.write("entry-token", "keep the names of images the same", "0644", target+"/etc/kernel/entry-token", "debian")
		// Before the first kernel: otherwise the command line of the installing system is built in.
		r.write("cmdline", "tell the kernel how to start", "0644", target+"/etc/kernel/cmdline", "root=zfs:"+root+
			r.resumeArgs()+" spl.spl_hostid=0x"+r.IDs.HostID+" quiet")
	}
}

//go:embed apt-settle.sh
var aptSettle string

// apt adds a step that installs packages into the new system. It builds no initramfs: that
// of the kernel's package would fail, as the module of ZFS comes later.
func (r *recipe) apt(id, purpose string, packages ...string) {
	r.download = append(r.download, packages...)
	s := r.in(id, purpose, append([]string{"env", "DEBIAN_FRONTEND=noninteractive", "INITRD=No", "apt-get", "install",
		"--fix-broken", "-y", "-o", "Dpkg::Options::=--force-confold"}, packages...)...)
	for _, p := range packages {
		s.check("chroot", target, "dpkg-query", "-W", "-f", "${db:Status-Abbrev}.", p).expect("ii").replaces()
	}
}

// unit enables or disables a unit. In a chroot, systemctl shows no unit, so the check, which
// the caller completes, looks for the link.
func (r *recipe) unit(verb, name, purpose string) *Step {
	s := r.in(verb+"-"+name, purpose, "systemctl", verb, name+".service")
	return s.check("find", target+"/etc/systemd/system", "-path", "*.wants/*", "-name", name+".service").replaces()
}

func (r *recipe) debianPackages() {
	s := r.spec
	// apt-get refuses to work after an interruption until dpkg has read its own journal.
	r.in("dpkg-settle", "let dpkg end what was interrupted", "dpkg", "--set-selections").
		check("find", target+"/var/lib/dpkg/updates", "-type", "f").replaces().nothing()
	script := cmp.Or(r.downloads(), spec.DownloadDir) + "/apt-settle"
	write := r.write("settle-script", "write a script that completes interrupted installations of packages", "0755",
		script, strings.TrimSuffix(aptSettle, "\n"))
	write.Local, write.Programs = true, []string{"sed", "sort", "tr"}
	if dir := r.downloads(); dir != "" {
		r.run("lists", "give the new system the lists of packages", "cp", "-a", dir+aptLists+"/.", target+aptLists)
		r.run("cache", "give it the downloaded packages", "cp", "-a", dir+aptArchives+"/.", target+aptArchives)
	} else {
		r.in("apt-update", "read the lists of packages", "apt-get", "update", "--error-on=any")
	}
	// Before the first apt-get, which would fail at what any of them left when it was interrupted.
	r.run("apt-settle", "complete interrupted installations of packages", "sh", script, target).
		check("sh", script, target, "list").replaces().nothing().Local = true
	r.in("upgrade", "bring the base system up to date", "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "full-upgrade",
		"--fix-broken", "-y", "-o", "Dpkg::Options::=--force-confold")
	tools := []string{"locales", "tzdata", "console-setup", "keyboard-configuration", "dracut", "openssh-server",
		"efibootmgr"}
	if s.Release == "trixie" && spec.LegacyZone(s.Timezone) {
		tools = append(tools, "tzdata-legacy")
	}
	if r.swapGiB > 0 {
		tools = append(tools, "cryptsetup")
		if s.Release == "trixie" {
			tools = append(tools, "systemd-cryptsetup") // only recommended; without it, dracut opens nothing
		}
	}
	if r.grub {
		tools = append(tools, "grub-efi-amd64")
	}
	if s.Microcode != "" {
		tools = append(tools, map[string]string{"intel": "intel-microcode", "amd": "amd64-microcode"}[s.Microcode])
	}
	r.apt("tools", "install what an initramfs needs before one is built", tools...)
	r.apt("kernel", "install the kernel and its headers, before the module", s.Kernel,
		strings.Replace(s.Kernel, "linux-image", "linux-headers", 1))
	purpose := "build the module of ZFS"
	if m := s.Modules; m.File != "" {
		purpose = "install ZFS; dkms takes the module from the archive"
		file := target + "/usr/share/zfs-dkms/" + path.Base(m.File)
		r.run("modules", "give dkms the archive with the built module", "install", "-D", "-m", "0644", m.File, file).
			check("sha256sum", file).expect(m.SHA256).replaces().Redo = true
	}
	r.apt("zfs", purpose, "zfs-dkms", "zfsutils-linux", "zfs-dracut", "zfs-zed")
	r.in("locales-build", "build them", "locale-gen").
		check("chroot", target, "locale", "-a").expect(strings.ReplaceAll(s.Locale, "UTF-8", "utf8")).replaces()
	// Debian 13 replaces the older file by a link to the other one at each start.
	file := target + "/etc/locale.conf"
	if s.Release == "bookworm" {
		file = target + "/etc/default/locale"
	}
	r.write("locale", "set the locale", "0644", file, "LANG="+s.Locale)
	const scan = "import by scanning: the cache would be that of the installing system"
	r.unit("enable", "zfs-import-scan", scan).expect("zfs-import-scan.service")
	r.unit("disable", "zfs-import-cache", scan).nothing()
	r.system = len(r.download)
	if len(s.Packages) > 0 {
		r.apt("packages", "install the packages of the specification", s.Packages...)
	}
	r.passwords()
	r.in("images", "build every initramfs with the final configuration", "dracut", "--force", "--regenerate-all")
	if r.uki {
		// The firmware tries the entry first that was added last, and the package adds one.
		r.secondEntry("Debian", `\EFI\systemd\systemd-bootx64.efi`)
		r.apt("loader", "install systemd-boot, which puts itself and an image of each kernel on the ESP", "systemd-ukify",
			"systemd-boot")
		const esp, file = target + "/boot/efi/EFI", "systemd-bootx64.efi"
		r.assert("loader-there", "see that the ESP has it", "find", esp+"/systemd", "-name", file).expect(file)
		r.assert("fallback-there", "see that the ESP has what starts without an entry", "find", esp+"/BOOT", "-name",
			"BOOTX64.EFI").expect("BOOTX64.EFI")
		r.assert("uki", "see that the ESP has the image", "find", esp+"/Linux", "-name", "debian-*.efi").expect(".efi")
		r.syncESPs()
		r.entry("entry", "Debian", `\EFI\systemd\`+file, r.Drives()[0])
	}
	if r.grub {
		r.installGRUB()
	}
	r.unit("enable", "systemd-networkd", "configure the network cards").expect("systemd-networkd.service")
	// It replaces resolv.conf, so nothing is downloaded after it.
	r.apt("resolved", "find names as the network says", "systemd-resolved")
	if r.downloads() != "" {
		r.in("cache-remove", "remove the downloaded packages", "apt-get", "clean").
			check("find", target+aptArchives, "-name", "*.deb").replaces().nothing().Once = true
	}
	r.keysPrivate()
	r.imageHas("initrd.img-*")
}

// afterResume is the drop-in that orders the import by a unit of Debian after the resume.
func afterResume(unit string) string {
	return "/etc/systemd/system/zfs-import-" + unit + ".service.d/after-resume.conf"
}
