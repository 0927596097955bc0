package plan

import (
	"fmt"
	"strings"

	"bakeoff/prepare/install/spec"
)

// recipe adds steps to a plan.
type recipe struct {
	*Plan
	spec    *spec.Spec
	target  Target
	swapGiB int64
}

func (r *recipe) part(uuid string) string { return "/dev/disk/by-partuuid/" + uuid }

// run adds a step that needs the one before it.
func (r *recipe) run(id, purpose string, argv ...string) *Step {
	s := Step{ID: id, Purpose: purpose, Argv: argv}
	if n := len(r.Steps); n > 0 {
		s.Needs = []string{r.Steps[n-1].ID}
	}
	r.Steps = append(r.Steps, s)
	return &r.Steps[len(r.Steps)-1]
}

// in adds a step that runs in the new system.
func (r *recipe) in(id, purpose string, argv ...string) *Step {
	return r.run(id, purpose, append([]string{"chroot", target}, argv...)...)
}

// install adds a step that installs packages into the new system.
func (r *recipe) install(id, purpose string, packages ...string) {
	r.in(id, purpose, append([]string{"xbps-install", "-Sy"}, packages...)...)
}

// write adds a step that writes a file.
func (r *recipe) write(id, purpose, mode, path string, lines ...string) {
	s := r.run(id, purpose, "install", "-D", "-m", mode, "/dev/stdin", path)
	s.Stdin = &Input{Text: strings.Join(lines, "\n") + "\n"}
}

// link adds a step that makes a symbolic link in the new system.
func (r *recipe) link(id, purpose, to, from string) {
	s := r.in(id, purpose, "ln", "-sfn", to, from)
	s.Check = &Check{[]string{"chroot", target, "readlink", from}, to}
}

func (s *Step) check(expect string, argv ...string) *Step {
	s.Check = &Check{argv, expect}
	return s
}

func (s *Step) undo(argv ...string) *Step {
	s.Undo = argv
	return s
}

const (
	target  = "/mnt"
	pool    = "zroot"
	root    = "zroot/ROOT/void"
	poolKey = "/etc/zfs/zroot.key"
	swapKey = "/boot/volume.key"
	mapped  = "/dev/mapper/cryptswap"
)

// voidZFS is the recipe void-zfs: Void Linux with an encrypted root on ZFS,
// started by ZFSBootMenu.
func (r *recipe) voidZFS() {
	r.voidPrepare()
	r.voidDisk()
	r.voidPool()
	r.voidBase()
	r.voidBoot()
	r.voidExtras()
	r.voidLeave()
}

func (r *recipe) voidPrepare() {
	b := r.spec.Bootloader
	r.run("loader-verify", "verify the image of ZFSBootMenu before the disk is touched", "sha256sum", "-c", "-").
		Stdin = &Input{Text: b.SHA256 + "  " + b.File + "\n"}
	r.run("repository", "see that the repository answers", "xbps-query", "-M", "-i", "--repository="+r.spec.Mirror,
		"-p", "pkgver", "base-system")
	r.run("hostid", "give the installing system the hostid of the new one", "zgenhostid", "-f", "0x"+r.IDs.HostID).
		check(r.IDs.HostID, "hostid")
}

func (r *recipe) voidDisk() {
	d := r.Disk.ByID
	r.run("wipe-signatures", "remove signatures of file systems", "wipefs", "-a", d).
		Destroys = "everything on " + d
	r.run("wipe-table", "remove the partition table", "sgdisk", "--zap-all", d).Destroys = "everything on " + d
	argv := []string{"sgdisk", "-U", r.IDs.Disk, "-n", "1:1m:+512m", "-t", "1:ef00", "-u", "1:" + r.IDs.ESP}
	if r.spec.Secrets.Swap != "" {
		argv = append(argv, "-n", fmt.Sprintf("2:0:+%dg", r.swapGiB), "-t", "2:8200", "-u", "2:"+r.IDs.Swap)
	}
	argv = append(argv, "-n", "3:0:-10m", "-t", "3:bf00", "-u", "3:"+r.IDs.Pool, d)
	r.run("partition", "write all partitions at once, with their identities", argv...).
		check(strings.ToUpper(r.IDs.Disk), "sgdisk", "-p", d).Destroys = "the partition table of " + d
	nodes := []string{r.part(r.IDs.ESP), r.part(r.IDs.Pool)}
	if r.spec.Secrets.Swap != "" {
		nodes = append(nodes, r.part(r.IDs.Swap))
	}
	r.run("settle", "wait for the nodes", append([]string{"udevadm", "wait", "--settle", "--timeout=60"}, nodes...)...)
}

func (r *recipe) voidPool() {
	r.run("pool-key", "keep the passphrase where only root reads it", "install", "-D", "-m", "000",
		"/dev/stdin", poolKey).
		Stdin = &Input{Secret: r.spec.Secrets.Pool}
	dev := r.part(r.IDs.Pool)
	r.run("pool", "create the encrypted pool", "zpool", "create", "-f", "-o", "ashift=12", "-O", "compression=lz4",
		"-O", "acltype=posixacl", "-O", "xattr=sa", "-O", "relatime=on", "-O", "encryption=aes-256-gcm",
		"-O", "keylocation=file://"+poolKey, "-O", "keyformat=passphrase", "-o", "autotrim=on",
		"-o", "compatibility=openzfs-2.2-linux", "-m", "none", "-R", target, pool, dev).
		check("12", "zpool", "get", "-H", "-o", "value", "ashift", pool).
		undo("zpool", "export", pool).Destroys = "everything on " + dev
	r.run("dataset-root", "hold the boot environments", "zfs", "create", "-o", "mountpoint=none", pool+"/ROOT").
		check("none", "zfs", "get", "-H", "-o", "value", "mountpoint", pool+"/ROOT")
	r.run("dataset-void", "create the first boot environment", "zfs", "create", "-o", "mountpoint=/",
		"-o", "canmount=noauto", root).check("noauto", "zfs", "get", "-H", "-o", "value", "canmount", root)
	r.run("bootfs", "make it the default", "zpool", "set", "bootfs="+root, pool).
		check(root, "zpool", "get", "-H", "-o", "value", "bootfs", pool)
	r.run("mount-root", "mount the boot environment", "zfs", "mount", root).
		check("yes", "zfs", "get", "-H", "-o", "value", "mounted", root).undo("zfs", "unmount", root)
	r.run("dataset-home", "keep homes out of boot environments; this mounts it too", "zfs", "create",
		"-o", "mountpoint=/home", pool+"/home").check("yes", "zfs", "get", "-H", "-o", "value", "mounted", pool+"/home").
		undo("zfs", "unmount", pool+"/home")
}

func (r *recipe) voidBase() {
	s := r.spec
	arch := "x86_64"
	if s.Libc == "musl" {
		arch = "x86_64-musl"
	}
	r.run("xbps-keys", "trust the keys that the installing system trusts", "cp", "-a", "--parents",
		"/var/db/xbps/keys", target)
	r.run("base", "install the base system", "env", "XBPS_ARCH="+arch, "xbps-install", "-Sy", "-R", s.Mirror,
		"-r", target, "base-system")
	for _, dir := range []string{"dev", "proc", "sys"} {
		to := target + "/" + dir
		r.run("bind-"+dir, "show the kernel's files to the new system", "mount", "--rbind", "--make-rslave", "/"+dir, to).
			check(to, "findmnt", "-n", "-o", "TARGET", to).undo("umount", "-R", to)
	}
	r.run("resolv", "let the new system find names while it is installed", "install", "-m", "0644", "/etc/resolv.conf",
		target+"/etc/resolv.conf")
	r.run("copy-hostid", "keep the hostid", "install", "-m", "0644", "/etc/hostid", target+"/etc/hostid")
	r.run("copy-key", "keep the key on the encrypted root", "install", "-D", "-m", "000", poolKey, target+poolKey)
	r.write("hostname", "name the machine", "0644", target+"/etc/hostname", s.Hostname)
	fstab := []string{fmt.Sprintf("UUID=%s-%s /boot/efi vfat umask=0077,nofail 0 0",
		strings.ToUpper(r.IDs.FAT[:4]), strings.ToUpper(r.IDs.FAT[4:]))}
	modules, items := "zfs", poolKey
	if s.Secrets.Swap != "" {
		r.voidSwap()
		fstab = append(fstab, mapped+" none swap defaults 0 0")
		modules, items = "zfs crypt resume", poolKey+" "+swapKey+" /etc/crypttab"
	}
	r.write("fstab", "mount the ESP and use the swap", "0644", target+"/etc/fstab", fstab...)
	r.write("rc-conf", "set keymap and clock", "0644", target+"/etc/rc.conf", `KEYMAP="`+s.Keymap+`"`,
		`HARDWARECLOCK="UTC"`)
	r.link("timezone", "set the time zone", "/usr/share/zoneinfo/"+s.Timezone, "/etc/localtime")
	r.write("locale", "set the locale", "0644", target+"/etc/locale.conf", "LANG="+s.Locale)
	if s.Libc == "glibc" {
		r.write("locales", "choose the locale to build", "0644", target+"/etc/default/libc-locales", s.Locale+" UTF-8")
		r.in("locales-build", "build it", "xbps-reconfigure", "-f", "glibc-locales").
			check(strings.ReplaceAll(s.Locale, "UTF-8", "utf8"), "chroot", target, "locale", "-a")
	}
	r.in("root-password", "set the password of root", "chpasswd", "-e").Stdin = &Input{Secret: s.Secrets.Root}
	r.write("dracut", "put keys, ZFS and resume into every initramfs", "0644", target+"/etc/dracut.conf.d/zol.conf",
		`nofsck="yes"`, `add_dracutmodules+=" `+modules+` "`, `omit_dracutmodules+=" btrfs "`,
		`install_items+=" `+items+` "`)
	r.write("umask", "let only root read what dracut writes", "0644", target+"/etc/dracut.conf.d/umask.conf",
		"umask=0077")
	r.in("boot-mode", "let only root read /boot", "chmod", "0700", "/boot").
		check("700", "stat", "-c", "%a", target+"/boot")
	r.write("ignore-kernel", "follow the kernel that ZFS supports", "0644", target+"/etc/xbps.d/10-kernel.conf",
		"ignorepkg=linux", "ignorepkg=linux-headers")
	r.install("kernel", "install that kernel and its headers", s.Kernel, s.Kernel+"-headers")
	r.install("zfs", "build the module; this also rebuilds the initramfs", "zfs")
}

// voidSwap makes the swap outside the pool: only there a hibernated system can
// be read before the pool is imported.
func (r *recipe) voidSwap() {
	dev := r.part(r.IDs.Swap)
	r.install("cryptsetup", "install cryptsetup before an initramfs is built", "cryptsetup")
	s := r.run("luks", "encrypt the swap", "cryptsetup", "luksFormat", "--batch-mode", "--type", "luks1",
		"--uuid", r.IDs.LUKS, "--key-file", "-", dev).check(r.IDs.LUKS, "cryptsetup", "luksUUID", dev)
	s.Destroys, s.Stdin = "everything on "+dev, &Input{Secret: r.spec.Secrets.Swap}
	r.run("swap-key", "make a random key on the encrypted root", "dd", "if=/dev/urandom", "of="+target+swapKey,
		"bs=64", "count=1", "conv=excl,fsync").check("64", "stat", "-c", "%s", target+swapKey)
	r.run("swap-key-mode", "let only root read it", "chmod", "000", target+swapKey).
		check("0", "stat", "-c", "%a", target+swapKey)
	r.run("swap-key-add", "let the key open the swap", "cryptsetup", "luksAddKey", "--key-file", "-", dev,
		target+swapKey).
		Stdin = &Input{Secret: r.spec.Secrets.Swap}
	r.run("swap-open", "open the swap with the key", "cryptsetup", "open", "--key-file", target+swapKey, dev,
		"cryptswap").
		check(dev, "cryptsetup", "status", "cryptswap").undo("cryptsetup", "close", "cryptswap")
	r.run("mkswap", "format the swap", "mkswap", mapped).
		check("swap", "blkid", "-p", "-s", "TYPE", "-o", "value", mapped).Destroys = "everything on " + mapped
	r.write("crypttab", "open the swap at boot", "0600", target+"/etc/crypttab",
		"cryptswap UUID="+r.IDs.LUKS+" "+swapKey+" luks")
}

func (r *recipe) voidBoot() {
	esp := r.part(r.IDs.ESP)
	line := "%{parent}"
	if r.spec.Secrets.Swap != "" {
		line += " rd.luks.uuid=" + r.IDs.LUKS
	}
	if r.spec.Hibernate {
		line += " resume=" + mapped
	}
	for _, p := range [][3]string{{"cmdline-parent", "org.zfsbootmenu:commandline=quiet", pool + "/ROOT"},
		{"cmdline", "org.zfsbootmenu:commandline=" + line, root}, {"keysource",
			"org.zfsbootmenu:keysource=" + root, pool}} {
		name, value, _ := strings.Cut(p[1], "=")
		r.run(p[0], "tell ZFSBootMenu how to start", "zfs", "set", p[1], p[2]).
			check(value, "zfs", "get", "-H", "-o", "value", name, p[2])
	}
	if r.spec.Hibernate {
		const prop = "org.zfsbootmenu:readonly"
		r.run("readonly", "keep ZFSBootMenu from writing to a pool that a hibernated system holds", "zpool", "set",
			prop+"=on", pool).check("on", "zpool", "get", "-H", "-o", "value", prop, pool)
	}
	r.run("esp", "format the ESP", "mkfs.vfat", "-F32", "-i", r.IDs.FAT, esp).
		check(strings.ToUpper(r.IDs.FAT[:4]+"-"+r.IDs.FAT[4:]), "blkid", "-p", "-s", "UUID", "-o", "value", esp).
		Destroys = "everything on " + esp
	to := target + "/boot/efi"
	r.run("esp-folder", "make its mount point", "mkdir", "-p", to)
	r.run("esp-mount", "mount the ESP", "mount", "-o", "umask=0077", esp, to).
		check(to, "findmnt", "-n", "-o", "TARGET", to).undo("umount", to)
	for _, f := range [][2]string{{"loader", "ZBM/VMLINUZ.EFI"}, {"loader-backup", "ZBM/VMLINUZ-BACKUP.EFI"},
		{"loader-fallback", "BOOT/BOOTX64.EFI"}} {
		file := to + "/EFI/" + f[1]
		r.run(f[0], "copy the verified image", "install", "-D", r.spec.Bootloader.File, file).
			check(r.spec.Bootloader.SHA256, "sha256sum", file)
	}
	if !r.target.Firmware.EFIVars {
		return // the firmware starts EFI/BOOT/BOOTX64.EFI
	}
	for _, e := range [][3]string{{"entry-backup", "ZFSBootMenu (Backup)", "VMLINUZ-BACKUP"}, {"entry",
		"ZFSBootMenu", "VMLINUZ"}} {
		file := `\EFI\ZBM\` + e[2] + ".EFI"
		r.run(e[0], "add the entry to the firmware", "efibootmgr", "-c", "-d", r.Disk.ByID, "-p", "1", "-L",
			e[1], "-l", file).
			check(file, "efibootmgr", "-v")
	}
}

func (r *recipe) voidExtras() {
	s := r.spec
	switch s.Microcode {
	case "intel":
		r.install("nonfree", "add the repository of the microcode", "void-repo-nonfree")
		r.install("microcode", "install the microcode", "intel-ucode")
	case "amd":
		r.install("microcode", "install the microcode", "linux-firmware-amd")
	}
	if s.Desktop {
		r.voidDesktop()
	}
	if s.Flatpak {
		r.install("flatpak-repos", "add repositories", "void-repo-nonfree", "void-repo-multilib",
			"void-repo-multilib-nonfree")
		r.install("flatpak", "install Flatpak", "flatpak")
		r.in("flathub", "add Flathub", "flatpak", "remote-add", "--if-not-exists", "flathub",
			"https://dl.flathub.org/repo/flathub.flatpakrepo")
	}
	if len(s.Packages) > 0 {
		r.install("packages", "install the packages of the specification", s.Packages...)
	}
	for _, u := range s.Users {
		r.in("user-"+u.Name, "create a user", "useradd", "-m", u.Name).check(u.Name, "chroot", target, "id", "-un", u.Name)
		if len(u.Groups) > 0 {
			r.in("groups-"+u.Name, "add the user to groups", "usermod", "-aG", strings.Join(u.Groups, ","), u.Name)
		}
		r.in("password-"+u.Name, "set the user's password", "chpasswd", "-e").Stdin = &Input{Secret: u.Password}
	}
	r.in("reconfigure", "rebuild every initramfs with the final configuration", "xbps-reconfigure", "-fa")
}

func (r *recipe) voidDesktop() {
	r.install("desktop-core", "install the core of the desktop", strings.Fields(`vim nano dbus elogind polkit xorg
		xorg-fonts xorg-video-drivers xorg-input-drivers dejavu-fonts-ttf terminus-font NetworkManager pipewire
		alsa-pipewire wireplumber xdg-user-dirs unzip gzip xz 7zip`)...)
	r.install("desktop", "install KDE Plasma", strings.Fields(`kde-plasma dolphin konsole firefox
		kdegraphics-thumbnailers ffmpegthumbs vlc ark kwrite discover kf6-purpose`)...)
	for _, s := range []string{"dbus", "NetworkManager", "polkitd", "sddm"} {
		r.link("service-"+s, "start the service at boot", "/etc/sv/"+s, "/etc/runit/runsvdir/default/"+s)
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

func (r *recipe) voidLeave() {
	if r.spec.Desktop {
		r.run("resolv-remove", "remove the file that the installation used", "rm", "-f", target+"/etc/resolv.conf")
		r.link("resolv-link", "let NetworkManager write it", "/run/NetworkManager/resolv.conf", "/etc/resolv.conf")
	}
	if r.spec.Secrets.Swap != "" {
		r.run("swap-close", "close the swap", "cryptsetup", "close", "cryptswap")
	}
	r.run("unmount", "unmount everything", "umount", "-R", target)
	r.run("export", "export the pool, so that it is imported without force", "zpool", "export", pool)
	r.run("exported", "see that the label says so", "zdb", "-l", r.part(r.IDs.Pool)).
		check("state: 1", "zdb", "-l", r.part(r.IDs.Pool))
}
