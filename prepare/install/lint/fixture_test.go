package lint

import (
	"encoding/binary"
	"io/fs"
	"maps"
	"testing/fstest"

	"bakeoff/prepare/install/installed"
)

// machine is a system in a test: its facts and its files.
type machine struct {
	installed.System
	files fstest.MapFS
}

// write writes a file of the system.
func (m *machine) write(name, text string) {
	m.files[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
}

// link makes a symbolic link.
func (m *machine) link(name, target string) {
	m.files[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
}

// set sets a property of a dataset, as zfs set does.
func (m *machine) set(dataset, prop, value string) {
	if m.Datasets[dataset] == nil {
		m.Datasets[dataset] = installed.Dataset{}
	}
	m.Datasets[dataset][prop] = installed.Property{Value: value, Source: "local"}
}

// dataset makes an encrypted dataset.
func (m *machine) dataset(name, mountpoint, canmount string) {
	root := installed.PoolOf(name)
	m.Datasets[name] = installed.Dataset{
		"mountpoint": {Value: mountpoint, Source: "local"}, "canmount": {Value: canmount, Source: "local"},
		"encryption": {Value: "aes-256-gcm", Source: "-"}, "encryptionroot": {Value: root},
		"keyformat": {Value: "passphrase", Source: "-"}, "keylocation": {Value: "none", Source: "default"},
	}
}

// hostid writes etc/hostid, and the same number into the pools and images.
func (m *machine) hostid(id uint32, text string) {
	m.files["etc/hostid"] = &fstest.MapFile{Data: binary.LittleEndian.AppendUint32(nil, id), Mode: 0o644}
	for name, p := range m.Pools {
		p.Label.HostID = text
		m.Pools[name] = p
	}
	for name, i := range m.Initramfs {
		i.HostID = &text
		m.Initramfs[name] = i
	}
}

// image changes the only initial RAM disk.
func (m *machine) image(change func(*installed.Initramfs)) {
	for name, i := range m.Initramfs {
		change(&i)
		m.Initramfs[name] = i
	}
}

// pool changes a pool.
func (m *machine) pool(name string, change func(*installed.Pool)) {
	p := m.Pools[name]
	change(&p)
	m.Pools[name] = p
}

func truth(b bool) *bool { return &b }

// Identifiers of the machines.
const (
	espID   = "6a1c1f0e-0000-4000-8000-000000000001"
	swapID  = "6a1c1f0e-0000-4000-8000-000000000002"
	poolID  = "6a1c1f0e-0000-4000-8000-000000000003"
	luksID  = "0b5f9a52-1111-4222-8333-444455556666"
	gibi    = int64(1) << 30
	typeZFS = "6A85CF4D-1DD2-11B2-99A6-080020736631"
	typeSwp = "0657FD6D-A4AB-43C4-84E5-0933C84B4F4F"
)

// features of a pool that OpenZFS 2.2 and later read.
var features = map[string]string{"async_destroy": "enabled", "encryption": "active", "lz4_compress": "active",
	"block_cloning": "enabled", "vdev_zaps_v2": "enabled", "zpool_checkpoint": "enabled"}

// newMachine is what all machines have: a disk with an ESP, a swap partition and a pool.
func newMachine(pool, root string) *machine {
	m := &machine{files: fstest.MapFS{}}
	m.Schema = installed.Schema
	m.OS.Arch = "x86_64"
	m.RAMBytes = 16 * gibi
	m.Firmware = installed.Firmware{Mode: "uefi", EFIVars: truth(true), SecureBoot: truth(false)}
	m.Disks = []installed.Disk{{Name: "nvme0n1", ByID: "nvme-T1", Serial: "T1", Size: 512 * gibi, Logical: 512,
		Physical: 4096, Rotational: truth(false), Discard: true, Separator: "p", Partitions: []installed.Partition{
			{Number: 1, Device: "/dev/nvme0n1p1", Type: installed.TypeESP, PartUUID: espID, Start: 2048, Size: gibi},
			{Number: 2, Device: "/dev/nvme0n1p2", Type: typeSwp, PartUUID: swapID, Size: 18 * gibi},
			{Number: 3, Device: "/dev/nvme0n1p3", Type: typeZFS, PartUUID: poolID, Size: 490 * gibi}}}}
	m.Blkid = map[string]map[string]string{
		"/dev/nvme0n1p1":        {"TYPE": "vfat", "UUID": "AAAA-0001"},
		"/dev/nvme0n1p2":        {"TYPE": "crypto_LUKS", "UUID": luksID},
		"/dev/mapper/cryptswap": {"TYPE": "swap", "UUID": "77777777-1111-4222-8333-444455556666"},
		"/dev/nvme0n1p3":        {"TYPE": "zfs_member", "LABEL": pool}}
	m.Mounts = []installed.Mount{{Source: root, Target: "/", Type: "zfs"},
		{Source: "/dev/nvme0n1p1", Target: "/boot/efi", Type: "vfat"}}
	m.Swaps = []installed.Swap{{Device: "/dev/mapper/cryptswap", Size: 18*gibi - 2<<20}}
	m.Pools = map[string]installed.Pool{pool: {
		Props: map[string]string{"bootfs": root, "ashift": "12", "autotrim": "on", "health": "ONLINE",
			"compatibility": "openzfs-2.2-linux", "org.zfsbootmenu:readonly": "on"},
		Features: maps.Clone(features), VDevs: []string{"/dev/disk/by-id/nvme-T1-part3"}}}
	m.Datasets = map[string]installed.Dataset{}
	m.dataset(pool, "none", "off")
	m.set(pool, "keylocation", "file:///etc/zfs/"+pool+".key")
	m.dataset(installed.Parent(root), "none", "on")
	m.dataset(root, "/", "noauto")
	m.dataset(pool+"/home", "/home", "on")
	m.ESPFiles = map[string]map[string]string{espID: {"EFI/ZBM/VMLINUZ.EFI": "sha256:1",
		"EFI/ZBM/VMLINUZ-BACKUP.EFI": "sha256:1", "EFI/BOOT/BOOTX64.EFI": "sha256:1"}}
	m.EFI = &installed.EFI{Current: "0000", Order: []string{"0000", "0001"}, Entries: []installed.EFIEntry{
		{Number: "0000", Active: truth(true), Label: "ZFSBootMenu", PartUUID: espID, Loader: `\EFI\ZBM\VMLINUZ.EFI`},
		{Number: "0001", Active: truth(true), Label: "Backup", PartUUID: espID, Loader: `\EFI\ZBM\VMLINUZ-BACKUP.EFI`}}}
	m.ZBM = &installed.ZBM{Version: "3.1.0", OpenZFS: "2.4.0", Signed: truth(false)}
	m.Hibernation = true
	m.set(installed.Parent(root), propCommandLine, "quiet")
	m.set(root, propCommandLine, "%{parent} rd.luks.uuid="+luksID+" resume=/dev/mapper/cryptswap")
	m.set(pool, propKeySource, root)
	m.write("etc/zfs/"+pool+".key", "a passphrase")
	m.write("etc/hostname", "test\n")
	m.write("etc/modprobe.d/zfs.conf", "options zfs zfs_arc_max=4294967296\n")
	m.write("etc/fstab", "/dev/mapper/cryptswap none swap defaults 0 0\n"+
		"UUID=AAAA-0001 /boot/efi vfat umask=0077,nofail 0 0\n")
	m.Modes = map[string]string{"/etc/zfs/" + pool + ".key": "0000"}
	return m
}

// kernel adds a kernel with its image, which has the keys and crypttab.
func (m *machine) kernel(version, image, initramfs string, modules ...string) {
	crypttab := string(m.files["etc/crypttab"].Data)
	keys := []string{"/etc/zfs/" + installed.PoolOf(m.Mounts[0].Source) + ".key", readCrypttab(crypttab)[0].key}
	m.Kernels = append(
		m.Kernels,
		installed.Kernel{Version: version, Image: image, Initramfs: initramfs, ZFSModule: truth(true)},
	)
	if m.Initramfs == nil {
		m.Initramfs = map[string]installed.Initramfs{}
	}
	m.Initramfs[initramfs] = installed.Initramfs{Mode: "0600", Modules: modules, Crypttab: &crypttab,
		Files: append(keys, "/etc/crypttab", "/etc/hostid"), ZFSModule: truth(true)}
	m.write(image, "")
	m.write(initramfs, "")
}

// voidMachine is Void Linux as the guide installs it, with its errors mended.
func voidMachine() *machine {
	m := newMachine("zroot", "zroot/ROOT/void")
	m.OS.ID, m.OS.Version, m.OS.Init = "void", "rolling", "runit"
	m.Tools = map[string]string{"zfs": "2.4.1", "dracut": "112"}
	m.Packages = map[string]string{"zfs": "2.4.1_1", "dracut": "112_1", "cryptsetup": "2.8_1", "linux6.12": "6.12.9_1",
		"linux6.12-headers": "6.12.9_1", "glibc": "2.41_1"}
	m.Services = []string{"NetworkManager", "dbus", "sddm", "polkitd"}
	m.write("etc/xbps.d/10-kernel.conf", "ignorepkg=linux\nignorepkg=linux-headers\n")
	m.write("etc/crypttab", "cryptswap UUID="+luksID+" /boot/volume.key luks\n")
	m.write("etc/dracut.conf.d/10-crypt.conf", `add_dracutmodules+=" crypt resume "`+"\n"+
		`install_items+=" /boot/volume.key /etc/crypttab "`+"\n")
	m.write("etc/dracut.conf.d/zol.conf", `nofsck="yes"`+"\n"+`add_dracutmodules+=" zfs "`+"\n"+
		`install_items+=" /etc/zfs/zroot.key "`+"\n")
	m.write("boot/volume.key", "")
	m.write("etc/rc.conf", "KEYMAP=us\n")
	m.Modes["/boot/volume.key"] = "0000"
	m.kernel("6.12.9_1", "boot/vmlinuz-6.12.9_1", "boot/initramfs-6.12.9_1.img", "base", "crypt", "resume", "zfs")
	m.hostid(0x1234abcd, "0x1234abcd")
	return m
}

// debianMachine is Debian 13 with dracut and ZFSBootMenu.
func debianMachine() *machine {
	m := newMachine("rpool", "rpool/ROOT/debian")
	m.OS.ID, m.OS.Version, m.OS.Init = "debian", "13", "systemd"
	m.Tools = map[string]string{"zfs": "2.3.9", "dracut": "106", "systemd": "257"}
	m.Packages = map[string]string{"zfsutils-linux": "2.3.9-1", "zfs-dkms": "2.3.9-1", "zfs-dracut": "2.3.9-1",
		"dracut": "106-6", "systemd-cryptsetup": "257-1", "linux-headers-amd64": "6.12-1", "dkms": "3.2.2-1"}
	m.Services = []string{"zfs-import-scan.service", "zfs-mount.service", "zfs.target"}
	m.write("etc/apt/sources.list.d/debian.sources", "Types: deb\nURIs: http://deb.debian.org/debian\n"+
		"Suites: trixie trixie-updates\nComponents: main contrib non-free-firmware\n")
	m.write("etc/cryptsetup-keys.d/cryptswap.key", "")
	m.write("etc/crypttab", "cryptswap UUID="+luksID+" /etc/cryptsetup-keys.d/cryptswap.key luks,x-initrd.attach\n")
	m.write("etc/dracut.conf.d/zfs.conf", `add_dracutmodules+=" zfs crypt resume "`+"\n"+
		`install_items+=" /etc/zfs/rpool.key /etc/cryptsetup-keys.d/cryptswap.key /etc/crypttab /etc/hostid "`+"\n")
	m.kernel("6.12.5+deb13-amd64", "boot/vmlinuz-6.12.5+deb13-amd64", "boot/initrd.img-6.12.5+deb13-amd64",
		"base", "crypt", "resume", "systemd", "systemd-cryptsetup", "zfs")
	for _, unit := range []string{"scan", "cache"} {
		name := "etc/systemd/system/zfs-import-" + unit + ".service.d/resume.conf"
		m.write(name, "[Unit]\nAfter=local-fs-pre.target\n")
		m.image(func(i *installed.Initramfs) { i.Files = append(i.Files, "/"+name) })
	}
	m.hostid(0x89abcdef, "0x89abcdef")
	return m
}

// oldDebianMachine is Debian 12 with initramfs-tools and ZFSBootMenu. Its OpenZFS 2.1 has
// no properties of users on pools.
func oldDebianMachine() *machine {
	m := debianMachine()
	m.OS.Version = "12"
	m.Tools = map[string]string{"zfs": "2.1.11", "systemd": "252"}
	m.Packages = map[string]string{"zfsutils-linux": "2.1.11-1", "zfs-dkms": "2.1.11-1", "zfs-initramfs": "2.1.11-1",
		"initramfs-tools": "0.142", "linux-headers-amd64": "6.1-1", "cryptsetup-initramfs": "2.6"}
	for name := range m.files {
		if name == "etc/dracut.conf.d/zfs.conf" || len(name) > 19 && name[:19] == "etc/systemd/system/" {
			delete(m.files, name)
		}
	}
	delete(m.files, "etc/apt/sources.list.d/debian.sources")
	m.write(
		"etc/apt/sources.list",
		"deb [signed-by=/usr/share/keyrings/d.gpg arch=amd64] http://deb.debian.org/debian "+
			"bookworm main contrib non-free-firmware\n",
	)
	m.pool("rpool", func(p *installed.Pool) {
		delete(p.Props, propReadOnly)
		p.Props["compatibility"] = "openzfs-2.1-linux"
		p.Features = map[string]string{"encryption": "active", "livelist": "enabled", "lz4_compress": "active"}
	})
	m.write("etc/crypttab", "cryptswap UUID="+luksID+" /etc/cryptsetup-keys.d/cryptswap.key luks,initramfs\n")
	m.write("etc/cryptsetup-initramfs/conf-hook", `KEYFILE_PATTERN="/etc/cryptsetup-keys.d/*.key"`+"\n")
	m.write("etc/initramfs-tools/conf.d/resume", "RESUME=/dev/mapper/cryptswap\n")
	m.write("etc/initramfs-tools/initramfs.conf", "MODULES=most\nUMASK=0077\n")
	crypttab := "cryptswap UUID=" + luksID + " /etc/cryptsetup-keys.d/cryptswap.key luks,initramfs\n"
	m.image(func(i *installed.Initramfs) { i.Modules, i.Crypttab = nil, &crypttab })
	m.set("rpool/ROOT/debian", propCommandLine, "%{parent} ro")
	return m
}

// unifiedMachine is Debian 13 with unified kernel images, and without hibernation.
func unifiedMachine() *machine {
	m := debianMachine()
	m.Hibernation, m.Swaps, m.ZBM, m.Bootloader = false, nil, nil, "systemd-boot"
	for _, f := range []string{"etc/crypttab", "etc/modprobe.d/zfs.conf", "etc/zfs/rpool.key"} {
		delete(m.files, f)
	}
	m.write("etc/fstab", "UUID=AAAA-0001 /efi vfat fmask=0077,dmask=0077,noauto,x-systemd.automount 0 0\n")
	m.Mounts[1].Target = "/efi"
	m.set("rpool", "keylocation", "prompt")
	m.Modes = nil
	m.write("etc/kernel/cmdline", "root=ZFS=rpool/ROOT/debian ro quiet\n")
	m.write("etc/kernel/install.conf", "layout=uki\n")
	m.write("etc/dracut.conf.d/zfs.conf", `hostonly="yes"`+"\n"+`add_dracutmodules+=" zfs "`+"\n")
	uki := "efi/EFI/Linux/6.12.5.efi"
	m.UKI = []installed.UKI{{Path: uki, Kernel: "6.12.5+deb13-amd64", Cmdline: "root=ZFS=rpool/ROOT/debian ro quiet",
		Files: []string{"/etc/hostid"}}}
	m.image(func(i *installed.Initramfs) { i.Files, i.Crypttab = []string{"/etc/hostid"}, nil })
	m.ESPFiles[espID] = map[string]string{
		"EFI/systemd/systemd-bootx64.efi": "sha256:1",
		"EFI/BOOT/BOOTX64.EFI":            "sha256:1",
		"EFI/Linux/6.12.5.efi":            "sha256:2",
	}
	m.EFI.Entries = []installed.EFIEntry{{Number: "0000", Active: truth(true), PartUUID: espID,
		Loader: `\EFI\systemd\systemd-bootx64.efi`}}
	m.EFI.Order = []string{"0000"}
	return m
}

// grubMachine is Debian 12 with GRUB 2.06 and a pool of its own for /boot.
func grubMachine() *machine {
	m := oldDebianMachine()
	m.Hibernation, m.Swaps, m.ZBM, m.Bootloader = false, nil, nil, "grub"
	m.Tools["grub"] = "2.06"
	for _, f := range []string{"etc/crypttab", "etc/zfs/rpool.key", "etc/cryptsetup-initramfs/conf-hook"} {
		delete(m.files, f)
	}
	m.Modes = nil
	m.set("rpool", "keylocation", "prompt")
	m.Pools["bpool"] = installed.Pool{
		Props:    map[string]string{"ashift": "12", "autotrim": "on", "compatibility": "grub2"},
		Features: map[string]string{"async_destroy": "enabled", "lz4_compress": "active", "encryption": "disabled"},
		VDevs:    []string{"/dev/disk/by-id/nvme-T1-part2"},
	}
	m.Datasets["bpool/BOOT/debian"] = installed.Dataset{"mountpoint": {Value: "/boot", Source: "local"},
		"encryption": {Value: "off", Source: "default"}}
	m.Mounts = append(m.Mounts, installed.Mount{Source: "bpool/BOOT/debian", Target: "/boot", Type: "zfs"})
	m.write("etc/fstab", "UUID=AAAA-0001 /boot/efi vfat umask=0022,fmask=0077,dmask=0077,nofail 0 0\n")
	m.write("etc/default/grub", `GRUB_CMDLINE_LINUX="root=ZFS=rpool/ROOT/debian"`+"\n")
	m.image(func(i *installed.Initramfs) { i.Files, i.Crypttab = []string{"/etc/hostid"}, nil })
	m.ESPFiles[espID] = map[string]string{"EFI/debian/grubx64.efi": "sha256:1", "EFI/BOOT/BOOTX64.EFI": "sha256:1"}
	m.EFI.Entries = []installed.EFIEntry{
		{Number: "0000", Active: truth(true), PartUUID: espID, Loader: `\EFI\debian\grubx64.efi`},
	}
	m.Snapshots = installed.Snapshots{"bpool/BOOT/debian@before"}
	return m
}

// sleepingMachine is Debian 13 with a unified kernel image, which asks for both passphrases, and hibernation.
func sleepingMachine() *machine {
	m := unifiedMachine()
	d := debianMachine()
	m.Hibernation, m.Swaps = true, d.Swaps
	const line = "root=ZFS=rpool/ROOT/debian rd.luks.uuid=" + luksID + " resume=/dev/mapper/cryptswap quiet"
	m.write("etc/kernel/cmdline", line+"\n")
	crypttab := "cryptswap UUID=" + luksID + " none luks,x-initrd.attach\n"
	m.write("etc/crypttab", crypttab)
	m.write("etc/fstab", "/dev/mapper/cryptswap none swap defaults 0 0\nUUID=AAAA-0001 /efi vfat umask=0077,nofail 0 0\n")
	m.files["etc/modprobe.d/zfs.conf"] = d.files["etc/modprobe.d/zfs.conf"]
	m.write("etc/dracut.conf.d/zfs.conf", `add_dracutmodules+=" zfs crypt resume "`+"\n"+
		`install_items+=" /etc/crypttab "`+"\n")
	files := []string{"/etc/hostid", "/etc/crypttab"}
	for _, unit := range []string{"scan", "cache"} {
		name := "etc/systemd/system/zfs-import-" + unit + ".service.d/resume.conf"
		m.write(name, "[Unit]\nAfter=local-fs-pre.target\n")
		files = append(files, "/"+name)
	}
	m.UKI[0].Cmdline, m.UKI[0].Files = line, files
	m.image(func(i *installed.Initramfs) { i.Files, i.Crypttab = files, &crypttab })
	return m
}

// signedMachine is Debian 12 with GRUB under Secure Boot. Its machine owner enrolled the key of dkms.
func signedMachine() *machine {
	m := grubMachine()
	m.Firmware.SecureBoot = truth(true)
	m.Firmware.MOK = []installed.Certificate{{Subject: "Debian Secure Boot CA", Serial: "01"},
		{Subject: "DKMS module signing key", Serial: "AB:00:CD"}}
	m.Kernels[0].ZFSModuleKey = new("AB:00:CD")
	return m
}

// mirrorMachine is Void Linux on two disks.
func mirrorMachine() *machine {
	m := voidMachine()
	second := m.Disks[0]
	second.Name, second.ByID, second.Serial = "nvme1n1", "nvme-T2", "T2"
	second.Partitions = []installed.Partition{
		{Number: 1, Device: "/dev/nvme1n1p1", Type: installed.TypeESP, PartUUID: "esp-2", Size: gibi},
		{Number: 3, Device: "/dev/nvme1n1p3", Type: typeZFS, PartUUID: "pool-2", Size: 490 * gibi}}
	m.Disks = append(m.Disks, second)
	m.Blkid["/dev/nvme1n1p1"] = map[string]string{"TYPE": "vfat", "UUID": "AAAA-0002"}
	m.Blkid["/dev/nvme1n1p3"] = map[string]string{"TYPE": "zfs_member"}
	m.pool("zroot", func(p *installed.Pool) { p.VDevs = append(p.VDevs, "/dev/disk/by-id/nvme-T2-part3") })
	m.ESPFiles["esp-2"] = maps.Clone(m.ESPFiles[espID])
	m.EFI.Entries = append(m.EFI.Entries, installed.EFIEntry{Number: "0002", Active: truth(true), PartUUID: "esp-2",
		Loader: `\EFI\ZBM\VMLINUZ.EFI`})
	m.EFI.Order = append(m.EFI.Order, "0002")
	return m
}

// netbsdMachine is NetBSD whose RAM disk mounts the root.
func netbsdMachine() *machine {
	m := &machine{files: fstest.MapFS{}}
	m.Schema = installed.Schema
	m.OS = installed.OS{ID: "netbsd", Version: "11.0", Arch: "x86_64", Init: "rc"}
	m.Firmware.Mode = "uefi"
	m.Pools = map[string]installed.Pool{
		"rpool": {Props: map[string]string{"ashift": "12", "health": "ONLINE"}, VDevs: []string{"/dev/dk2"}},
	}
	m.Datasets = map[string]installed.Dataset{
		"rpool":      {"mountpoint": {Value: "none"}},
		"rpool/ROOT": {"mountpoint": {Value: "legacy"}},
	}
	m.Mounts = []installed.Mount{{Source: "rpool/ROOT", Target: "/", Type: "zfs"}}
	m.write(
		"boot.cfg",
		"menu=Boot NetBSD:rndseed /var/db/entropy-file;load solaris;load zfs;fs /ramdisk-zfsroot.fs;boot\ntimeout=5\n",
	)
	m.write("etc/rc.conf", "zfs=YES\n")
	return m
}
