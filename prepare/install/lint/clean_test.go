package lint

import (
	"testing"
	"testing/fstest"

	"bakeoff/prepare/install/installed"
)

// TestCleanSystems checks that nothing is found on systems without a fault.
func TestCleanSystems(t *testing.T) {
	for name, m := range map[string]*machine{
		"void": voidMachine(), "void mirror": mirrorMachine(), "debian 13": debianMachine(), "debian 12": oldDebianMachine(),
		"unified image": unifiedMachine(), "grub": grubMachine(), "netbsd": netbsdMachine(),
		"hibernation from a unified image": sleepingMachine(),
		"void without hibernation": change(voidMachine(), func(m *machine) {
			m.Hibernation = false
			delete(m.files, "etc/modprobe.d/zfs.conf")
			delete(m.Pools["zroot"].Props, propReadOnly)
		}),
		"void, plain root": change(voidMachine(), func(m *machine) {
			m.Hibernation, m.Swaps = false, nil
			for name := range m.Datasets {
				m.set(name, "encryption", "off")
			}
			delete(m.Datasets["zroot"], propKeySource)
			m.image(func(i *installed.Initramfs) { i.Files = []string{"/etc/hostid"} })
			m.write("etc/fstab", "UUID=AAAA-0001 /boot/efi vfat umask=0077,nofail 0 0\n")
		}),
		"debian 13, image found by the firmware": change(debianMachine(), func(m *machine) {
			m.set("rpool/ROOT/debian", propCommandLine, "%{parent} ro")
		}),
		"debian 13, one conf without spaces that joins nothing": change(debianMachine(), func(m *machine) {
			m.write("etc/dracut.conf.d/a.conf", `add_dracutmodules+="zfs"`+"\n")
		}),
		"void, resume by UUID": change(voidMachine(), func(m *machine) {
			m.set("zroot/ROOT/void", propCommandLine, "%{parent} rd.luks.uuid="+luksID+
				" resume=UUID=77777777-1111-4222-8333-444455556666")
		}),
		"void, pinned kernel": change(voidMachine(), func(m *machine) { m.set("zroot/ROOT", propKernel, "6\\.12") }),
		"debian 12, keys as cryptsetup-initramfs copies them": change(oldDebianMachine(), func(m *machine) {
			m.image(func(i *installed.Initramfs) {
				i.Files = []string{"/etc/zfs/rpool.key", "/cryptroot/keyfiles/cryptswap.key", "/cryptroot/crypttab", "/etc/hostid"}
				crypttab := "cryptswap UUID=" + luksID + " /cryptroot/keyfiles/cryptswap.key luks,initramfs\n"
				i.Crypttab = &crypttab
			})
		}),
		"void, the beginning of a UUID": change(voidMachine(), func(m *machine) {
			m.set(voidRoot, propCommandLine, "%{parent} rd.luks.uuid="+luksID[:8]+" resume=/dev/mapper/cryptswap")
		}),
		"unified image, and no other": change(unifiedMachine(), func(m *machine) {
			m.set("rpool", "keylocation", "prompt")
			m.Initramfs, m.Kernels = nil, nil
		}),
		"void, facts with gaps": change(voidMachine(), func(m *machine) {
			m.Swaps[0].Size, m.Disks[0].Partitions[0].Size = 0, 0
			m.ESPFiles[espID] = nil
			delete(m.Blkid["/dev/mapper/cryptswap"], "UUID")
			m.set(voidRoot, propCommandLine, "%{parent} rd.luks.uuid="+luksID+
				" resume=UUID=77777777-1111-4222-8333-444455556666")
		}),
		"void, partitions unknown": change(voidMachine(), func(m *machine) { m.Disks[0].Partitions = nil }),
		"void, unknown loader, no limit": change(voidMachine(), func(m *machine) {
			m.ZBM, m.EFI = nil, nil
			delete(m.files, "etc/modprobe.d/zfs.conf")
		}),
		"void, unknown swap":     change(voidMachine(), func(m *machine) { m.Swaps = nil }),
		"void, unknown pool":     change(voidMachine(), func(m *machine) { m.Pools = nil }),
		"void, unknown datasets": change(voidMachine(), func(m *machine) { m.Datasets = nil }),
		"void, unknown loader":   change(voidMachine(), func(m *machine) { m.ZBM = nil }),
		"void, a version of lsblk that shows the pool on its disk too": change(voidMachine(), func(m *machine) {
			m.Blkid["/dev/nvme0n1"] = map[string]string{"TYPE": "zfs_member", "LABEL": "zroot"}
		}),
		"void, zram beside the swap": change(voidMachine(), func(m *machine) {
			m.Swaps = append(m.Swaps, installed.Swap{Device: "/dev/zram0", Size: 8 * gibi})
		}),
		"debian 13, an archive of another project": change(debianMachine(), func(m *machine) {
			m.write("etc/apt/sources.list.d/chrome.list",
				"deb [arch=amd64] https://dl.example.com/linux/chrome/deb stable main\n")
			m.write("etc/apt/sources.list.d/net.list", "deb https://pkgs.example.com/stable/debian trixie main\n")
		}),
		"void, a partition for BIOS at sector 34": change(voidMachine(), func(m *machine) {
			m.Disks[0].Partitions = append(m.Disks[0].Partitions, installed.Partition{Number: 4, Device: "/dev/nvme0n1p4",
				Type: "21686148-6449-6E6F-744E-656564454649", Start: 34, Size: 1 << 20})
		}),
		"netbsd, as the recipe writes boot.cfg": change(netbsdMachine(), func(m *machine) {
			m.write("boot.cfg", "menu=Boot:load /stand/amd64/11.0/modules/solaris/solaris.kmod;"+
				"load /stand/amd64/11.0/modules/zfs/zfs.kmod;fs /ramdisk-zfsroot.fs;boot /netbsd.gz\n"+
				"menu=Old:load /stand/amd64/10.1/modules/solaris/solaris.kmod;"+
				"load /stand/amd64/10.1/modules/zfs/zfs.kmod;fs /ramdisk-old.fs;boot /netbsd.old.gz\n")
		}),
		"netbsd, modules for each line of the menu": change(netbsdMachine(), func(m *machine) {
			m.write("boot.cfg", "banner=Welcome\nload=solaris\nload=zfs\nmenu=ZFS:fs /ramdisk-zfsroot.fs;boot\n"+
				"menu=Installer:fs /miniroot.fs;boot /netbsd-INSTALL.gz\nmenu=Prompt:prompt\ntimeout=5\n")
		}),
		"netbsd, a second line with a root on FFS": change(netbsdMachine(), func(m *machine) {
			m.write("boot.cfg", "menu=Rescue:root dk1;boot /netbsd -s\n"+
				"menu=ZFS:load solaris;load zfs;fs /ramdisk-zfsroot.fs;boot hd0b:netbsd -z\ndefault=2\n")
		}),
		"netbsd, the partition of the loader is not mounted": change(netbsdMachine(), func(m *machine) {
			delete(m.files, "boot.cfg")
		}),
		"netbsd, the modules of the release": change(netbsdMachine(), func(m *machine) {
			m.write("stand/amd64/11.0", "")
		}),
		"unified image with the hostid": change(unifiedMachine(), func(m *machine) {
			line := "root=ZFS=rpool/ROOT/debian ro quiet spl.spl_hostid=0x89abcdef"
			m.write("etc/kernel/cmdline", line+"\n")
			m.UKI[0].Cmdline = line
		}),
		"debian 12, key and encrypted /boot": change(oldDebianMachine(), func(m *machine) {
			m.write("etc/zfs/rpool.key", "a passphrase")
		}),
		"debian 12, the datasets of the guide": change(grubMachine(), func(m *machine) {
			m.set("rpool", "mountpoint", "/") // and canmount=off
			m.set("bpool", "mountpoint", "/boot")
			m.set("bpool", "canmount", "off")
		}),
		"debian 12, root= in a drop-in of GRUB": change(grubMachine(), func(m *machine) {
			m.write("etc/default/grub", `GRUB_CMDLINE_LINUX="quiet"`)
			m.write("etc/default/grub.d/zfs.cfg",
				`GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX root=ZFS=rpool/ROOT/debian"`+"\n")
		}),
		"root= from the generator of Ubuntu": change(grubMachine(), func(m *machine) {
			m.OS.ID = "ubuntu"
			m.write("etc/default/grub", `GRUB_CMDLINE_LINUX=""`)
			m.write("boot/grub/grub.cfg", "\tlinux /vmlinuz root=ZFS=\"rpool/ROOT/debian\" ro\n")
		}),
		"void, values over several lines, and a pattern": change(voidMachine(), func(m *machine) {
			m.write("etc/dracut.conf.d/10-crypt.conf", "add_dracutmodules+=' crypt \\\n  resume '\n"+
				"install_items+=\" /boot/*.key\n  /etc/crypttab \"\n")
			m.write("etc/modprobe.d/zfs.conf", "options zfs \\\n zfs_arc_max=4294967296\n")
		}),
		"arch, kernels named by package": change(voidMachine(), func(m *machine) {
			m.OS.ID, m.OS.Init, m.Services, m.Packages, m.Tools = "arch", "systemd", nil, nil, nil
			m.Kernels = nil
			m.kernel("6.12.9-1-lts", "boot/vmlinuz-linux-lts", "boot/initramfs-linux-lts.img")
			m.hostid(0x1234abcd, "1234ABCD")
			delete(m.files, "etc/crypttab")
			m.set(voidRoot, propCommandLine, "%{parent} cryptdevice=UUID="+luksID+":cryptswap resume=/dev/mapper/cryptswap")
		}),
		"arch, zfs= in a unified image": change(unifiedMachine(), func(m *machine) {
			m.write("etc/kernel/cmdline", "zfs=rpool/ROOT/debian rw\n")
			m.UKI[0].Cmdline = "zfs=rpool/ROOT/debian rw"
		}),
		"nixos, links of its store and a unit for the pool": change(unifiedMachine(), func(m *machine) {
			m.OS.ID, m.Packages, m.Services = "nixos", nil, []string{"zfs-import-rpool.service", "zfs-mount", "zfs.target"}
			m.link("etc/hostid", "/etc/static/hostid")
			m.link("etc/static/hostid", "/nix/store/0a1b-etc-hostid")
		}),
		"debian 13, no systemd in the initramfs": change(debianMachine(), func(m *machine) {
			for _, unit := range []string{"scan", "cache"} {
				delete(m.files, "etc/systemd/system/zfs-import-"+unit+".service.d/resume.conf")
			}
			m.write("etc/dracut.conf.d/small.conf", `omit_dracutmodules+=" systemd "`+"\n")
		}),
		"debian 13, the release of the package in the module's version": change(debianMachine(), func(m *machine) {
			m.Kernels[0].ZFSModuleVersion = "2.3.9-0+deb13u1"
		}),
		"debian 13, folded and commented sources with CRLF": change(debianMachine(), func(m *machine) {
			m.write("etc/apt/sources.list.d/debian.sources", "Types: deb\r\nURIs: http://deb.debian.org/debian\r\n"+
				"Suites: trixie\r\nComponents: main\r\n# all\r\n contrib\r\n non-free-firmware\r\n\r\nTypes: deb-src\r\n"+
				"URIs: http://deb.debian.org/debian\r\nSuites: sid\r\nComponents: main\r\n")
		}),
		"void, ZFSBootMenu started by rEFInd, and files without a slash": change(voidMachine(), func(m *machine) {
			m.Bootloader = "rEFInd"
			m.image(func(i *installed.Initramfs) {
				for n, f := range i.Files {
					i.Files[n] = f[1:]
				}
			})
		}),
		"void, the swap by its number": change(voidMachine(), func(m *machine) { m.Swaps[0].Device = "/dev/dm-0" }),
		"debian 12, conf.d wins over initramfs.conf": change(oldDebianMachine(), func(m *machine) {
			m.write("etc/initramfs-tools/initramfs.conf", "RESUME=/dev/sda9\nUMASK=0077\n")
		}),
		"void, a host named Oliver": change(voidMachine(), func(m *machine) {
			m.write("etc/hostname", "olive-live\n")
			m.write("etc/zfs/zpool.cache",
				"\x00\x05zroot\x00\x00hostname\x00\x01olive-live\x00/dev/disk/by-id/nvme-T1-part3\x00")
		}),
		"void, a dataset mounted by fstab": change(voidMachine(), func(m *machine) {
			m.write("etc/fstab", string(m.files["etc/fstab"].Data)+"zroot/home /home zfs zfsutil 0 0\n")
		}),
		"unified image of another boot environment": change(unifiedMachine(), func(m *machine) {
			m.dataset("rpool/ROOT/before", "/", "noauto")
			other := m.UKI[0]
			other.Path, other.Cmdline = "efi/EFI/Linux/env@before-6.12.5.efi", "root=ZFS=rpool/ROOT/before ro quiet"
			m.UKI = append(m.UKI, other)
		}),
		"void mirror, a random seed on each ESP": change(mirrorMachine(), func(m *machine) {
			m.ESPFiles[espID]["loader/random-seed"], m.ESPFiles["esp-2"]["loader/random-seed"] = "sha256:8", "sha256:9"
		}),
		"debian 12, Secure Boot with an enrolled key": signedMachine(),
		"debian 12, Secure Boot with an enrolled key, and a modinfo that reads no signatures": change(signedMachine(),
			func(m *machine) { m.Kernels[0].ZFSModuleKey = nil }),
		"ubuntu, a module signed by the distribution": change(signedMachine(), func(m *machine) {
			m.Firmware.MOK = nil
			delete(m.Packages, "zfs-dkms")
		}),
		"debian 12, another program for ZFS": {System: installed.System{Schema: 1, OS: installed.OS{ID: "debian"},
			Packages: map[string]string{"zfs-fuse": "0.7.0"}}, files: fstest.MapFS{"etc/apt/sources.list": &fstest.MapFile{
			Data: []byte("deb http://deb.debian.org/debian bookworm main\n")}}},
		"netbsd, other names of the devices, and a release candidate": change(netbsdMachine(), func(m *machine) {
			m.OS.Version = "11.0_RC1"
			m.pool("rpool", func(p *installed.Pool) { p.VDevs = []string{"dk2"} })
			m.Blkid = map[string]map[string]string{"/dev/dk2": {"TYPE": "zfs_member", "LABEL": "rpool"}}
			m.write("stand/amd64/11.0", "")
		}),
		"nothing known": {System: installed.System{Schema: 1}},
	} {
		checkClean(t, name, m)
	}
}

// checkClean checks that nothing is found on a system.
func checkClean(t *testing.T, name string, m *machine) {
	t.Helper()
	for _, f := range check(m) {
		t.Errorf("%s: false alarm: %+v", name, f)
	}
	for _, f := range Check(m.System, nil) {
		t.Errorf("%s: false alarm with unknown files: %+v", name, f)
	}
	for _, f := range checkSent(t, m) {
		t.Errorf("%s: false alarm from the facts alone: %+v", name, f)
	}
}
