package lint

import (
	"fmt"
	"testing"

	"bakeoff/prepare/install/installed"
)

// TestCleanDisks checks that nothing is found where facts about disks, swap and the firmware are unknown,
// or are written in another way.
func TestCleanDisks(t *testing.T) {
	for name, m := range map[string]*machine{
		"blkid does not know the mounted ESP": change(voidMachine(), func(m *machine) { delete(m.Blkid, "/dev/nvme0n1p1") }),
		"blkid knows nothing of the ESP":      change(voidMachine(), func(m *machine) { m.Blkid["/dev/nvme0n1p1"] = nil }),
		"the type of the ESP is unknown": change(mirrorMachine(), func(m *machine) {
			m.Blkid["/dev/nvme1n1p1"] = map[string]string{"TYPE": ""}
			delete(m.ESPFiles, "esp-2")
		}),
		"the order of entries is unknown": change(voidMachine(), func(m *machine) { m.EFI.Order = nil }),
		"the states of entries are unknown": change(voidMachine(), func(m *machine) {
			m.EFI.Entries[0].Active, m.EFI.Entries[1].Active = nil, nil
		}),
		"two entries with arguments of their own": change(unifiedMachine(), func(m *machine) {
			e := m.EFI.Entries[0]
			e.Number, e.Loader = "0001", `\vmlinuz-6.12`
			m.ESPFiles[espID]["vmlinuz-6.12"] = "sha256:5"
			m.EFI.Order = []string{"0000", "0001", "0002"}
			second := e
			second.Number = "0002"
			m.EFI.Entries = append(m.EFI.Entries, e, second)
			m.ZBM = &installed.ZBM{}
			m.Bootloader = "refind"
		}),
		"an entry without a file is tried": change(voidMachine(), func(m *machine) {
			m.EFI.Entries[0].Active = truth(false)
			m.EFI.Entries[1].Loader = ""
		}),
		"partitions are unknown": change(mirrorMachine(), func(m *machine) {
			for _, d := range m.Disks {
				for n := range d.Partitions {
					d.Partitions[n].PartUUID, d.Partitions[n].Type = "", ""
				}
			}
		}),
		"the kind of disk is unknown": change(voidMachine(), func(m *machine) {
			m.Disks[0].Rotational = nil
			m.Pools["zroot"].Props["autotrim"] = "off"
		}),
		"an ashift that is no ashift": change(voidMachine(), func(m *machine) { m.Pools["zroot"].Props["ashift"] = "-3" }),
		"an ashift that is too large": change(voidMachine(), func(m *machine) { m.Pools["zroot"].Props["ashift"] = "64" }),
		"no crypttab in NixOS": change(voidMachine(), func(m *machine) {
			m.OS.ID, m.OS.Init, m.Bootloader, m.Packages, m.Tools = "nixos", "systemd", "systemd-boot", nil, nil
			m.ZBM, m.Services = nil, nil
			delete(m.files, "etc/crypttab")
		}),
		"arch, crypttab of the initramfs": change(sleepingMachine(), func(m *machine) {
			m.OS.ID, m.Packages, m.Tools = "arch", nil, map[string]string{"mkinitcpio": "40", "systemd": "258", "zfs": "2.3.9"}
			m.files["etc/crypttab.initramfs"] = m.files["etc/crypttab"]
			delete(m.files, "etc/crypttab")
		}),
		"a removable disk": change(voidMachine(), func(m *machine) {
			m.write("etc/fstab", string(m.files["etc/fstab"].Data)+"UUID=0d0c7b2a /mnt/backup ext4 noauto,user 0 0\n"+
				"LABEL=backup /mnt/other ext4 nofail 0 0\n")
			m.write("etc/crypttab", string(m.files["etc/crypttab"].Data)+"backup UUID=0d0c7b2b none luks,noauto\n")
		}),
		"swap on a logical volume": change(debianMachine(), func(m *machine) {
			line := "cryptswap /dev/vg-0/swap /etc/cryptsetup-keys.d/cryptswap.key luks,x-initrd.attach\n"
			m.write("etc/crypttab", line)
			m.image(func(i *installed.Initramfs) { i.Crypttab = &line })
			m.Blkid["/dev/mapper/vg--0-swap"] = m.Blkid["/dev/nvme0n1p2"]
			m.Blkid["/dev/nvme0n1p2"] = map[string]string{"TYPE": "LVM2_member", "UUID": "a"}
		}),
		"a second swap with a random key": change(voidMachine(), func(m *machine) {
			m.write("etc/crypttab", string(m.files["etc/crypttab"].Data)+"fast PARTUUID="+poolID+" /dev/urandom swap\n")
			m.Swaps = append(m.Swaps, installed.Swap{Device: "/dev/mapper/fast", Size: 99 * gibi})
		}),
		"a unit for the swap": change(debianMachine(), func(m *machine) {
			m.write("etc/fstab", "UUID=AAAA-0001 /boot/efi vfat umask=0077,nofail 0 0\n")
			m.write("etc/systemd/system/dev-mapper-cryptswap.swap", "[Swap]\nWhat=/dev/mapper/cryptswap\n")
		}),
		"debian 12, the largest swap": change(oldDebianMachine(), func(m *machine) {
			delete(m.files, "etc/initramfs-tools/conf.d/resume")
		}),
		"debian 12, RESUME=auto": change(oldDebianMachine(), func(m *machine) {
			m.write("etc/initramfs-tools/conf.d/resume", "RESUME=auto\n")
		}),
		"debian 12, options that do not matter for a device of the initramfs": change(oldDebianMachine(), func(m *machine) {
			line := "cryptswap UUID=" + luksID + " /etc/cryptsetup-keys.d/cryptswap.key luks,noauto\n"
			m.write("etc/crypttab", line)
			m.image(func(i *installed.Initramfs) { i.Crypttab = &line })
		}),
		"void, resume by the identifier of the mapper": resumeBy(voidMachine(), "/dev/disk/by-id/dm-name-cryptswap"),
		"void, resume by the identifier of LUKS": resumeBy(voidMachine(),
			"/dev/disk/by-id/dm-uuid-CRYPT-LUKS1-0b5f9a52111142228333444455556666-cryptswap"),
		"void, resume by the numbers of the device": resumeBy(voidMachine(), "254:1"),
		"resume by UUID":                   resumeBy(plainSwapMachine(), "UUID="+swapUUID),
		"resume by the link of the UUID":   resumeBy(plainSwapMachine(), "/dev/disk/by-uuid/"+swapUUID),
		"resume by LABEL":                  resumeBy(plainSwapMachine(), "/dev/disk/by-label/my\\x20swap"),
		"resume by PARTUUID":               resumeBy(plainSwapMachine(), "PARTUUID="+swapID),
		"resume by the link of PARTUUID":   resumeBy(plainSwapMachine(), "/dev/disk/by-partuuid/"+swapID),
		"resume by PARTLABEL":              resumeBy(plainSwapMachine(), "PARTLABEL=swap"),
		"resume by the link of PARTLABEL":  resumeBy(plainSwapMachine(), "/dev/disk/by-partlabel/swap"),
		"resume by the identifier of disk": resumeBy(plainSwapMachine(), "/dev/disk/by-id/nvme-T1-part2"),
		"resume by another name of the disk": change(resumeBy(plainSwapMachine(), "/dev/disk/by-id/nvme-eui.1-part2"),
			func(m *machine) { m.Disks[0].Links = []string{"nvme-eui.1"} }),
		"resume by another identifier": resumeBy(plainSwapMachine(), "/dev/disk/by-id/nvme-eui.1-part2"),
		"debian 13, facts of systemd are unknown": change(debianMachine(), func(m *machine) {
			m.set("rpool/ROOT/debian", propCommandLine, "%{parent} ro")
			m.Firmware.EFIVars = nil
			delete(m.Tools, "systemd")
		}),
		"debian 13, the partition by its name for systemd": change(debianMachine(), func(m *machine) {
			m.set("rpool/ROOT/debian", propCommandLine,
				"%{parent} rd.luks.name="+luksID+"=cryptswap luks.crypttab=no resume=/dev/mapper/cryptswap")
		}),
		"the arguments and the kernel of a unified image are unknown": change(unifiedMachine(), func(m *machine) {
			m.UKI[0].Cmdline, m.UKI[0].Kernel = "", ""
		}),
		"arch, the arguments in parts": change(unifiedMachine(), func(m *machine) {
			m.OS.ID, m.Packages, m.Tools = "arch", nil, map[string]string{"mkinitcpio": "40"}
			delete(m.files, "etc/kernel/cmdline")
			delete(m.files, "etc/kernel/install.conf")
			m.write("etc/cmdline.d/10-root.conf", "# the root\nroot=ZFS=rpool/ROOT/debian ro\n")
			m.write("etc/cmdline.d/20-quiet.conf", "quiet\n")
		}),
		"a part of install.conf": change(unifiedMachine(), func(m *machine) {
			m.write("etc/kernel/install.conf", "initrd_generator=dracut\n")
			m.write("etc/kernel/install.conf.d/uki.conf", "layout=uki\n")
		}),
		"the initial RAM disk of a kernel is unknown": change(voidMachine(), func(m *machine) {
			m.Kernels[0].Initramfs = ""
		}),
		"debian 11, the version of dkms is unknown": change(debianMachine(), func(m *machine) {
			m.OS.Version = "11"
			m.write("etc/dkms/zfs.conf", "REMAKE_INITRD=yes\n")
			delete(m.Packages, "dkms")
		}),
		"void, a configuration that is included": change(voidMachine(), func(m *machine) {
			delete(m.files, "etc/xbps.d/10-kernel.conf")
			m.write("etc/xbps.d/00.conf", "include=kernel/10.txt\n")
			m.write("etc/xbps.d/kernel/10.txt", "ignorepkg=linux\nignorepkg=linux-headers\n")
		}),
		"void, another DHCP client": change(voidMachine(), func(m *machine) { m.Services = []string{"dhcpcd-eth0", "dbus"} }),
		"crypttab of the initramfs by another name": change(voidMachine(), func(m *machine) {
			line := "cryptswap /dev/disk/by-id/nvme-eui.1-part2 /boot/volume.key luks\n"
			m.image(func(i *installed.Initramfs) { i.Crypttab = &line })
		}),
		"debian 13, backports for other packages": change(debianMachine(), func(m *machine) {
			m.write("etc/apt/sources.list", "deb http://deb.debian.org/debian trixie-backports main\n")
		}),
		"debian 12, GRUB, unknown mounts and compatibility": change(grubMachine(), func(m *machine) {
			delete(m.Pools["bpool"].Props, "compatibility")
			m.Mounts = m.Mounts[:1]
		}),
		"a disk of Windows": withWindows(unifiedMachine()),
		"a disk of Windows with large sectors": change(withWindows(voidMachine()), func(m *machine) {
			m.Disks[1].Logical = 4096
		}),
		"a disk of Windows without a fallback": change(withWindows(voidMachine()), func(m *machine) {
			delete(m.ESPFiles["esp-w"], "EFI/Boot/bootx64.efi")
		}),
		"a disk of Windows with unknown files": change(withWindows(mirrorMachine()), func(m *machine) {
			delete(m.ESPFiles, "esp-w")
		}),
		"a mirror, and a disk of Windows": withWindows(mirrorMachine()),
		"a mirror, what firmware and other systems write to one ESP": change(mirrorMachine(), func(m *machine) {
			for _, f := range []string{"EFI/Dell/logs/diags.xml", "EFI/Microsoft/Boot/bootmgfw.efi", "BIOS.log",
				"EFI/ZBM/update.cap"} {
				m.ESPFiles[espID][f] = "sha256:9"
			}
		}),
		"debian, NVMe disks that the program of Debian trims": change(debianMachine(), func(m *machine) {
			trimmedByDebian(m, "nvme0n1")
		}),
		"debian, a pool that the program of Debian should trim": change(debianMachine(), func(m *machine) {
			trimmedByDebian(m, "sda")
			m.set("rpool", "org.debian:periodic-trim", "enable")
		}),
		"debian, an import with values of options": change(oldDebianMachine(), func(m *machine) {
			m.write("etc/default/zfs", "ZPOOL_IMPORT_OPTS=\"-Nocachefile=none -d /dev/f\"\n")
		}),
		"debian, headers of each kind of kernel": change(debianMachine(), func(m *machine) {
			m.Packages["linux-image-amd64"], m.Packages["linux-image-6.12.5-amd64"] = "6.12-1", "6.12-1"
			m.Packages["linux-image-amd64-dbg"] = "6.12-1"
		}),
		"debian 12, files that mkinitramfs ignores": change(oldDebianMachine(), func(m *machine) {
			for _, name := range []string{"resume~", "resume.dpkg-old", ".resume.swp"} {
				m.write("etc/initramfs-tools/conf.d/"+name, "RESUME=none\n")
			}
		}),
		"debian 12, the mask of a package": change(oldDebianMachine(), func(m *machine) {
			m.write("etc/initramfs-tools/initramfs.conf", "MODULES=most\n")
			m.write("usr/share/initramfs-tools/conf.d/mask", "UMASK=0077\n")
		}),
		"debian, the ESP mounted when it is used": change(debianMachine(), func(m *machine) {
			m.write("etc/fstab", "/dev/mapper/cryptswap none swap defaults 0 0\n"+
				"UUID=AAAA-0001 /boot/efi vfat umask=0077,x-systemd.automount 0 0\n")
		}),
		"swap without a name": change(voidMachine(), func(m *machine) { m.Swaps[0] = installed.Swap{} }),
	} {
		checkClean(t, name, m)
	}
}

const swapUUID = "77777777-1111-4222-8333-444455556666"

// plainSwapMachine is Void Linux without encryption.
func plainSwapMachine() *machine {
	m := voidMachine()
	for name := range m.Datasets {
		m.set(name, "encryption", "off")
	}
	delete(m.Datasets["zroot"], propKeySource)
	m.Disks[0].Partitions[1].Label = "swap"
	m.Blkid["/dev/nvme0n1p2"] = map[string]string{"TYPE": "swap", "UUID": swapUUID, "LABEL": "my swap"}
	delete(m.Blkid, "/dev/mapper/cryptswap")
	m.Swaps[0].Device = "/dev/nvme0n1p2"
	m.write("etc/fstab", "UUID="+swapUUID+" none swap defaults 0 0\nUUID=AAAA-0001 /boot/efi vfat umask=0077,nofail 0 0\n")
	delete(m.files, "etc/crypttab")
	m.image(func(i *installed.Initramfs) { i.Files, i.Crypttab = []string{"/etc/hostid"}, nil })
	return m
}

// withWindows adds the disk of another system.
func withWindows(m *machine) *machine {
	m.Disks = append(m.Disks, installed.Disk{Name: "sdb", ByID: "ata-W", Serial: "W", Size: 512 * gibi, Logical: 512,
		Physical: 4096, Partitions: []installed.Partition{
			{Number: 1, Device: "/dev/sdb1", Type: installed.TypeESP, PartUUID: "esp-w", Start: 2048, Size: 100 << 20}}})
	m.Blkid["/dev/sdb1"] = map[string]string{"TYPE": "vfat", "UUID": "AAAA-0009"}
	m.ESPFiles["esp-w"] = map[string]string{"EFI/Microsoft/Boot/bootmgfw.efi": "sha256:8",
		"EFI/Boot/bootx64.efi": "sha256:8"}
	m.EFI.Entries = append(m.EFI.Entries, installed.EFIEntry{Number: "0009", Active: truth(true), PartUUID: "esp-w",
		Loader: `\EFI\Microsoft\Boot\bootmgfw.efi`})
	m.EFI.Order = append(m.EFI.Order, "0009")
	return m
}

// resumeBy changes the argument resume=.
func resumeBy(m *machine, source string) *machine {
	line := "%{parent} resume=" + source
	if b := m.Blkid["/dev/nvme0n1p2"]; b["TYPE"] == "crypto_LUKS" {
		line += " rd.luks.uuid=" + b["UUID"]
	}
	m.set(voidRoot, propCommandLine, line)
	return m
}

// TestFixesOfDisks puts one fault into a system, and checks that the fix mends it and does no harm.
func TestFixesOfDisks(t *testing.T) {
	luks := func(arguments string) func(*machine) {
		return func(m *machine) {
			m.set("rpool/ROOT/debian", propCommandLine, "%{parent} resume=/dev/mapper/cryptswap "+arguments)
		}
	}
	for i, c := range []struct {
		base             func() *machine
		damage           func(*machine)
		name, where, fix string
	}{
		{mirrorMachine, func(m *machine) {
			delete(m.Blkid, "/dev/nvme1n1p1")
			delete(m.ESPFiles, "esp-2")
		}, "esp-not-formatted", "/dev/nvme1n1p1",
			"If blkid -p /dev/nvme1n1p1 finds nothing: mkfs.vfat -F 32 /dev/nvme1n1p1, and copy the loaders"},
		{voidMachine, func(m *machine) { // the entry that works is the second
			e := m.EFI.Entries[0]
			e.Number, m.EFI.Entries[0].Active = "0003", truth(false)
			m.EFI.Entries = append(m.EFI.Entries, e)
			m.EFI.Order = []string{"0003", "0001"}
		}, "entries-doubled", "efibootmgr", "efibootmgr -b 0000 -B"},
		{voidMachine, func(m *machine) {
			e := m.EFI.Entries[0]
			e.Number, m.EFI.Current = "0003", "0003"
			m.EFI.Entries = append(m.EFI.Entries, e)
			m.EFI.Order = append(m.EFI.Order, "0003")
		}, "entries-doubled", "efibootmgr", "efibootmgr -b 0000 -B"},
		{voidMachine, func(m *machine) {
			e := m.EFI.Entries[0]
			e.Number, e.Label = "0003", "ZFSBootMenu with a console"
			m.EFI.Entries = append(m.EFI.Entries, e)
		}, "entries-doubled", "efibootmgr",
			"If efibootmgr -v shows the same arguments for both: efibootmgr -b 0003 -B"},
		{unifiedMachine, func(m *machine) {
			m.OS.ID, m.Packages, m.Tools = "arch", nil, map[string]string{"mkinitcpio": "40"}
			m.UKI[0].Kernel = "6.1"
		}, "kernel-without-uki", debKernelAt, "mkinitcpio -P"},
		{voidMachine, func(m *machine) {
			e := m.EFI.Entries[0]
			e.Number, e.Active = "0003", nil
			m.EFI.Entries = append(m.EFI.Entries, e)
		}, "entries-doubled", "efibootmgr",
			"Delete the one that the firmware does not use (efibootmgr -b NUMBER -B)."},
		{voidMachine, func(m *machine) {
			m.EFI.Entries[0].Active, m.EFI.Entries[1].Active = truth(false), truth(false)
		}, "entries-not-in-order", "efibootmgr", "efibootmgr -b 0000 -a; efibootmgr -b 0001 -a"},
		{voidMachine, func(m *machine) {
			m.EFI.Entries[1].Active = truth(false)
			m.EFI.Order = []string{"0001", "0007"}
		}, "entries-not-in-order", "efibootmgr", "efibootmgr -b 0001 -a; efibootmgr -o 0000,0001,0007"},
		{voidMachine, func(m *machine) {
			m.RAMBytes = 0
			delete(m.files, "etc/modprobe.d/zfs.conf")
		}, "arc-uncapped", "etc/modprobe.d/zfs.conf", "options zfs zfs_arc_max=BYTES " +
			"(a quarter of the memory), then xbps-reconfigure -fa"},
		{voidMachine, func(m *machine) { m.write("etc/modprobe.d/zfs.conf", "options zfs zfs_arc_max=4096\n") },
			"arc-limit-low", "etc/modprobe.d/zfs.conf", "options zfs zfs_arc_max=4294967296, then xbps-reconfigure -fa"},
		{voidMachine, func(m *machine) {
			m.Disks[0].Physical = 512
			m.Pools["zroot"].Props["ashift"] = "9"
		}, "ashift-small", "zroot ashift",
			"Make the pool again with ashift=12; the ashift of a pool cannot be changed."},
		{voidMachine, func(m *machine) { m.pool("zroot", func(p *installed.Pool) { p.VDevs[0] = "nvme0n1p3" }) },
			"pool-device-name", "zroot vdevs", "In a rescue system, zpool import -f -N -d /dev/disk/by-id zroot, then " +
				"zpool export zroot"},
		{voidMachine, func(m *machine) {
			m.Disks[0].ByID = ""
			m.Pools["tank; reboot"] = installed.Pool{VDevs: []string{"/dev/nvme0n1p3"}}
		}, "pool-device-name", "tank; reboot vdevs",
			"zpool export 'tank; reboot', then zpool import -d /dev/disk/by-partuuid 'tank; reboot'"},
		{voidMachine, func(m *machine) {
			m.Blkid["/dev/nvme0n1"] = map[string]string{"TYPE": "zfs_member", "LABEL": "old"}
			m.Tools["util_linux"] = "2.38.1"
		}, "label-stale", "/dev/nvme0n1", "With wipefs of util-linux 2.41 or later, as earlier versions miss labels of " +
			"ZFS: wipefs --all --force --types zfs_member /dev/nvme0n1; not zpool labelclear, which can remove the " +
			"partition table"},
		{voidMachine, func(m *machine) {
			m.write("etc/crypttab", string(m.files["etc/crypttab"].Data)+"fast PARTUUID="+poolID+" /dev/urandom swap\n")
			m.Swaps = append(m.Swaps, installed.Swap{Device: "/dev/mapper/fast", Size: 99 * gibi})
			resumeBy(m, "/dev/mapper/fast")
		}, "swap-key-random", "etc/crypttab", "Give the swap a LUKS header and a key that stays."},
		{oldDebianMachine, func(m *machine) { m.write("etc/initramfs-tools/conf.d/resume", "RESUME=none\n") },
			"resume-off", "etc/initramfs-tools/conf.d/resume", "Write RESUME=/dev/mapper/cryptswap, " +
				"then update-initramfs -u -k all."},
		{plainSwapMachine, func(m *machine) { resumeBy(m, "/dev/sda9") }, "resume-wrong", voidRoot + " " + propCommandLine,
			"Write resume=UUID=" + swapUUID + "."},
		{plainSwapMachine, func(m *machine) {
			m.Disks[0].Links = []string{"nvme-eui.1"}
			resumeBy(m, "/dev/disk/by-id/nvme-eui.1-part1")
		}, "resume-wrong", voidRoot + " " + propCommandLine, "Write resume=UUID=" + swapUUID + "."},
		{plainSwapMachine, func(m *machine) { resumeBy(m, "PARTUUID="+poolID) }, "resume-wrong",
			voidRoot + " " + propCommandLine, "Write resume=UUID=" + swapUUID + "."},
		{plainSwapMachine, func(m *machine) { resumeBy(m, "LABEL=other") }, "resume-wrong",
			voidRoot + " " + propCommandLine, "Write resume=UUID=" + swapUUID + "."},
		{voidMachine, func(m *machine) {
			m.Tools["dracut"] = "059"
			m.write("etc/dracut.conf.d/host.conf", "hostonly=yes\n")
		}, "crypttab-not-in-initramfs", "etc/crypttab", "Add the option force to cryptswap, then xbps-reconfigure -fa."},
		{debianMachine, luks("rd.luks=false"), "luks-off", "rpool/ROOT/debian " + propCommandLine, "Remove rd.luks=false."},
		{debianMachine, luks("luks=off"), "luks-off", "rpool/ROOT/debian " + propCommandLine, "Remove luks=off."},
		{debianMachine, luks("rd.luks.crypttab=no"), "luks-crypttab-off", "rpool/ROOT/debian " + propCommandLine,
			"Remove rd.luks.crypttab=no."},
		{debianMachine, luks("rd.luks.crypttab=no rd.luks.uuid=" + luksID), "luks-crypttab-off",
			"rpool/ROOT/debian " + propCommandLine, "Remove rd.luks.crypttab=no."},
		{debianMachine, luks("luks.uuid=" + swapID), "luks-uuid-wrong", "rpool/ROOT/debian " + propCommandLine,
			"Write the UUID that blkid shows for the swap partition."},
		{debianMachine, luks("rd.luks.name=" + swapID + "=cryptswap"), "luks-uuid-wrong",
			"rpool/ROOT/debian " + propCommandLine, "Write the UUID that blkid shows for the swap partition."},
		{unifiedMachine, func(m *machine) { m.write("etc/crypttab", "swap /dev/sda2 /dev/urandom swap\n") },
			"crypttab-device-name", "etc/crypttab", "Write PARTUUID= with what blkid shows for it."},
		{unifiedMachine, func(m *machine) { m.write("etc/crypttab", "swap UUID="+luksID+" /dev/urandom swap\n") },
			"crypttab-uuid-wrong", "etc/crypttab", "Write PARTUUID= with what blkid shows for the partition."},
		{unifiedMachine, func(m *machine) {
			m.write("etc/fstab", string(m.files["etc/fstab"].Data)+"/dev/zvol/rpool/swap none swap discard 0 0\n")
		}, "swap-on-zvol", "etc/fstab", "Use a partition for swap."},
		{voidMachine, func(m *machine) {
			m.write("etc/fstab", "/dev/mapper/cryptswap none swap defaults 0 0\nUUID=AAAA-0001 /boot/efi auto umask=0077 0 0\n")
		}, "esp-mount-options", "etc/fstab", "Add nofail to the end of the options of /boot/efi."},
		{voidMachine, func(m *machine) {
			m.write("etc/fstab", "/dev/mapper/cryptswap none swap defaults 0 0\n"+
				"UUID=AAAA-0001 /boot/efi vfat fmask=0077,umask=0022,nofail 0 0\n")
		}, "esp-mount-options", "etc/fstab", "Add umask=0077 to the end of the options of /boot/efi."},
		{voidMachine, func(m *machine) { m.Services = []string{"NetworkManager", "dhcpcd-eth0", "dbus"} },
			"services-conflict", "services", "rm /etc/runit/runsvdir/default/dhcpcd-eth0"},
		{grubMachine, func(m *machine) {
			m.Tools["grub"], m.Packages = "", map[string]string{"grub2": "2.06-13", "zfs-initramfs": "2.1"}
			m.Snapshots = installed.Snapshots{"bpool@a b"}
		}, "grub-pool-snapshot", "bpool@a b", "zfs destroy 'bpool@a b'"},
		{debianMachine, func(m *machine) { m.Packages["linux-image-amd64"] = "6.16.3-1~bpo13+1" }, "suites-mixed", "packages",
			"Add backports, with contrib, to the sources of apt, and install zfs-dkms and zfsutils-linux from there."},
		{debianMachine, func(m *machine) {
			m.Packages["linux-image-amd64"] = "6.16.3-1~bpo13+1"
			m.write("etc/apt/sources.list", "deb http://deb.debian.org/debian trixie-backports main contrib non-free-firmware\n")
		}, "suites-mixed", "packages", "apt-get install -t trixie-backports zfs-dkms zfsutils-linux"},
		{grubMachine, func(m *machine) { m.write("etc/default/grub", `GRUB_CMDLINE_LINUX="console=ttyS0"`) },
			"grub-without-root", "etc/default/grub",
			"Add root=ZFS=rpool/ROOT/debian to the value of GRUB_CMDLINE_LINUX, then update-grub."},
	} {
		t.Run(fmt.Sprintf("%d %s", i, c.name), func(t *testing.T) {
			m := c.base()
			c.damage(m)
			found := check(m)
			if len(found) != 1 {
				t.Fatalf("%d findings: %+v", len(found), found)
			}
			if f := found[0]; f.Name != c.name || f.Where != c.where || f.Fix != c.fix {
				t.Errorf("got %s at %s: %s\nwant %s at %s: %s", f.Name, f.Where, f.Fix, c.name, c.where, c.fix)
			}
		})
	}
}
