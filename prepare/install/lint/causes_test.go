package lint

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bakeoff/prepare/install/installed"
)

// homeKey makes the home of a pool an encryption root of its own, whose key is a file.
func homeKey(pool, file string) func(*machine) {
	return func(m *machine) {
		m.set(pool+"/home", "encryptionroot", pool+"/home")
		m.set(pool+"/home", "keylocation", "file:///"+file)
		m.write(file, "a passphrase")
		m.Modes["/"+file] = "0400"
	}
}

// trimmedByDebian leaves it to the program of Debian to trim the pool, which is on a disk of this name.
func trimmedByDebian(m *machine, disk string) {
	m.Pools["rpool"].Props["autotrim"] = "off"
	m.Disks[0].Name = disk
	m.write("etc/cron.d/zfsutils-linux",
		"24 0 1-7 * * root if [ -x /usr/lib/zfs-linux/trim ]; then /usr/lib/zfs-linux/trim; fi\n")
}

// TestOneCauseIsOneFinding puts one fault that shows in several facts into a system, and expects one finding, with a
// fix that keeps data and takes effect. A fix "" is not compared.
func TestOneCauseIsOneFinding(t *testing.T) {
	for i, c := range []struct {
		base             func() *machine
		damage           func(*machine)
		name, where, fix string
	}{
		{voidMachine, func(m *machine) { m.Blkid["/dev/nvme0n1p2"]["UUID"] = swapID }, "crypttab-uuid-wrong", "etc/crypttab",
			"Write the UUID that blkid shows for the partition, also in rd.luks.uuid= (" + voidRoot + " " + propCommandLine +
				"), then xbps-reconfigure -fa."},
		{voidMachine, func(m *machine) {
			m.write("etc/crypttab", "cryptswap UUID="+luksID+" /boot/other.key luks\n")
		}, "key-file-missing", "etc/crypttab", ""},
		{debianMachine, func(m *machine) {
			m.Pools["rpool"].Props["autotrim"] = "off"
			m.Services = append(m.Services, "zfs-trim-weekly@tank.timer")
			m.write("etc/cron.weekly/trim", "zpool trim -r 100M tank # rpool\n")
		}, "autotrim-off", "rpool autotrim", ""},
		{proxmoxMachine, func(m *machine) { m.dataset("rpool/ROOT/before", "/", "noauto") }, "environment-canmount",
			"rpool/ROOT/debian canmount", ""},
		{grubMachine, func(m *machine) { // only efibootmgr names the loader
			m.Bootloader = ""
			m.Snapshots = installed.Snapshots{"bpool@a"}
		}, "grub-pool-snapshot", "bpool@a", ""},
		{voidMachine, func(m *machine) {
			m.ZBM = nil
			m.set(voidRoot, "canmount", "on")
		}, "environment-canmount", voidRoot + " canmount", ""},
		{voidMachine, func(m *machine) {
			m.write("etc/dracut.conf.d/line.conf", "kernel_cmdline+=' zfs_force=1 '\n")
		}, "import-forced", "etc/dracut.conf.d/line.conf", "Remove zfs_force, then xbps-reconfigure -fa."},
		{voidMachine, func(m *machine) {
			p := m.Datasets[voidRoot][propCommandLine]
			m.set(voidRoot, propCommandLine, p.Value+` "noresume"`)
		}, "resume-off", voidRoot + " " + propCommandLine, ""},
		{grubMachine, func(m *machine) {
			m.write("etc/modprobe.d/spl.conf", "options spl spl_hostid=0x00bab10c\n")
		}, "hostid-argument-differs", "etc/modprobe.d/spl.conf", ""},
		{grubMachine, func(m *machine) {
			m.write(grubDefaults, "GRUB_ENABLE_BLSCFG=true\nGRUB_CMDLINE_LINUX=\"root=ZFS=rpool/ROOT/debian\"\n")
			m.write("boot/loader/entries/a-6.1.conf", "title Linux\noptions ro\n")
		}, "grub-without-root", "boot/loader/entries/a-6.1.conf", ""},
		// A key may be the only copy.
		{grubMachine, func(m *machine) {
			m.dataset("tank", "/tank", "on")
			m.set("tank", "keyformat", "raw")
			m.set("tank", "keylocation", "file:///etc/zfs/tank.key")
			m.write("etc/zfs/tank.key", "12345678901234567890123456789012")
			m.image(func(i *installed.Initramfs) { i.Files = append(i.Files, "/etc/zfs/tank.key") })
		}, "key-in-clear-initramfs", debImage, "Copy the key to an encrypted filesystem, zfs set keylocation=file:///PATH " +
			"tank, remove the key from its folder and from the configuration of the initramfs, and run " +
			"update-initramfs -u -k all."},
		{grubMachine, func(m *machine) {
			m.image(func(i *installed.Initramfs) { i.Files, i.Mode = append(i.Files, "/etc/zfs/rpool.key"), "0644" })
		}, "key-in-clear-initramfs", debImage, ""},
		{grubMachine, func(m *machine) {
			m.image(func(i *installed.Initramfs) { i.Files = append(i.Files, "/etc/zfs/rpool.passphrase") })
		}, "key-in-clear-initramfs", debImage, "Copy the key to an encrypted filesystem, name the copy in what reads the " +
			"key, remove the key from its folder and from the configuration of the initramfs, and run " +
			"update-initramfs -u -k all."},
		{grubMachine, func(m *machine) {
			m.Modes = map[string]string{}
			homeKey("rpool", "etc/zfs/home")(m)
		}, "key-in-clear-initramfs", "etc/zfs/home", "Copy the key to an encrypted filesystem, zfs set " +
			"keylocation=file:///PATH rpool/home, remove the key from /etc/zfs, and run update-initramfs -u -k all."},
		{voidMachine, func(m *machine) {
			homeKey("zroot", "etc/zfs/home.pass")(m)
			m.Modes["/etc/zfs/home.pass"] = "0644"
		}, "key-readable", "etc/zfs/home.pass", "chmod 0400 /etc/zfs/home.pass"},
		{voidMachine, func(m *machine) {
			homeKey("zroot", "etc/zfs/home.pass")(m)
			delete(m.files, "etc/zfs/home.pass")
			delete(m.Modes, "/etc/zfs/home.pass")
		}, "key-file-missing", "zroot/home keylocation", ""},

		// What replaces a file keeps what works in it.
		{sleepingMachine, func(m *machine) { delete(m.files, kernelCmdline) }, "uki-without-cmdline", kernelCmdline,
			"echo 'root=ZFS=rpool/ROOT/debian rd.luks.uuid=" + luksID + " resume=/dev/mapper/cryptswap quiet' > /" +
				kernelCmdline},
		{voidMachine, func(m *machine) { m.Blkid["/dev/mapper/cryptswap"]["TYPE"] = "swsuspend" }, "hibernation-pending",
			"/dev/mapper/cryptswap", "Resume the system, or destroy the image before an import: mkswap -U " +
				"77777777-1111-4222-8333-444455556666 /dev/mapper/cryptswap"},

		// A change has an effect only after the command that copies it.
		{voidMachine, func(m *machine) { delete(m.files, "etc/modprobe.d/zfs.conf") }, "arc-uncapped",
			"etc/modprobe.d/zfs.conf", "options zfs zfs_arc_max=4294967296, then xbps-reconfigure -fa"},
		{voidMachine, func(m *machine) {
			m.set(voidRoot, propCommandLine, "%{parent} resume=/dev/mapper/cryptswap zfs.zfs_arc_max=0 "+
				"rd.luks.uuid="+luksID)
		}, "arc-uncapped", voidRoot + " " + propCommandLine, "Write zfs.zfs_arc_max=4294967296."},
		{voidMachine, func(m *machine) {
			m.write("etc/crypttab", "cryptswap UUID="+luksID+" /boot/volume.key luks,swap,noauto\n")
		}, "crypttab-skipped", "etc/crypttab", "Remove swap,noauto, then xbps-reconfigure -fa."},
		{sleepingMachine, func(m *machine) {
			const line = "root=ZFS=rpool/ROOT/debian quiet"
			m.write(kernelCmdline, line+"\n")
			m.UKI[0].Cmdline, m.Firmware.EFIVars = line, truth(false)
		}, "resume-missing", kernelCmdline, "Add resume=/dev/mapper/cryptswap, then kernel-install add-all."},
		{debianMachine, func(m *machine) {
			m.Kernels[0].ZFSModuleVersion, m.Packages["zfs-dkms"] = "2.4.0", "2.4.0-1"
		}, "zfs-versions-differ", "packages", "Install zfs-dkms and zfsutils-linux of one version, then " +
			"dracut --regenerate-all --force"},

		// An image that lacks a file says nothing more than the configuration that leaves it out.
		{debianMachine, func(m *machine) {
			delete(m.Packages, "systemd-cryptsetup")
			m.image(func(i *installed.Initramfs) { i.Modules = []string{"base", "resume", "systemd", "zfs"} })
		}, "cryptsetup-missing", "packages", "apt-get install systemd-cryptsetup, then dracut --regenerate-all --force"},
		{oldDebianMachine, func(m *machine) {
			delete(m.files, "etc/hostid")
			m.image(func(i *installed.Initramfs) {
				i.HostID = nil
				i.Files = slices.DeleteFunc(slices.Clone(i.Files), func(f string) bool { return f == "/etc/hostid" })
			})
		}, "hostid-missing", "etc/hostid", ""},
		{voidMachine, func(m *machine) {
			m.write("etc/dracut.conf.d/10-crypt.conf", `install_items+=" /boot/volume.key /etc/crypttab "`)
			m.image(func(i *installed.Initramfs) { i.Modules, i.Crypttab = []string{"base", "zfs"}, new("") })
		}, "dracut-hostonly-leaves-out", "etc/dracut.conf.d/10-crypt.conf", ""},
		{voidMachine, func(m *machine) {
			m.write("etc/zfs/zpool.cache", "\x00\x05zroot\x00\x00hostname\x00\x06void-live\x00")
			m.image(func(i *installed.Initramfs) { i.PoolCache = []byte(`{"hostname": "void-live"}`) })
		}, "pool-cache-foreign", "etc/zfs/zpool.cache", ""},

		// A partition without files has no entry, and no files to compare.
		{mirrorMachine, func(m *machine) {
			delete(m.Blkid, "/dev/nvme1n1p1")
			delete(m.ESPFiles, "esp-2")
			m.EFI.Entries, m.EFI.Order = m.EFI.Entries[:2], m.EFI.Order[:2]
		}, "esp-not-formatted", "/dev/nvme1n1p1", ""},
		{mirrorMachine, func(m *machine) {
			m.Blkid["/dev/nvme1n1p1"], m.ESPFiles["esp-2"] = map[string]string{}, map[string]string{}
		}, "esp-not-formatted", "/dev/nvme1n1p1", ""},
		{mirrorMachine, func(m *machine) { m.ESPFiles["esp-2"] = map[string]string{} }, "esp-out-of-step",
			"/dev/nvme1n1p1", ""},

		// The versions of packages count where nobody asked the programs.
		{voidMachine, func(m *machine) {
			delete(m.Tools, "dracut")
			m.write("etc/dracut.conf.d/10-crypt.conf", `install_items+=" /boot/volume.key /etc/crypttab "`)
			m.image(func(i *installed.Initramfs) { i.Modules = []string{"base", "zfs"} })
		}, "dracut-hostonly-leaves-out", "etc/dracut.conf.d/10-crypt.conf", ""},
		{debianMachine, func(m *machine) {
			delete(m.Tools, "zfs")
			delete(m.Pools["rpool"].Props, propReadOnly)
		}, "readonly-unset", "rpool " + propReadOnly, ""},
		{grubMachine, func(m *machine) {
			m.Tools, m.Packages["grub-efi-amd64"] = nil, "2.06-13+deb12u1"
			m.Packages["zfsutils-linux"] = "2.3.2-2~bpo12+2"
		}, "grub-pool-compatibility", "bpool compatibility", "zpool set compatibility=grub2-2.06 bpool"},
		{debianMachine, func(m *machine) {
			delete(m.Packages, "dkms")
			m.write("etc/dkms/zfs.conf", "REMAKE_INITRD=yes\n")
		}, "dkms-remake-initrd", "etc/dkms/zfs.conf", ""},

		// The source of a property is unknown.
		{voidMachine, func(m *machine) {
			m.Datasets[voidRoot][propCommandLine] = installed.Property{Value: "rd.luks.uuid=" + luksID +
				" resume=/dev/mapper/cryptswap"}
		}, "commandline-drops-parent", voidRoot + " " + propCommandLine, ""},

		// dracut without systemd opens only what the arguments name.
		{voidMachine, func(m *machine) {
			m.set(voidRoot, propCommandLine, "%{parent} resume=/dev/mapper/cryptswap")
		}, "luks-uuid-missing", voidRoot + " " + propCommandLine, "Add rd.luks.uuid=" + luksID + "."},

		// The UUID of the swap, and not of the partition around it.
		{voidMachine, func(m *machine) {
			m.write("etc/crypttab", "cryptswap UUID="+m.Blkid["/dev/mapper/cryptswap"]["UUID"]+" /boot/volume.key luks\n")
		}, "crypttab-uuid-wrong", "etc/crypttab",
			"Write the UUID that blkid shows for the LUKS partition, then xbps-reconfigure -fa."},
		{voidMachine, func(m *machine) {
			m.image(func(i *installed.Initramfs) {
				i.Crypttab = new("cryptswap UUID=" + luksID + " /boot/volume.key luks,noauto\n")
			})
		}, "initramfs-crypttab", voidImage, "xbps-reconfigure -fa"},
		{voidMachine, func(m *machine) {
			m.write("etc/fstab", "/dev/mapper/swap none swap defaults 0 0\n"+
				"UUID=AAAA-0001 /boot/efi vfat umask=0077,nofail 0 0\n")
		}, "fstab-swap-closed", "etc/fstab", ""},

		{unifiedMachine, func(m *machine) { delete(m.files, "etc/kernel/install.conf") }, "uki-layout",
			"etc/kernel/install.conf", "layout=uki"},
		{oldDebianMachine, func(m *machine) { m.Pools["rpool"].Props["compatibility"] = "openzfs-2.3-linux" },
			"pool-compatibility-beyond-loader", "rpool compatibility", "zpool set compatibility=openzfs-2.1-linux rpool"},
		{oldDebianMachine, func(m *machine) { m.write("etc/default/zfs", "ZPOOL_IMPORT_OPTS=\"-f\"\n") },
			"import-forced", "etc/default/zfs", "Remove -f from ZPOOL_IMPORT_OPTS, then update-initramfs -u -k all."},
		{debianMachine, func(m *machine) {
			m.write("etc/systemd/system/zfs-import-scan.service.d/resume.conf", "[Unit]\nAfter=local-fs-pre.target\n"+
				"[Service]\nExecStart=\nExecStart=/sbin/zpool import -aN -f\n")
		}, "import-forced", "etc/systemd/system/zfs-import-scan.service.d/resume.conf", ""},
		{voidMachine, func(m *machine) {
			m.OS.Arch = "x86_64-musl"
			m.write("etc/default/libc-locales", "en_US.UTF-8 UTF-8\n")
		}, "musl-locales", "etc/default/libc-locales", "Remove it."},

		// One build made all images.
		{voidMachine, func(m *machine) {
			m.kernel("6.12.10_1", "boot/vmlinuz-6.12.10_1", "boot/initramfs-6.12.10_1.img")
			m.hostid(0x1234abcd, "0x1234abcd")
			m.image(func(i *installed.Initramfs) { i.Modules = []string{"base", "zfs"} })
		}, "initramfs-lacks-module", "boot/initramfs-6.12.10_1.img", "xbps-reconfigure -fa"},

		// fstrim does nothing for a pool.
		{debianMachine, func(m *machine) {
			m.Pools["rpool"].Props["autotrim"] = "off"
			m.Services = append(m.Services, "fstrim.timer")
		}, "autotrim-off", "rpool autotrim", ""},
		{voidMachine, func(m *machine) {
			m.Pools["zroot"].Props["autotrim"] = "off"
			m.write("etc/cron.weekly/logs", "#!/bin/sh\n# zpool trim is elsewhere\nfstrim -av\n")
		}, "autotrim-off", "zroot autotrim", ""},

		// The program of Debian trims only pools of NVMe disks, unless a property says what to do.
		{debianMachine, func(m *machine) { trimmedByDebian(m, "sda") }, "autotrim-off", "rpool autotrim", ""},
		{debianMachine, func(m *machine) {
			trimmedByDebian(m, "nvme0n1")
			m.set("rpool", "org.debian:periodic-trim", "disable")
		}, "autotrim-off", "rpool autotrim", ""},

		// The property that has an argument, and not the one that includes its value.
		{voidMachine, func(m *machine) {
			m.set("zroot/ROOT", propCommandLine, "quiet noresume")
		}, "resume-off", "zroot/ROOT " + propCommandLine, "Remove noresume."},
		{voidMachine, func(m *machine) {
			m.set("zroot/ROOT", propCommandLine, "quiet resume=/dev/sda9")
			m.set(voidRoot, propCommandLine, "%{parent} rd.luks.uuid="+luksID)
		}, "resume-wrong", "zroot/ROOT " + propCommandLine, "Write resume=/dev/mapper/cryptswap."},
		{voidMachine, func(m *machine) {
			m.set("zroot/ROOT", propCommandLine, "quiet rd.luks.uuid=11111111-2222-3333-4444-555555555555")
			m.set(voidRoot, propCommandLine, "%{parent} resume=/dev/mapper/cryptswap")
		}, "luks-uuid-wrong", "zroot/ROOT " + propCommandLine, ""},
		{voidMachine, func(m *machine) {
			m.set("zroot/ROOT", propCommandLine, "quiet zfs.zfs_arc_max=1024")
		}, "arc-limit-low", "zroot/ROOT " + propCommandLine, ""},

		// What reads the pool must know its features.
		{oldDebianMachine, func(m *machine) {
			m.pool("rpool", func(p *installed.Pool) { p.Features["block_cloning"] = "active" })
		}, "pool-features-beyond-loader", "rpool feature@block_cloning",
			"Install a later OpenZFS in the system before the next start; a feature in use cannot be removed."},
		{oldDebianMachine, func(m *machine) { m.set("rpool", propReadOnly, "on") }, "readonly-on-dataset",
			"rpool " + propReadOnly, "zfs inherit " + propReadOnly + " rpool; only OpenZFS 2.2 and later can set it on a pool"},
		{grubMachine, func(m *machine) {
			m.Tools["zfs"], m.Packages["zfsutils-linux"], m.Packages["zfs-dkms"] = "2.3.2", "2.3.2-2~bpo12+2", "2.3.2-2~bpo12+2"
			m.Pools["bpool"].Props["compatibility"] = "grub2-2.12"
			m.write("etc/apt/sources.list.d/bpo.list", "deb http://deb.debian.org/debian bookworm-backports main contrib\n")
		}, "grub-pool-compatibility", "bpool compatibility", "zpool set compatibility=grub2-2.06 bpool"},

		// Options that are joined.
		{oldDebianMachine, func(m *machine) { m.write("etc/default/zfs", "ZPOOL_IMPORT_OPTS=\"-fN\"\n") },
			"import-forced", "etc/default/zfs", ""},
		{debianMachine, func(m *machine) {
			m.write("etc/systemd/system/zfs-import-scan.service.d/resume.conf", "[Unit]\nAfter=local-fs-pre.target\n"+
				"[Service]\nExecStart=\nExecStart=/sbin/zpool import -aNf -o cachefile=none\n")
		}, "import-forced", "etc/systemd/system/zfs-import-scan.service.d/resume.conf", ""},

		// Headers of another kind of kernel, or of one kernel.
		{debianMachine, func(m *machine) { m.Packages["linux-image-cloud-amd64"] = "6.12-1" }, "kernel-headers-missing",
			"packages", "apt-get install linux-headers-cloud-amd64"},
		{debianMachine, func(m *machine) {
			m.Packages["linux-image-amd64"], m.Packages["linux-headers-6.12.5-amd64"] = "6.12-1", "6.12-1"
			delete(m.Packages, "linux-headers-amd64")
		}, "kernel-headers-missing", "packages", "apt-get install linux-headers-amd64"},

		// What follows boot has no effect.
		{netbsdMachine, func(m *machine) {
			m.write("boot.cfg", "menu=Boot NetBSD:boot /netbsd.gz;load solaris;load zfs;fs /ramdisk-zfsroot.fs\n")
		}, "netbsd-modules", "boot.cfg", ""},

		// A package that is missing, and what was built without it.
		{debianMachine, func(m *machine) {
			delete(m.Packages, "linux-headers-amd64")
			m.Kernels[0].ZFSModule = truth(false)
			m.image(func(i *installed.Initramfs) { i.ZFSModule = truth(false) })
		}, "kernel-headers-missing", "packages", "apt-get install linux-headers-amd64"},
		{voidMachine, func(m *machine) {
			delete(m.Packages, "linux6.12-headers")
			m.Kernels[0].ZFSModule = truth(false)
		}, "kernel-headers-missing", "packages", "xbps-install linux6.12-headers"},
		{voidMachine, func(m *machine) {
			delete(m.files, "etc/xbps.d/10-kernel.conf")
			m.Packages["linux"] = "6.12_1"
			m.Kernels[0].ZFSModule = truth(false)
		}, "kernel-without-zfs", voidKernelAt, ""},
		{debianMachine, func(m *machine) {
			delete(m.Packages, "zfs-dracut")
			m.image(func(i *installed.Initramfs) { i.ZFSModule = truth(false) })
		}, "zfs-package-missing", "packages", "apt-get install zfs-dracut"},
		{oldDebianMachine, func(m *machine) {
			delete(m.Packages, "zfs-initramfs")
			m.image(func(i *installed.Initramfs) { i.ZFSModule = truth(false) })
		}, "zfs-package-missing", "packages", "apt-get install zfs-initramfs"},
		{unifiedMachine, func(m *machine) {
			delete(m.files, kernelCmdline)
			m.UKI[0].Cmdline = "boot=live quiet"
		}, "uki-without-cmdline", kernelCmdline, "echo 'root=ZFS=rpool/ROOT/debian ro quiet' > /" + kernelCmdline +
			", then kernel-install add-all"},

		// One command, or one event, made the same fault twice.
		{voidMachine, func(m *machine) { m.EFI.Entries[0].PartUUID, m.EFI.Entries[1].PartUUID = "gone", "gone" },
			"entry-partition-missing", "efibootmgr",
			"efibootmgr -b 0000 -B; efibootmgr -b 0001 -B, and make the entries again"},
		{voidMachine, func(m *machine) { m.ESPFiles[espID] = map[string]string{"EFI/BOOT/BOOTX64.EFI": "sha256:1"} },
			"entry-file-missing", "efibootmgr", "Install the loaders, or correct the entries."},
		{mirrorMachine, func(m *machine) {
			m.write("etc/fstab", "/dev/mapper/cryptswap none swap defaults 0 0\nUUID=AAAA-0001 /boot/efi vfat umask=0077 0 0\n"+
				"UUID=AAAA-0002 /boot/efi2 vfat umask=0077 0 0\n")
		}, "esp-mount-options", "etc/fstab", "Add nofail to the end of the options of /boot/efi and /boot/efi2."},
		{mirrorMachine, func(m *machine) {
			m.write("etc/fstab", "/dev/mapper/cryptswap none swap defaults 0 0\n"+
				"/dev/nvme0n1p1 /boot/efi vfat umask=0077,nofail 0 0\n/dev/nvme1n1p1 /boot/efi2 vfat umask=0077,nofail 0 0\n")
		}, "fstab-device-name", "etc/fstab", "Write UUID= with what blkid shows for each."},
		{mirrorMachine, func(m *machine) {
			delete(m.ESPFiles[espID], "EFI/BOOT/BOOTX64.EFI")
			delete(m.ESPFiles["esp-2"], "EFI/BOOT/BOOTX64.EFI")
		}, "fallback-loader-missing", "boot/efi/EFI/BOOT/BOOTX64.EFI", "Copy the loader to EFI/BOOT/BOOTX64.EFI of " +
			"/dev/nvme0n1p1. Copy the loader to EFI/BOOT/BOOTX64.EFI of /dev/nvme1n1p1."},
		{mirrorMachine, func(m *machine) {
			m.Tools["util_linux"] = "2.41"
			for _, d := range m.Disks {
				m.Blkid["/dev/"+d.Name] = map[string]string{"TYPE": "zfs_member", "LABEL": "old"}
			}
		}, "label-stale", "/dev/nvme0n1", ""},
		{mirrorMachine, func(m *machine) {
			m.Disks[0].Partitions[0].Type = "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7"
		}, "esp-type", "/dev/nvme0n1p1", "sgdisk -t 1:ef00 /dev/nvme0n1"},
		{mirrorMachine, func(m *machine) {
			for _, d := range m.Disks {
				d.Partitions[0].Type = "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7"
			}
		}, "esp-type", "/dev/nvme0n1p1", "sgdisk -t 1:ef00 /dev/nvme0n1; sgdisk -t 1:ef00 /dev/nvme1n1"},

		// A swap with an image is not active.
		{voidMachine, func(m *machine) {
			m.Blkid["/dev/mapper/cryptswap"]["TYPE"] = "swsuspend"
			m.Swaps = []installed.Swap{}
		}, "hibernation-pending", "/dev/mapper/cryptswap", ""},
	} {
		t.Run(fmt.Sprintf("%d %s", i, c.name), func(t *testing.T) {
			m := c.base()
			c.damage(m)
			found := check(m)
			if len(found) != 1 {
				t.Fatalf("%d findings: %+v", len(found), found)
			}
			f := found[0]
			if f.Name != c.name || f.Where != c.where || c.fix != "" && f.Fix != c.fix {
				t.Errorf("got %s at %s: %s\nwant %s at %s: %s", f.Name, f.Where, f.Fix, c.name, c.where, c.fix)
			}
			if sent := checkSent(t, m); !slices.Equal(sent, found) {
				t.Errorf("from the facts alone: %+v, want %+v", sent, found)
			}
			if strings.Contains(f.Fix, "..") {
				t.Errorf("two full stops: %s", f.Fix)
			}
		})
	}
}
