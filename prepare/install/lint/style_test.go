package lint

import (
	"strings"
	"testing"

	"bakeoff/prepare/install/installed"
)

// TestStyles checks that nothing is found on systems that are configured in another style.
func TestStyles(t *testing.T) {
	for name, m := range map[string]*machine{
		"hibernation with GRUB": sleepingGRUBMachine(),
		"the argument of the parent gets another value": change(voidMachine(), func(m *machine) {
			m.set("zroot/ROOT", propCommandLine, "quiet loglevel=4")
			m.set(voidRoot, propCommandLine, "quiet loglevel=7 rd.luks.uuid="+luksID+" resume=/dev/mapper/cryptswap")
		}),
		"arguments that inherit themselves": change(voidMachine(), func(m *machine) {
			m.Datasets["zroot/ROOT"][propCommandLine] = installed.Property{
				Value: "quiet %{parent}", Source: "inherited from " + voidRoot}
		}),
		"arguments that do not fit into memory": change(voidMachine(), func(m *machine) {
			parents := ""
			for range 1000 {
				parents += parentArguments + " "
			}
			for _, name := range []string{"zroot", "zroot/ROOT", voidRoot} {
				m.set(name, propCommandLine, parents+" quiet")
			}
		}),
		"arguments are unknown": change(voidMachine(), func(m *machine) {
			m.Datasets[voidRoot][propCommandLine] = installed.Property{Source: "local", Unknown: true}
		}),
		"arguments of the parent are unknown": change(voidMachine(), func(m *machine) {
			m.Datasets["zroot/ROOT"][propCommandLine] = installed.Property{Source: "local", Unknown: true}
			m.set(voidRoot, propCommandLine, "%{parent}")
		}),
		"encryption is unknown": change(voidMachine(), func(m *machine) {
			for _, d := range m.Datasets {
				delete(d, "encryption")
			}
		}),
		"encryption is null": change(voidMachine(), func(m *machine) {
			m.Datasets[voidRoot]["encryption"] = installed.Property{Unknown: true}
		}),
		"facts with gaps about datasets": change(voidMachine(), func(m *machine) {
			delete(m.Pools["zroot"].Props, "bootfs")
			m.dataset("zroot/ROOT/other", "legacy", "noauto")
			m.Datasets["zroot/ROOT/other"][propActive] = installed.Property{Unknown: true}
		}),
		"the dataset of bootfs is unknown": change(voidMachine(), func(m *machine) {
			m.Datasets["zroot/ROOT/other"] = nil
			m.Pools["zroot"].Props["bootfs"] = "zroot/ROOT/other"
		}),
		"lsinitrd could not read crypttab": change(voidMachine(), func(m *machine) {
			m.image(func(i *installed.Initramfs) { i.Crypttab = nil })
		}),
		"versions with a prefix and an epoch": change(voidMachine(), func(m *machine) {
			m.ZBM.Version, m.ZBM.OpenZFS, m.Tools["zfs"] = "v3.1.0", "zfs-2.4.0", "zfs-2.4.1-1"
		}),
		"the hostid in decimal":                  change(grubMachine(), grubArgument("spl.spl_hostid=2309737967")),
		"the hostid in octal":                    change(grubMachine(), grubArgument("spl.spl_hostid=021152746757")),
		"the hostid with 0X":                     change(grubMachine(), grubArgument("spl.spl_hostid=0X89ABCDEF")),
		"the hostid 0, which the module ignores": change(grubMachine(), grubArgument("spl.spl_hostid=0")),
		"a hostid in the arguments, and not in the image": change(grubMachine(), func(m *machine) {
			grubArgument("spl.spl_hostid=0x89abcdef")(m)
			m.image(func(i *installed.Initramfs) { i.HostID, i.Files = nil, []string{"/init"} })
		}),
		"no forced import": change(grubMachine(), grubArgument("zfs_force=off")),
		"arguments of kernel-install that GRUB does not read": change(sleepingGRUBMachine(), func(m *machine) {
			m.write(kernelCmdline, "root=ZFS=rpool/ROOT/old ro quiet noresume\n")
		}),
		"arguments of kernel-install with an unknown loader": change(sleepingGRUBMachine(), func(m *machine) {
			m.Bootloader = ""
			m.write(kernelCmdline, "ro quiet noresume\n")
		}),
		"GRUB with a variable": change(grubMachine(), func(m *machine) {
			m.write(grubDefaults, "# dataset\nROOTDS=\"rpool/ROOT/debian\"\nGRUB_CMDLINE_LINUX=\"root=ZFS=${ROOTDS}\"\n")
		}),
		"GRUB with many assignments in a line": change(grubMachine(), func(m *machine) {
			m.write(grubDefaults, "GRUB_TIMEOUT=5; GRUB_CMDLINE_LINUX=\"root=ZFS=rpool/ROOT/debian\"; export A=1 B='2'\n")
		}),
		"a limit in quotes": change(voidMachine(), func(m *machine) {
			m.write("etc/modprobe.d/zfs.conf", "options zfs zfs_arc_max=\"4294967296\"\n")
		}),
		"drop-ins with a continued line": change(debianMachine(), func(m *machine) {
			for _, unit := range []string{"scan", "cache"} {
				m.write("etc/systemd/system/zfs-import-"+unit+".service.d/resume.conf",
					"[Unit]\n# wait\nAfter=cryptsetup.target \\\n  local-fs-pre.target\n")
			}
		}),
		"a drop-in for all units with a prefix": change(debianMachine(), func(m *machine) {
			for _, unit := range []string{"scan", "cache"} {
				delete(m.files, "etc/systemd/system/zfs-import-"+unit+".service.d/resume.conf")
			}
			const name = "etc/systemd/system/zfs-import-.service.d/resume.conf"
			m.write(name, "[Unit]\nAfter = local-fs-pre.target\n")
			m.image(func(i *installed.Initramfs) { i.Files = append(i.Files, "/"+name) })
		}),
		"the generator is a comment": change(sleepingMachine(), func(m *machine) {
			m.write("etc/kernel/install.conf", "layout=uki\n#initrd_generator=dracut\ninitrd_generator=mkosi-initrd\n")
			m.write("etc/dracut.conf.d/zfs.conf", "add_dracutmodules+=\" zfs \"\ninstall_items+=\" /etc/crypttab \"\n")
			m.image(func(i *installed.Initramfs) { i.Modules = []string{"crypt", "resume", "zfs"} })
		}),
		"the generator is in a part of the file": change(sleepingMachine(), func(m *machine) {
			m.write("etc/kernel/install.conf", "layout=uki\ninitrd_generator=dracut\n")
			m.write("etc/kernel/install.conf.d/mkosi.conf", "initrd_generator=mkosi-initrd\n")
			m.write("etc/dracut.conf.d/zfs.conf", "add_dracutmodules+=\" zfs \"\ninstall_items+=\" /etc/crypttab \"\n")
			m.image(func(i *installed.Initramfs) { i.Modules = []string{"crypt", "resume", "zfs"} })
		}),
		"blkid does not know the encrypted swap": change(voidMachine(), func(m *machine) {
			m.Disks[0].Partitions[1].Type = strings.ToLower(typeSwp)
			delete(m.Blkid, "/dev/nvme0n1p2")
		}),
		"netbsd, another word for yes":      change(netbsdMachine(), func(m *machine) { m.write("etc/rc.conf", "zfs=on\n") }),
		"netbsd, the mountpoint is unknown": change(netbsdMachine(), func(m *machine) { m.Datasets["rpool/ROOT"] = nil }),
		"netbsd, a file for zfs": change(netbsdMachine(), func(m *machine) {
			m.write("etc/rc.conf", "sshd=YES\n")
			m.write("etc/rc.conf.d/zfs", "zfs=YES\n")
		}),
		"sources that are off, or have symbols only": change(debianMachine(), func(m *machine) {
			m.write("etc/apt/sources.list.d/sid.sources", "Enabled: False\nTypes: deb\n"+
				"URIs: http://deb.debian.org/debian\nSuites: sid\nComponents: main\n")
			m.write("etc/apt/sources.list.d/debug.list", "deb http://deb.debian.org/debian-debug trixie-debug main\n")
		}),
		"a unified image that is called like a kernel": change(unifiedMachine(), func(m *machine) {
			m.Bootloader, m.UKI[0].Path = "efistub", "efi/EFI/Linux/vmlinuz-linux.efi"
			m.EFI.Entries[0].Loader = `\EFI\Linux\vmlinuz-linux.efi`
			m.ESPFiles[espID]["EFI/Linux/vmlinuz-linux.efi"] = "sha256:2"
		}),
		"zpool trim in the table of root": change(voidMachine(), func(m *machine) {
			m.Pools["zroot"].Props["autotrim"] = "off"
			m.write("var/spool/cron/root", "0 3 * * 0 zpool trim zroot\n")
		}),
		"the cron job of Debian": change(debianMachine(), func(m *machine) {
			m.Pools["rpool"].Props["autotrim"] = "off"
			m.write("etc/cron.d/zfsutils-linux", "24 0 1-7 * * root [ -x /usr/lib/zfs-linux/trim ] && /usr/lib/zfs-linux/trim\n")
		}),
		"a limit in /usr/lib": change(voidMachine(), func(m *machine) {
			delete(m.files, "etc/modprobe.d/zfs.conf")
			m.write("usr/lib/modprobe.d/limit.conf", "options zfs zfs_arc_max=4294967296\n")
		}),
		"drop-ins in /usr/lib": change(debianMachine(), func(m *machine) {
			for _, unit := range []string{"scan", "cache"} {
				delete(m.files, "etc/systemd/system/zfs-import-"+unit+".service.d/resume.conf")
				name := "usr/lib/systemd/system/zfs-import-" + unit + ".service.d/resume.conf"
				m.write(name, "[Unit]\nAfter=local-fs-pre.target\n")
				m.image(func(i *installed.Initramfs) { i.Files = append(i.Files, "/"+name) })
			}
		}),
		"systemd-boot starts ZFSBootMenu": change(voidMachine(), func(m *machine) {
			m.Bootloader = "systemd-boot"
			m.write(kernelCmdline, "ro quiet\n")
		}),
		"ubuntu, a keystore that is opened at each start": change(grubMachine(), func(m *machine) {
			m.OS.ID = "ubuntu"
			m.set("rpool", "keylocation", "file:///run/keystore/rpool/system.key")
			m.set("rpool", "keyformat", "raw")
		}),
		"nixos, folders of its store": change(nixosMachine(), func(m *machine) {
			m.write("nix/store/abc-etc/etc/modprobe.d/zfs.conf", "options zfs zfs_arc_max=4294967296\n")
			m.write("nix/store/abc-etc/etc/crypttab", "cryptswap UUID="+luksID+" none luks\n")
			m.link("etc/static", "/nix/store/abc-etc/etc")
			m.link("etc/modprobe.d", "/etc/static/modprobe.d")
			m.link("etc/crypttab", "static/crypttab")
		}),
		"nixos, a limit in the newest entry": change(nixosMachine(), func(m *machine) {
			m.write("etc/crypttab", "cryptswap UUID="+luksID+" none luks\n")
			m.write("boot/loader/entries/nixos-generation-9.conf", "title NixOS\noptions init=/nix/store/a/init noresume\n")
			m.write("boot/loader/entries/nixos-generation-10.conf",
				"options init=/nix/store/b/init\noptions\tresume=/dev/mapper/cryptswap zfs.zfs_arc_max=2147483648\n")
		}),
	} {
		checkClean(t, name, m)
	}
}

// nixosMachine is NixOS with systemd-boot and hibernation, without a limit of the ARC and without crypttab.
func nixosMachine() *machine {
	m := sleepingMachine()
	m.OS.ID, m.Packages, m.Tools, m.UKI = "nixos", nil, map[string]string{"zfs": "2.3.9", "systemd": "258"}, nil
	m.Services = []string{"zfs-import-rpool.service", "zfs-mount.service", "zfs.target"}
	for _, f := range []string{"etc/crypttab", "etc/modprobe.d/zfs.conf", kernelCmdline, "etc/kernel/install.conf"} {
		delete(m.files, f)
	}
	return m
}
