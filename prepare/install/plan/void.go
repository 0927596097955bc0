package plan

import (
	"path"
	"slices"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/prepare/install/spec"
)

// xbpsData has what is known about packages and repositories, and xbpsKeys a file for each key of a
// repository, named by the fingerprint of the key.
const (
	xbpsData = "/var/db/xbps"
	xbpsKeys = xbpsData + "/keys"
)

// voidZFS is the recipe void-zfs: Void Linux with an encrypted root on ZFS,
// started by ZFSBootMenu.
func (r *recipe) voidZFS() {
	const root = pool + "/ROOT/void"
	r.verifyLoader()
	if r.downloads() == "" {
		r.assert("repository", "see that the repository answers, and has packages for this C library", "env",
			"XBPS_ARCH="+r.voidArch(), "xbps-query", "-M", "-i", "--repository="+r.spec.Mirror, "-p", "pkgver", "base-system").
			expect("base-system").Local = true
	}
	if key := r.spec.MirrorKey; key != "" {
		r.assert("repository-key", "see that the installing system has the key of the repository", "find", xbpsKeys, "-name",
			key+".plist").expect(key + ".plist").Local = true
	}
	r.voidDownload()
	r.hostID()
	for _, d := range r.Drives() {
		r.disk(d)
	}
	r.makePool(root)
	r.voidBase()
	r.commandLine(root)
	r.esp()
	r.keepESPs()
	r.bootMenu()
	r.voidExtras()
	if s := r.Step("download"); s != nil {
		s.Argv = append(s.Argv, r.download...)
		room := r.Step("download-room").Room
		room.Sizes = append(room.Sizes, r.download...)
		r.removeCache()
	}
	r.leave()
	r.exported()
}

const xbpsCache = "/var/cache/xbps"

// removeCache removes the downloaded packages, and the folder unless something is mounted there.
func (r *recipe) removeCache() {
	const id, purpose = "cache-remove", "remove the downloaded packages"
	if r.keepsApart(xbpsCache) {
		files := []string{"find", target + xbpsCache, "-not", "-type", "d"}
		r.run(id, purpose, append(files, "-delete")...).check(files...).replaces().nothing()
		return
	}
	r.run(id, purpose, "rm", "-rf", target+xbpsCache).
		check("find", target+path.Dir(xbpsCache), "-name", path.Base(xbpsCache)).replaces().nothing()
}

// roomIndexes is the space in bytes that is left for the indexes of the repositories. The index of each
// repository says how large the packages are.
const roomIndexes = 32 << 20

// voidDownload downloads the index of each repository and the packages, and verifies their
// signatures: what is wrong with them shows before the disk is touched. The names come last.
func (r *recipe) voidDownload() {
	s, dir, first := r.spec, r.downloads(), len(r.Steps)
	if dir == "" {
		return
	}
	r.clearDownloads()
	r.run("download-folder", "make a folder for the packages", "mkdir", "-p", dir).check("test", "-d", dir)
	r.run("download-trust", "trust there the keys that the installing system trusts", "cp", "-a", "--parents", r.keys(),
		dir).check("test", "-e", dir+r.keys())
	r.ignoreKernel("download-ignore", dir)
	argv := func(how string) []string {
		argv := []string{"env", "XBPS_ARCH=" + r.voidArch(), "xbps-install", how, "--download-only", "-R", s.Mirror}
		for _, name := range r.otherRepositories() {
			argv = append(argv, "-R", r.repository(name))
		}
		return append(argv, "-r", dir, "-c", dir+"/cache")
	}
	r.run("download-room", "see that there is room for the packages", "df", dir).
		Room = &Room{Dir: dir, Bytes: roomIndexes, Sizes: argv("-Mn")}
	r.run("download", "download the packages and verify their signatures", argv("-Sy")...).
		check("test", "-d", dir+"/cache").Redo = true
	r.modulesFit(moduleXbps, []string{"sed", "grep", "xbps-query"}, dir+"/cache", "env", "XBPS_ARCH="+r.voidArch(),
		"xbps-query", "-i", "-r", dir, "-c", dir+"/cache", "--repository="+s.Mirror)
	r.download = []string{"base-system"}
	r.ofDownload(first)
}

// otherRepositories are the names of the repositories that the packages need besides the main one.
func (r *recipe) otherRepositories() []string {
	switch {
	case r.spec.Flatpak && r.spec.Libc == "glibc": // only it has programs of 32 bits
		return []string{"nonfree", "multilib", "multilib-nonfree"}
	case r.spec.Flatpak || r.spec.Microcode == "intel":
		return []string{"nonfree"}
	}
	return nil
}

// repository is the URL of such a repository: a mirror of Void has it below the main one.
func (r *recipe) repository(name string) string {
	return strings.TrimSuffix(r.spec.Mirror, "/") + "/" + strings.ReplaceAll(name, "-", "/")
}

// keys are the keys that the new system trusts: a folder, or a file.
func (r *recipe) keys() string {
	if key := r.spec.MirrorKey; key != "" {
		return xbpsKeys + "/" + key + ".plist"
	}
	return xbpsKeys
}

// ignoreKernel keeps base-system from installing linux, on which it depends.
func (r *recipe) ignoreKernel(id, root string) {
	r.write(id, "follow the kernel that ZFS supports", "0644", root+"/etc/xbps.d/10-kernel.conf", "ignorepkg=linux",
		"ignorepkg=linux-headers")
}

// xbpsInstall is xbps-install. It reads the index of a repository again only if nothing was downloaded
// before: the mirror may be gone by now.
func (r *recipe) xbpsInstall(argv ...string) []string {
	how := "-y"
	if r.downloads() == "" {
		how = "-Sy"
	}
	return append([]string{"xbps-install", how}, argv...)
}

// xbps adds a step that installs packages into the new system.
func (r *recipe) xbps(id, purpose string, packages ...string) {
	r.download = lists.AddNew(r.download, packages...)
	r.in(id, purpose, r.xbpsInstall(packages...)...)
}

// voidArch is the name that xbps has for the processor and the C library.
func (r *recipe) voidArch() string {
	if r.spec.Libc == "musl" {
		return "x86_64-musl"
	}
	return "x86_64"
}

func (r *recipe) voidBase() {
	s := r.spec
	r.run("xbps-keys", "trust the keys that the installing system trusts", "cp", "-a", "--parents", r.keys(), target)
	r.ignoreKernel("ignore-kernel", target)
	if dir := r.downloads(); dir != "" {
		r.run("cache-folder", "make the folder of packages", "mkdir", "-p", target+xbpsCache).
			check("test", "-d", target+xbpsCache).Once = true
		// Each index is in a folder, the database of what is installed there is not.
		r.run("lists", "give the new system the index of each repository", "find", dir+xbpsData, "-mindepth", "1",
			"-maxdepth", "1", "-type", "d", "-exec", "cp", "-a", "-t", target+xbpsData, "{}", "+")
		r.run("cache", "give the new system the downloaded packages", "cp", "-a", dir+"/cache/.", target+xbpsCache)
	}
	r.run("base", "install the base system", append([]string{"env", "XBPS_ARCH=" + r.voidArch()},
		r.xbpsInstall("-R", s.Mirror, "-r", target, "base-system")...)...)
	r.write("repository-main", "install the other packages from the same repository", "0644",
		target+"/etc/xbps.d/00-repository-main.conf", "repository="+s.Mirror)
	for _, name := range r.otherRepositories() { // replaces the file of this name that the package void-repo-NAME has
		r.write("repository-"+name, "install the packages of this repository from the same mirror", "0644",
			target+"/etc/xbps.d/10-repository-"+name+".conf", "repository="+r.repository(name))
	}
	r.bind()
	r.run("resolv", "let the new system find names while it is installed", "install", "-m", "0644", "/etc/resolv.conf",
		target+"/etc/resolv.conf")
	r.copyHostID()
	r.copyKey()
	r.write("hostname", "name the machine", "0644", target+"/etc/hostname", s.Hostname)
	if r.swapGiB > 0 {
		r.xbps("cryptsetup", "install cryptsetup before an initramfs is built", "cryptsetup")
		r.makeSwap()
	}
	r.fstab()
	r.write("rc-conf", "set keymap and clock", "0644", target+"/etc/rc.conf", `KEYMAP="`+s.Keymap+`"`,
		`HARDWARECLOCK="UTC"`)
	r.link("timezone", "set the time zone", "/usr/share/zoneinfo/"+s.Timezone, "/etc/localtime")
	r.write("locale", "set the locale", "0644", target+"/etc/locale.conf", "LANG="+s.Locale)
	if s.Libc == "glibc" {
		r.write("locales", "choose the locales to build", "0644", target+"/etc/default/libc-locales", r.locales()...)
		r.in("locales-build", "build them", "xbps-reconfigure", "-f", "glibc-locales").
			check("chroot", target, "locale", "-a").expect(strings.ReplaceAll(s.Locale, "UTF-8", "utf8")).replaces()
	}
	modules, items := r.initramfsItems()
	// dracut since 108 builds for the machine that runs it.
	conf := []string{`nofsck="yes"`, `hostonly="no"`, `add_dracutmodules+=" ` + modules + ` "`,
		`omit_dracutmodules+=" btrfs "`}
	if len(items) > 0 {
		conf = append(conf, `install_items+=" `+strings.Join(items, " ")+` "`)
	}
	r.write("dracut", "put keys, ZFS and resume into every initramfs", "0644", target+"/etc/dracut.conf.d/zol.conf",
		conf...)
	r.write("umask", "let only root read what dracut writes", "0644", target+"/etc/dracut.conf.d/umask.conf",
		"umask=0077")
	r.capARC()
	r.xbps("kernel", "install that kernel and its headers", s.Kernel, s.Kernel+"-headers")
	r.xbps("zfs", "build the module; this also rebuilds the initramfs", "zfs")
}

func (r *recipe) voidExtras() {
	s := r.spec
	switch s.Microcode {
	case "intel":
		r.xbps("nonfree", "add the repository of the microcode", "void-repo-nonfree")
		r.xbps("microcode", "install the microcode", "intel-ucode")
	case "amd":
		r.xbps("microcode", "install the microcode", "linux-firmware-amd")
	}
	if s.Desktop {
		r.voidDesktop()
	}
	if s.Flatpak {
		var repos []string
		for _, name := range r.otherRepositories() {
			repos = append(repos, "void-repo-"+name)
		}
		r.xbps("flatpak-repos", "add repositories", repos...)
		r.xbps("flatpak", "install Flatpak", "flatpak")
		r.in("flathub", "add Flathub", "flatpak", "remote-add", "--if-not-exists", "flathub",
			"https://dl.flathub.org/repo/flathub.flatpakrepo")
	}
	if len(s.Packages) > 0 {
		r.xbps("packages", "install the packages of the specification", s.Packages...)
	}
	if len(s.SSHKeys) > 0 || slices.ContainsFunc(s.Users, func(u spec.User) bool { return len(u.SSHKeys) > 0 }) {
		if !s.Desktop {
			r.service("dhcpcd") // of base-system, and never with NetworkManager
		}
		r.service("sshd")
	}
	r.passwords()
	r.in("reconfigure", "rebuild every initramfs with the final configuration", "xbps-reconfigure", "-fa")
	r.keysPrivate()
	r.imageHas("initramfs-*.img")
	if s.Desktop {
		r.run("resolv-remove", "remove the file that the installation used", "rm", "-f", target+"/etc/resolv.conf")
		r.link("resolv-link", "let NetworkManager write it", "/run/NetworkManager/resolv.conf", "/etc/resolv.conf")
	}
}

// service starts a service of runit at boot.
func (r *recipe) service(name string) {
	r.link("service-"+name, "start the service at boot", "/etc/sv/"+name, "/etc/runit/runsvdir/default/"+name)
}

func (r *recipe) voidDesktop() {
	r.xbps("desktop-core", "install the core of the desktop", strings.Fields(`vim nano dbus elogind polkit xorg
		xorg-fonts xorg-video-drivers xorg-input-drivers dejavu-fonts-ttf terminus-font NetworkManager pipewire
		alsa-pipewire wireplumber xdg-user-dirs unzip gzip xz 7zip`)...)
	r.xbps("desktop", "install KDE Plasma", strings.Fields(`kde-plasma dolphin konsole firefox
		kdegraphics-thumbnailers ffmpegthumbs vlc ark kwrite discover kf6-purpose`)...)
	for _, s := range []string{"dbus", "NetworkManager", "polkitd", "sddm"} {
		r.service(s)
	}
	r.in("audio-folders", "make folders for the sound's configuration", "mkdir", "-p", "/etc/xdg/autostart",
		"/etc/pipewire/pipewire.conf.d", "/etc/alsa/conf.d")
	for _, l := range [][2]string{{"/usr/share/applications/pipewire.desktop", "/etc/xdg/autostart"},
		{"/usr/share/examples/pipewire/20-pipewire-pulse.conf", "/etc/pipewire/pipewire.conf.d"},
		{"/usr/share/alsa/alsa.conf.d/50-pipewire.conf", "/etc/alsa/conf.d"},
		{"/usr/share/alsa/alsa.conf.d/99-pipewire-default.conf", "/etc/alsa/conf.d"}} {
		file := l[0][strings.LastIndex(l[0], "/")+1:]
		r.link("audio-"+file, "configure PipeWire", l[0], l[1]+"/"+file)
	}
}

// menuSSH builds an image of ZFSBootMenu that answers over SSH: releases have no SSH daemon.
// The verified release stays as the second entry. The image lies on the ESP, so its host keys
// are its own and not those of the system.
func (r *recipe) menuSSH() {
	const folder, image = "/etc/zfsbootmenu", "/boot/efi/EFI/ZBM-SSH"
	r.write("menu-ssh-omit", "keep the daemon out of the system's own images", "0644",
		target+"/etc/dracut.conf.d/crypt-ssh.conf", `omit_dracutmodules+=" crypt-ssh "`)
	r.xbps("menu-ssh-packages", "install what builds an image of ZFSBootMenu with an SSH daemon", "zfsbootmenu",
		"systemd-boot-efistub", "dracut-network", "dracut-crypt-ssh", "dropbear", "openssh")
	r.write("menu-ssh-network", "let the image get an address", "0644", target+"/etc/cmdline.d/dracut-network.conf",
		"ip=dhcp rd.neednet=1")
	r.write("menu-ssh-keys", "let the keys of the specification open the menu", "0600", target+"/etc/dropbear/root_key",
		r.spec.Bootloader.SSHKeys...)
	for _, kind := range []string{"rsa", "ecdsa"} {
		key := "/etc/dropbear/menu_" + kind + "_key"
		s := r.in("menu-ssh-host-"+kind, "make a host key of the menu's own", "ssh-keygen", "-q", "-t", kind, "-m", "PEM",
			"-N", "", "-f", key).check("test", "-s", target+key+".pub")
		s.Stdin, s.Redo = &Input{Text: "y\n"}, true // replaces the half of an interruption
	}
	r.write("menu-ssh-dracut", "put the daemon into the image", "0644", target+folder+"/dracut.conf.d/dropbear.conf",
		`add_dracutmodules+=" crypt-ssh "`, `install_optional_items+=" /etc/cmdline.d/dracut-network.conf "`,
		`dropbear_keytypes="rsa ecdsa"`, "dropbear_rsa_key=/etc/dropbear/menu_rsa_key",
		"dropbear_ecdsa_key=/etc/dropbear/menu_ecdsa_key", "dropbear_acl=/etc/dropbear/root_key")
	r.write("menu-ssh-config", "say where the image goes", "0644", target+folder+"/config.yaml", "Global:",
		"  ManageImages: true", "  BootMountPoint: /boot/efi", "  DracutConfDir: "+folder+"/dracut.conf.d",
		"Components:", "  Enabled: false", "EFI:", "  ImageDir: "+image, "  Versions: false", "  Enabled: true",
		"Kernel:", "  CommandLine: ro quiet loglevel=0")
	r.in("menu-ssh-image", "build the image", "generate-zbm").
		check("find", target+image, "-name", "vmlinuz.EFI").expect("vmlinuz.EFI").Redo = true
	has := r.in("menu-ssh-has", "see that the image has the daemon and lets the keys in", "lsinitrd", image+"/vmlinuz.EFI")
	for _, want := range []string{"dropbear", "root/.ssh/authorized_keys"} {
		has.check(has.Argv...).expect(want)
	}
}
