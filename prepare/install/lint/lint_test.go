package lint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bakeoff/prepare/install/installed"
)

func change(m *machine, f func(*machine)) *machine {
	f(m)
	return m
}

func check(m *machine) []Finding {
	if m.files == nil {
		return Check(m.System, nil)
	}
	return Check(m.System, m.files)
}

// checkSent writes the facts of a machine and its configuration as probe does, and judges what
// another machine reads of them.
func checkSent(t *testing.T, m *machine) []Finding {
	t.Helper()
	s := m.System
	if m.files != nil {
		s.Files = map[string]installed.File{}
	}
	keys := newLinter(m.System, m.files).allKeys() // probe looks for them by their names
	for name, f := range m.files {
		withheld := isKey(keys, "/"+name)
		switch there, content := installed.Configured(name); {
		case withheld:
			s.Files[name] = installed.File{Withheld: true}
		case !there:
		case f.Mode&fs.ModeSymlink != 0:
			s.Files[name] = installed.File{Link: string(f.Data)}
		case content:
			s.Files[name] = installed.FileOf(name, f.Data)
		default:
			s.Files[name] = installed.File{Withheld: true}
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	s, err = installed.Read("facts", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return Check(s, installed.Root(s.Files))
}

const (
	voidRoot     = "zroot/ROOT/void"
	voidImage    = "boot/initramfs-6.12.9_1.img"
	voidKernelAt = "boot/vmlinuz-6.12.9_1"
	debImage     = "boot/initrd.img-6.12.5+deb13-amd64"
	debKernelAt  = "boot/vmlinuz-6.12.5+deb13-amd64"
)

// TestOneFaultIsOneFinding puts one fault into a system, and expects one finding.
func TestOneFaultIsOneFinding(t *testing.T) {
	for i, c := range []struct {
		base        func() *machine
		damage      func(*machine)
		name, where string
	}{
		{voidMachine, func(m *machine) {
			m.set(voidRoot, propCommandLine, "rd.luks.uuid="+luksID+" resume=/dev/mapper/cryptswap")
		},
			"commandline-drops-parent", voidRoot + " " + propCommandLine},
		{voidMachine, func(m *machine) {
			m.set(voidRoot, propCommandLine, "%{parent}% resume=/dev/mapper/cryptswap")
		}, "commandline-parent-typo", voidRoot + " " + propCommandLine},
		{unifiedMachine, func(m *machine) { // kernel-install copies the image to the ESP
			m.UKI = nil
			m.write("etc/kernel/install.conf", "layout=bls\n")
			m.write("efi/loader/entries/debian-6.12.5+deb13-amd64.conf", "options root=ZFS=rpool/ROOT/debian ro quiet\n")
			delete(m.ESPFiles[espID], "EFI/Linux/6.12.5.efi")
			m.ESPFiles[espID]["debian/6.12.5+deb13-amd64/initrd.img-6.12.5+deb13-amd64"] = "sha256:3"
			m.set("rpool", "keylocation", "file:///etc/zfs/rpool.key")
			m.write("etc/zfs/rpool.key", "a passphrase")
			m.image(func(i *installed.Initramfs) { i.Files = append(i.Files, "/etc/zfs/rpool.key") })
			m.write("etc/dracut.conf.d/key.conf", `install_items+=" /etc/zfs/rpool.key "`+"\n")
		}, "key-in-clear-initramfs", "efi/debian/6.12.5+deb13-amd64/initrd.img-6.12.5+deb13-amd64"},
		{voidMachine, func(m *machine) { m.set(voidRoot, propCommandLine, "%{parent} ro") },
			"resume-missing", voidRoot + " " + propCommandLine},
		{voidMachine, func(m *machine) { m.set(voidRoot, propCommandLine, "%{parent} resume=/dev/nvme0n1p2") },
			"resume-wrong", voidRoot + " " + propCommandLine},
		{voidMachine, func(m *machine) {
			m.set(voidRoot, propCommandLine, "%{parent} noresume resume=/dev/mapper/cryptswap")
		},
			"resume-off", voidRoot + " " + propCommandLine},
		{voidMachine, func(m *machine) {
			m.set(voidRoot, propCommandLine, "%{parent} rd.luks.uuid=1b5f9a52-0 resume=/dev/mapper/cryptswap")
		}, "luks-uuid-wrong", voidRoot + " " + propCommandLine},
		{voidMachine, func(m *machine) {
			m.set(voidRoot, propCommandLine, "%{parent} zfs_force=1 resume=/dev/mapper/cryptswap")
		}, "import-forced", voidRoot + " " + propCommandLine},
		{voidMachine, func(m *machine) {
			m.set(voidRoot, propCommandLine, "%{parent} spl_hostid=12345678 resume=/dev/mapper/cryptswap")
		}, "hostid-argument-form", voidRoot + " " + propCommandLine},
		{voidMachine, func(m *machine) {
			m.set(voidRoot, propCommandLine, "%{parent} spl.spl_hostid=1234abcd resume=/dev/mapper/cryptswap")
		}, "hostid-argument-form", voidRoot + " " + propCommandLine},
		{voidMachine, func(m *machine) {
			m.set(voidRoot, propCommandLine, "%{parent} spl.spl_hostid=0x00bab10c resume=/dev/mapper/cryptswap")
		}, "hostid-argument-differs", voidRoot + " " + propCommandLine},
		{voidMachine, func(m *machine) {
			m.set(voidRoot, propCommandLine, "%{parent} root=zfs:other/ROOT resume=/dev/mapper/cryptswap")
		}, "commandline-root", voidRoot + " " + propCommandLine},
		{voidMachine, func(m *machine) {
			delete(m.Pools["zroot"].Props, propReadOnly)
		}, "readonly-unset", "zroot " + propReadOnly},
		{voidMachine, func(m *machine) {
			delete(m.Pools["zroot"].Props, propReadOnly)
			m.set("zroot", propReadOnly, "on")
		}, "readonly-on-dataset", "zroot " + propReadOnly},
		{voidMachine, func(m *machine) { m.ZBM.Version = "3.0.1" }, "menu-too-old-for-readonly", "zbm"},
		{voidMachine, func(m *machine) {
			m.set(voidRoot, "canmount", "on")
		}, "environment-canmount", voidRoot + " canmount"},
		{voidMachine, func(m *machine) {
			m.dataset("zroot/ROOT/old", "/", "on")
		}, "environment-canmount", "zroot/ROOT/old canmount"},
		{voidMachine, func(m *machine) { m.set(voidRoot, "mountpoint", "legacy"); m.set("zroot", "keylocation", "prompt") },
			"environment-not-listed", voidRoot + " mountpoint"},
		{voidMachine, func(m *machine) {
			m.set(voidRoot, propActive, "off")
		}, "environment-not-listed", voidRoot + " " + propActive},
		{voidMachine, func(m *machine) { m.Pools["zroot"].Props["bootfs"] = "-" }, "bootfs-unset", "zroot bootfs"},
		{voidMachine, func(m *machine) {
			m.Pools["zroot"].Props["bootfs"] = "zroot/ROOT/gone"
		}, "bootfs-missing", "zroot bootfs"},
		{voidMachine, func(m *machine) {
			m.Pools["zroot"].Props["bootfs"] = "zroot/home"
		}, "bootfs-no-root", "zroot bootfs"},
		{voidMachine, func(m *machine) {
			m.set("zroot/boot", "mountpoint", "/boot")
		}, "boot-not-in-environment", "zroot/boot mountpoint"},
		{voidMachine, func(m *machine) {
			m.write("etc/fstab", string(m.files["etc/fstab"].Data)+"LABEL=boot /boot ext4 defaults 0 2\n")
		}, "boot-not-in-environment", "etc/fstab"},
		{voidMachine, func(m *machine) {
			m.set("zroot", propKeySource, "zroot/keys")
		}, "keysource-missing", "zroot " + propKeySource},
		{voidMachine, func(m *machine) {
			m.dataset("zroot/keys", "/keys", "on")
			m.set("zroot/keys", "encryption", "off")
			m.set("zroot", propKeySource, "zroot/keys")
		}, "keysource-not-encrypted", "zroot " + propKeySource},
		{voidMachine, func(m *machine) {
			m.set("zroot", propKeySource, "zroot/home")
		}, "keysource-without-key", "zroot " + propKeySource},
		{voidMachine, func(m *machine) { m.set("zroot", "keyformat", "raw") }, "key-cannot-be-typed", "zroot keyformat"},
		{voidMachine, func(m *machine) {
			m.set("zroot/ROOT", propKernel, "5\\.10")
		}, "kernel-choice-matches-none", "zroot/ROOT " + propKernel},

		{voidMachine, func(m *machine) { m.hostid(0x00bab10c, "0x00bab10c") }, "hostid-literal", "etc/hostid"},
		{voidMachine, func(m *machine) { delete(m.files, "etc/hostid") }, "hostid-missing", "etc/hostid"},
		{voidMachine, func(m *machine) { m.write("etc/hostid", "1234abcd\n") }, "hostid-form", "etc/hostid"},
		{voidMachine, func(m *machine) {
			s := "0xdeadbeef"
			m.image(func(i *installed.Initramfs) { i.HostID = &s })
		}, "hostid-initramfs-differs", voidImage},
		{voidMachine, func(m *machine) { m.pool("zroot", func(p *installed.Pool) { p.Label.HostID = "0xdeadbeef" }) },
			"hostid-pool-differs", "etc/hostid"},
		{voidMachine, func(m *machine) {
			m.image(func(i *installed.Initramfs) { i.HostID, i.Files = nil, i.Files[:3] })
		}, "hostid-not-in-initramfs", voidImage},

		{voidMachine, func(m *machine) { m.Swaps[0].Size = m.RAMBytes }, "swap-smaller-than-ram", "swap"},
		{voidMachine, func(m *machine) { m.Swaps = []installed.Swap{} }, "swap-missing", "swap"},
		{voidMachine, func(m *machine) {
			m.Swaps[0].Device = "/dev/zd0"
			m.write("etc/fstab", "/dev/zvol/zroot/swap none swap defaults 0 0\n"+
				"UUID=AAAA-0001 /boot/efi vfat umask=0077,nofail 0 0\n")
		}, "swap-on-zvol", "swap"},
		{voidMachine, func(m *machine) { m.Blkid["/dev/mapper/cryptswap"]["TYPE"] = "swsuspend" }, "hibernation-pending",
			"/dev/mapper/cryptswap"},
		{voidMachine, func(m *machine) { m.write("etc/crypttab", "cryptswap UUID="+luksID+" /dev/urandom swap\n") },
			"swap-key-random", "etc/crypttab"},
		{voidMachine, func(m *machine) {
			m.write("etc/crypttab", "cryptswap UUID="+luksID+" /boot/volume.key luks,noauto\n")
		}, "crypttab-skipped", "etc/crypttab"},
		{voidMachine, func(m *machine) {
			t := "cryptswap /dev/nvme0n1p2 /boot/volume.key luks\n"
			m.write("etc/crypttab", t)
			m.image(func(i *installed.Initramfs) { i.Crypttab = &t })
		}, "crypttab-device-name", "etc/crypttab"},
		{voidMachine, func(m *machine) {
			t := "cryptswap UUID=gone /boot/volume.key luks\n"
			m.write("etc/crypttab", t)
			m.image(func(i *installed.Initramfs) { i.Crypttab = &t })
		}, "crypttab-uuid-wrong", "etc/crypttab"},
		{voidMachine, func(m *machine) {
			delete(m.files, "boot/volume.key")
			delete(m.Modes, "/boot/volume.key")
		}, "key-file-missing", "etc/crypttab"},
		{voidMachine, func(m *machine) {
			delete(m.files, "etc/modprobe.d/zfs.conf")
		}, "arc-uncapped", "etc/modprobe.d/zfs.conf"},
		{voidMachine, func(m *machine) { m.write("etc/modprobe.d/zfs.conf", "options zfs zfs_arc_max=16106127360\n") },
			"arc-limit-high", "etc/modprobe.d/zfs.conf"},
		{voidMachine, func(m *machine) { m.write("etc/modprobe.d/zfs.conf", "options zfs zfs_arc_max=4G\n") },
			"arc-limit-form", "etc/modprobe.d/zfs.conf"},

		{voidMachine, func(m *machine) {
			m.write("etc/dracut.conf.d/10-crypt.conf", `install_items+=" /boot/volume.key /etc/crypttab "`)
			m.image(func(i *installed.Initramfs) { i.Modules = []string{"base", "zfs"} })
		}, "dracut-hostonly-leaves-out", "etc/dracut.conf.d/10-crypt.conf"},
		{voidMachine, func(m *machine) {
			m.write("etc/dracut.conf.d/10-crypt.conf", `add_dracutmodules+=" crypt "`+"\n"+
				""+`install_items+=" /boot/volume.key /etc/crypttab "`)
		}, "dracut-hostonly-leaves-out", "etc/dracut.conf.d/10-crypt.conf"},
		{voidMachine, func(m *machine) {
			m.write("etc/dracut.conf.d/10-crypt.conf", `add_dracutmodules+="crypt"`+"\n"+`add_dracutmodules+="resume"`+"\n"+
				`install_items+=" /boot/volume.key /etc/crypttab "`)
		}, "dracut-words-joined", "etc/dracut.conf.d/10-crypt.conf"},
		{voidMachine, func(m *machine) {
			m.write("etc/dracut.conf.d/zzz.conf", `omit_dracutmodules+=" resume "`)
		}, "dracut-omits-module", "etc/dracut.conf.d/zzz.conf"},
		{voidMachine, func(m *machine) {
			m.write("etc/dracut.conf.d/10-crypt.conf", `add_dracutmodules+=" crypt resume "`+"\n"+
				""+`install_items+=" /boot/volume.key "`)
			m.image(func(i *installed.Initramfs) {
				i.Files, i.Crypttab = []string{"/etc/zfs/zroot.key", "/boot/volume.key", "/etc/hostid"}, nil
			})
		}, "dracut-items-missing", "etc/dracut.conf.d/10-crypt.conf"},
		{voidMachine, func(m *machine) {
			m.write("etc/dracut.conf.d/zol.conf", `add_dracutmodules+=" zfs "`)
			m.image(func(i *installed.Initramfs) { i.Files = i.Files[1:] })
		}, "dracut-items-missing", "etc/dracut.conf.d/10-crypt.conf"},
		{voidMachine, func(m *machine) {
			m.image(func(i *installed.Initramfs) { i.Files = i.Files[1:] })
		}, "initramfs-stale", voidImage},
		{voidMachine, func(m *machine) { m.image(func(i *installed.Initramfs) { i.Modules = []string{"crypt", "zfs"} }) },
			"initramfs-lacks-module", voidImage},
		{voidMachine, func(m *machine) {
			t := "cryptswap UUID=older /boot/volume.key luks\n"
			m.image(func(i *installed.Initramfs) { i.Crypttab = &t })
		}, "initramfs-crypttab", voidImage},
		{voidMachine, func(m *machine) { m.image(func(i *installed.Initramfs) { i.ZFSModule = truth(false) }) },
			"initramfs-lacks-zfs", voidImage},
		{voidMachine, func(m *machine) { m.image(func(i *installed.Initramfs) { i.Mode = "0644" }) },
			"key-in-readable-initramfs", voidImage},
		{voidMachine, func(m *machine) {
			m.image(func(i *installed.Initramfs) {
				i.PoolCache = []byte(`{"hostname": "void-live", "hostid": "0x00000001"}`)
			})
		}, "pool-cache-foreign", voidImage},
		{voidMachine, func(m *machine) { m.Modes["/boot/volume.key"] = "0644" }, "key-readable", "boot/volume.key"},
		{voidMachine, func(m *machine) {
			m.write("etc/zfs/zroot.key", "short\n")
		}, "passphrase-length", "etc/zfs/zroot.key"},
		{voidMachine, func(m *machine) {
			delete(m.files, "etc/zfs/zroot.key")
			delete(m.Modes, "/etc/zfs/zroot.key")
		}, "key-file-missing", "zroot keylocation"},

		{debianMachine, func(m *machine) {
			delete(m.files, "etc/systemd/system/zfs-import-scan.service.d/resume.conf")
			delete(m.files, "etc/systemd/system/zfs-import-cache.service.d/resume.conf")
		}, "import-before-resume", "etc/systemd/system/zfs-import-scan.service.d"},
		{debianMachine, func(m *machine) { m.image(func(i *installed.Initramfs) { i.Files = i.Files[:len(i.Files)-1] }) },
			"initramfs-stale", debImage},
		{debianMachine, func(m *machine) { delete(m.Packages, "systemd-cryptsetup") }, "cryptsetup-missing", "packages"},
		{debianMachine, func(m *machine) {
			delete(m.Packages, "linux-headers-amd64")
		}, "kernel-headers-missing", "packages"},
		{debianMachine, func(m *machine) { delete(m.Packages, "zfs-dracut") }, "zfs-package-missing", "packages"},
		{debianMachine, func(m *machine) {
			m.Packages["linux-image-amd64"] = "6.16.3-1~bpo13+1"
		}, "suites-mixed", "packages"},
		{debianMachine, func(m *machine) { m.Kernels[0].ZFSModule = truth(false) }, "kernel-without-zfs", debKernelAt},
		{debianMachine, func(m *machine) { m.Kernels[0].ZFSModuleVersion = "2.3.2" }, "zfs-versions-differ", "packages"},
		{debianMachine, func(m *machine) {
			m.write("etc/apt/sources.list.d/debian.sources", "Types: deb\n"+
				"URIs: http://deb.debian.org/debian\nSuites: trixie\nComponents: main\n")
		}, "apt-component-missing", "etc/apt/sources.list.d/debian.sources"},
		{debianMachine, func(m *machine) {
			m.Services = []string{"zfs-import-cache.service", "zfs-mount.service"}
		}, "import-service", "services"},
		{debianMachine, func(m *machine) { m.Services = []string{"zfs-import-scan.service"} }, "mount-service", "services"},
		{debianMachine, func(m *machine) {
			m.write("etc/zfs/zpool.cache", "name rpool hostname debian-live")
		}, "pool-cache-foreign",
			"etc/zfs/zpool.cache"},
		{oldDebianMachine, func(m *machine) { m.write("etc/initramfs-tools/conf.d/resume", "RESUME=none\n") },
			"resume-off", "etc/initramfs-tools/conf.d/resume"},
		{oldDebianMachine, func(m *machine) { delete(m.files, "etc/cryptsetup-initramfs/conf-hook") }, "keyfile-pattern",
			"etc/cryptsetup-initramfs/conf-hook"},
		{oldDebianMachine, func(m *machine) {
			m.write("etc/initramfs-tools/initramfs.conf", "MODULES=most\n")
		}, "initramfs-umask",
			"etc/initramfs-tools/initramfs.conf"},
		{oldDebianMachine, func(m *machine) {
			m.pool("rpool", func(p *installed.Pool) { p.Features["block_cloning"] = "active" })
		}, "pool-features-beyond-loader", "rpool feature@block_cloning"},

		{voidMachine, func(m *machine) {
			m.ZBM.OpenZFS = "2.1.5"
		}, "pool-features-beyond-loader", "zroot feature@block_cloning"},
		{voidMachine, func(m *machine) {
			m.ZBM.OpenZFS = "2.2.7"
			m.Pools["zroot"].Props["compatibility"] = "openzfs-2.3-linux"
		}, "pool-compatibility-beyond-loader", "zroot compatibility"},
		{voidMachine, func(m *machine) { m.Pools["zroot"].Props["ashift"] = "9" }, "ashift-small", "zroot ashift"},
		{voidMachine, func(m *machine) { m.Pools["zroot"].Props["ashift"] = "15" }, "ashift-large", "zroot ashift"},
		{voidMachine, func(m *machine) { m.Pools["zroot"].Props["autotrim"] = "off" }, "autotrim-off", "zroot autotrim"},
		{voidMachine, func(m *machine) { m.Pools["zroot"].Props["health"] = "DEGRADED" }, "pool-health", "zroot health"},
		{voidMachine, func(m *machine) { m.pool("zroot", func(p *installed.Pool) { p.VDevs[0] = "/dev/nvme0n1p3" }) },
			"pool-device-name", "zroot vdevs"},
		{grubMachine, func(m *machine) {
			m.Pools["bpool"].Props["compatibility"] = "off"
		}, "grub-pool-compatibility", "bpool compatibility"},
		{grubMachine, func(m *machine) {
			m.Pools["bpool"].Features["zstd_compress"] = "enabled"
		}, "pool-features-beyond-loader",
			"bpool feature@zstd_compress"},
		{grubMachine, func(m *machine) { m.Tools["zfs"] = "2.3.2" }, "grub-pool-compatibility", "bpool compatibility"},
		{grubMachine, func(m *machine) {
			m.Snapshots = append(m.Snapshots, "bpool@today")
		}, "grub-pool-snapshot", "bpool@today"},
		{grubMachine, func(m *machine) {
			m.write("etc/default/grub", `GRUB_CMDLINE_LINUX="quiet"`)
		}, "grub-without-root", "etc/default/grub"},
		{grubMachine, func(m *machine) {
			m.image(func(i *installed.Initramfs) { i.Files = append(i.Files, "/etc/zfs/rpool.key") })
		}, "key-in-clear-initramfs", debImage},

		{voidMachine, func(m *machine) { m.Firmware.SecureBoot = truth(true) }, "secure-boot", "firmware"},
		{voidMachine, func(m *machine) {
			e := m.EFI.Entries[0]
			e.Number = "0005"
			m.EFI.Entries = append(m.EFI.Entries, e)
		}, "entries-doubled", "efibootmgr"},
		{voidMachine, func(m *machine) { m.EFI.Entries[1].PartUUID = "gone" }, "entry-partition-missing", "efibootmgr"},
		{voidMachine, func(m *machine) {
			m.EFI.Entries[1].Loader = `\EFI\ZBM\GONE.EFI`
		}, "entry-file-missing", "efibootmgr"},
		{voidMachine, func(m *machine) { m.EFI.Order = []string{} }, "entries-not-in-order", "efibootmgr"},
		{voidMachine, func(m *machine) { delete(m.ESPFiles[espID], "EFI/BOOT/BOOTX64.EFI") }, "fallback-loader-missing",
			"boot/efi/EFI/BOOT/BOOTX64.EFI"},
		{voidMachine, func(m *machine) {
			m.write("etc/fstab", "/dev/mapper/cryptswap none swap defaults 0 0\nUUID=AAAA-0001 /boot/efi vfat defaults 0 0\n")
		}, "esp-mount-options", "etc/fstab"},
		{voidMachine, func(m *machine) {
			m.write("etc/fstab", "/dev/mapper/cryptswap none swap defaults 0 0\nUUID=AAAA-0001 /boot/efi vfat umask=0077 0 0\n")
		}, "esp-mount-options", "etc/fstab"},
		{voidMachine, func(m *machine) {
			m.write("etc/fstab", "/dev/mapper/cryptswap none swap defaults 0 0\n"+
				"UUID=BBBB-0001 /boot/efi vfat umask=0077,nofail 0 0\n")
		}, "fstab-uuid-wrong", "etc/fstab"},
		{voidMachine, func(m *machine) {
			m.write("etc/fstab", "/dev/mapper/cryptswap none swap defaults 0 0\n"+
				"/dev/nvme0n1p1 /boot/efi vfat umask=0077,nofail 0 0\n")
		}, "fstab-device-name", "etc/fstab"},
		{voidMachine, func(m *machine) {
			m.write("etc/fstab", string(m.files["etc/fstab"].Data)+"zroot/home /home zfs defaults 0 0\n")
		}, "fstab-zfs", "etc/fstab"},
		{voidMachine, func(m *machine) {
			m.write("etc/fstab", "UUID=AAAA-0001 /boot/efi vfat umask=0077,nofail 0 0\n")
		}, "fstab-without-swap", "etc/fstab"},
		{voidMachine, func(m *machine) {
			m.Disks[0].Logical = 4096
			m.Disks[0].Partitions[0].Size = 200 << 20
		}, "esp-small", "/dev/nvme0n1p1"},
		{unifiedMachine, func(m *machine) { m.Disks[0].Partitions[0].Size = 512 << 20 }, "esp-small", "/dev/nvme0n1p1"},
		{mirrorMachine, func(m *machine) {
			m.ESPFiles["esp-2"]["EFI/ZBM/VMLINUZ.EFI"] = "sha256:0"
		}, "esp-out-of-step", "/dev/nvme1n1p1"},
		{mirrorMachine, func(m *machine) {
			delete(m.Blkid, "/dev/nvme1n1p1")
			delete(m.ESPFiles, "esp-2")
		}, "esp-not-formatted", "/dev/nvme1n1p1"},
		{mirrorMachine, func(m *machine) {
			m.Blkid["/dev/nvme1n1p1"]["UUID"] = "AAAA-0001"
		}, "esp-same-serial", "/dev/nvme1n1p1"},
		{mirrorMachine, func(m *machine) { m.EFI.Entries = m.EFI.Entries[:2] }, "entry-missing-for-disk", "efibootmgr"},
		{mirrorMachine, func(m *machine) {
			m.Disks[1].Partitions = m.Disks[1].Partitions[1:]
			m.EFI.Entries = m.EFI.Entries[:2]
		}, "esp-missing-on-disk", "/dev/nvme1n1"},

		{unifiedMachine, func(m *machine) {
			delete(m.files, "etc/kernel/cmdline")
		}, "uki-without-cmdline", "etc/kernel/cmdline"},
		{unifiedMachine, func(m *machine) {
			m.UKI[0].Cmdline = "root=ZFS=live/ROOT quiet"
		}, "uki-root", "efi/EFI/Linux/6.12.5.efi"},
		{unifiedMachine, func(m *machine) { m.UKI[0].Cmdline = "root=ZFS=rpool/ROOT/debian ro" }, "uki-cmdline-differs",
			"efi/EFI/Linux/6.12.5.efi"},
		{unifiedMachine, func(m *machine) { m.UKI[0].Kernel = "6.12.1" }, "kernel-without-uki", debKernelAt},
		{unifiedMachine, func(m *machine) {
			m.write("etc/kernel/install.conf", "layout=bls\n")
		}, "uki-layout", "etc/kernel/install.conf"},
		{unifiedMachine, func(m *machine) { m.UKI[0].Files = append(m.UKI[0].Files, "/etc/zfs/rpool.key") },
			"key-in-clear-initramfs", "efi/EFI/Linux/6.12.5.efi"},

		{voidMachine, func(m *machine) {
			m.Blkid["/dev/sdb1"] = map[string]string{"TYPE": "crypto_LUKS", "UUID": "other"}
			m.set(voidRoot, propCommandLine, "%{parent} rd.luks.uuid=other resume=/dev/mapper/cryptswap")
		}, "luks-uuid-wrong", voidRoot + " " + propCommandLine},
		{voidMachine, func(m *machine) {
			t := "swap2 UUID=" + luksID + " /boot/volume.key luks\n"
			m.write("etc/crypttab", t)
			m.image(func(i *installed.Initramfs) { i.Crypttab = &t })
		}, "crypttab-without-swap", "etc/crypttab"},
		{voidMachine, func(m *machine) { m.write("boot/vmlinuz-6.12.9_1.kcl", "quiet\n") }, "kernel-arguments-unread",
			"boot/vmlinuz-6.12.9_1.kcl"},
		{unifiedMachine, func(m *machine) {
			m.set("rpool", "keylocation", "file:///etc/zfs/rpool.key")
			m.Modes = map[string]string{"/etc/zfs/rpool.key": "0400"}
		}, "key-not-in-initramfs", "rpool keylocation"},
		{voidMachine, func(m *machine) {
			m.Kernels[0].Initramfs = ""
			delete(m.files, voidImage)
		}, "kernel-without-initramfs", voidKernelAt},
		{voidMachine, func(m *machine) {
			delete(m.files, "etc/xbps.d/10-kernel.conf")
		}, "kernel-overtakes-zfs", "etc/xbps.d"},
		{voidMachine, func(m *machine) { delete(m.Packages, "linux6.12-headers") }, "kernel-headers-missing", "packages"},
		{voidMachine, func(m *machine) { m.Services = append(m.Services, "dhcpcd") }, "services-conflict", "services"},
		{voidMachine, func(m *machine) {
			m.Packages["elogind"] = "255_1"
			m.link("etc/runit/runsvdir/default/acpid", "/etc/sv/acpid")
		}, "services-conflict", "services"},
		{voidMachine, func(m *machine) { m.Services = []string{"sddm"} }, "service-needs-dbus", "services"},
		{voidMachine, func(m *machine) {
			m.Packages["kde-plasma"] = "6.7.5_1"
			m.link("etc/pipewire/pipewire.conf.d/10-wireplumber.conf", "/usr/share/examples/wireplumber/10-wireplumber.conf")
		}, "wireplumber-twice", "etc/pipewire/pipewire.conf.d/10-wireplumber.conf"},
		{voidMachine, func(m *machine) {
			m.write("etc/rc.conf", "TIMEZONE=UTC\n")
			m.link("etc/localtime", "/usr/share/zoneinfo/Europe/Rome")
		}, "timezone-twice", "etc/rc.conf"},
		{voidMachine, func(m *machine) {
			m.link("etc/resolv.conf", "/run/systemd/resolve/stub-resolv.conf")
		}, "resolv-conf-foreign",
			"etc/resolv.conf"},
		{voidMachine, func(m *machine) {
			m.OS.Libc = "musl"
			m.write("etc/default/libc-locales", "en_US.UTF-8 UTF-8\n")
		}, "musl-locales", "etc/default/libc-locales"},

		{netbsdMachine, func(m *machine) {
			m.write("boot.cfg", "menu=Boot:load zfs;fs /ramdisk-zfsroot.fs;boot\n")
		}, "netbsd-modules", "boot.cfg"},
		{netbsdMachine, func(m *machine) {
			m.write("boot.cfg", "menu=Boot:load solaris;load zfs;boot\n")
		}, "netbsd-ramdisk", "boot.cfg"},
		{netbsdMachine, func(m *machine) {
			m.write("boot.cfg", "menu=Boot:load zfs;load solaris;fs /ramdisk-zfsroot.fs;boot\n")
		}, "netbsd-modules", "boot.cfg"},
		{netbsdMachine, func(m *machine) {
			m.write("boot.cfg", "menu=Boot:load /stand/amd64/10.1/modules/solaris/solaris.kmod;"+
				"load /stand/amd64/10.1/modules/zfs/zfs.kmod;fs /ramdisk-zfsroot.fs;boot /netbsd.gz\n")
		}, "netbsd-modules-of-another-release", "boot.cfg"},
		{voidMachine, func(m *machine) {
			m.pool("zroot", func(p *installed.Pool) { p.VDevs = []string{"/dev/mapper/cryptroot"} })
		}, "pool-behind-mapper", "zroot vdevs"},
		{unifiedMachine, func(m *machine) {
			line := "root=ZFS=rpool/ROOT/debian ro quiet spl.spl_hostid=89abcdef"
			m.write("etc/kernel/cmdline", line+"\n")
			m.UKI[0].Cmdline = line
		}, "hostid-argument-form", "etc/kernel/cmdline"},
		{grubMachine, func(m *machine) {
			m.write("etc/default/grub", `GRUB_CMDLINE_LINUX="root=ZFS=rpool/ROOT/debian spl.spl_hostid=0x00000001"`)
		}, "hostid-argument-differs", "etc/default/grub"},
		{grubMachine, func(m *machine) { m.write("etc/zfs/rpool.key", "a passphrase") },
			"key-in-clear-initramfs", "etc/zfs/rpool.key"},
		{debianMachine, func(m *machine) { m.write("etc/dkms/zfs.conf", "REMAKE_INITRD=\"yes\"\n") },
			"dkms-remake-initrd", "etc/dkms/zfs.conf"},
		{netbsdMachine, func(m *machine) { m.write("etc/rc.conf", "zfs=NO\n") }, "netbsd-rc", "etc/rc.conf"},
		{netbsdMachine, func(m *machine) {
			m.set("rpool/ROOT", "mountpoint", "/")
		}, "netbsd-root-mountpoint", "rpool/ROOT mountpoint"},
		{netbsdMachine, func(m *machine) { delete(m.Datasets, "rpool/ROOT") }, "netbsd-root-name", "zfs"},
		{voidMachine, func(m *machine) {
			m.set(voidRoot, propCommandLine, "%{parent} rd.luks=0 rd.luks.uuid="+luksID+" resume=/dev/mapper/cryptswap")
		}, "luks-off", voidRoot + " " + propCommandLine},
		{voidMachine, func(m *machine) {
			m.Swaps[0].Size = 8 * gibi
			m.Swaps = append(m.Swaps, installed.Swap{Device: "/dev/zram0", Size: 30 * gibi})
		}, "swap-smaller-than-ram", "swap"},
		{voidMachine, func(m *machine) {
			m.write("etc/fstab", "UUID=AAAA-0001 /boot/efi vfat umask=0077,nofail 0 0\n")
			m.Swaps[0] = installed.Swap{Device: "/dev/zram0", Size: 30 * gibi}
		}, "swap-missing", "swap"},
		{voidMachine, func(m *machine) { m.write("etc/hostid", "\x00\x00\x00\x00") }, "hostid-zero", "etc/hostid"},
		{voidMachine, func(m *machine) { m.write("etc/zfs/zroot.key", "") }, "passphrase-length", "etc/zfs/zroot.key"},
		{voidMachine, func(m *machine) {
			m.set(voidRoot, "canmount", "off")
		}, "environment-canmount", voidRoot + " canmount"},
		{voidMachine, func(m *machine) {
			m.Disks[0].Partitions[0].Type = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
		}, "esp-type", "/dev/nvme0n1p1"},
		{voidMachine, func(m *machine) {
			m.Disks[0].Partitions[2].Start = 38799361
		}, "partition-unaligned", "/dev/nvme0n1p3"},
		{voidMachine, func(m *machine) {
			m.write("etc/crypttab", "cryptswap UUID=00000000-1111-4222-8333-444455556666 /boot/volume.key luks\n")
		}, "crypttab-uuid-wrong", "etc/crypttab"},
		{voidMachine, func(m *machine) {
			m.write("etc/crypttab", "cryptswap /dev/nvme0n1p2 /boot/volume.key luks\n")
		}, "crypttab-device-name", "etc/crypttab"},
		{debianMachine, func(m *machine) { m.Services = m.Services[:2] }, "mount-service", "services"},
		{oldDebianMachine, func(m *machine) { delete(m.Packages, "cryptsetup-initramfs") }, "cryptsetup-missing", "packages"},
		{oldDebianMachine, func(m *machine) {
			m.image(func(i *installed.Initramfs) {
				i.Files = []string{"/cryptroot/crypttab", "/etc/zfs/rpool.key", "/etc/hostid"}
			})
		}, "initramfs-stale", debImage},
		{oldDebianMachine, func(m *machine) {
			m.image(func(i *installed.Initramfs) { i.Files = []string{"/etc/hostid"} })
		}, "initramfs-stale", debImage},
		{unifiedMachine, func(m *machine) { m.UKI[0].Files = []string{"/etc/fstab"} }, "hostid-not-in-initramfs",
			"efi/EFI/Linux/6.12.5.efi"},
		{unifiedMachine, func(m *machine) { m.write("etc/kernel/cmdline", "root=ZFS=live/ROOT ro quiet\n") },
			"cmdline-root", "etc/kernel/cmdline"},
		{grubMachine, func(m *machine) {
			m.write("etc/default/grub", `GRUB_CMDLINE_LINUX="root=ZFS=rpool/ROOT/gone"`)
		}, "grub-root-wrong", "etc/default/grub"},
		{voidMachine, func(m *machine) { m.Blkid["/dev/nvme0n1p1"]["TYPE"] = "ext4" }, "esp-not-fat", "/dev/nvme0n1p1"},
		{voidMachine, func(m *machine) {
			m.write("etc/fstab", "UUID="+luksID+" none swap defaults 0 0\n"+
				"UUID=AAAA-0001 /boot/efi vfat umask=0077,nofail 0 0\n")
		}, "fstab-swap-closed", "etc/fstab"},
		{debianMachine, func(m *machine) {
			m.Mounts = append(m.Mounts, installed.Mount{Source: "/dev/nvme0n1p4", Target: "/etc/cryptsetup-keys.d",
				Type: "ext4"})
		}, "key-in-clear", "etc/cryptsetup-keys.d/cryptswap.key"},
		{voidMachine, func(m *machine) {
			m.Blkid["/dev/nvme0n1"] = map[string]string{"TYPE": "zfs_member", "LABEL": "tank"}
		}, "label-stale", "/dev/nvme0n1"},
		{oldDebianMachine, func(m *machine) {
			m.set("rpool", "keylocation", "file:///root/rpool.key")
			m.write("root/rpool.key", "a passphrase")
		}, "key-not-in-initramfs", "rpool keylocation"},
		{voidMachine, func(m *machine) {
			m.set(voidRoot, propCommandLine, "%{parent} nohibernate resume=/dev/mapper/cryptswap")
		}, "resume-off", voidRoot + " " + propCommandLine},
		{unifiedMachine, func(m *machine) {
			m.set("rpool", "keylocation", "file:///etc/zfs/rpool.key")
			m.Modes, m.Initramfs = map[string]string{"/etc/zfs/rpool.key": "0400"}, nil
			other := m.UKI[0]
			other.Path, other.Files = "efi/EFI/Linux/older.efi", nil
			m.UKI = append(m.UKI, other)
		}, "key-not-in-initramfs", "rpool keylocation"},
		{debianMachine, func(m *machine) {
			m.Kernels[0].ZFSModule = truth(false)
			m.image(func(i *installed.Initramfs) { i.ZFSModule = truth(false) })
		}, "kernel-without-zfs", debKernelAt},
		{oldDebianMachine, func(m *machine) {
			m.Hibernation = false
			m.set("rpool", "keylocation", "file:///root/rpool.key")
			m.write("root/rpool.key", "a passphrase")
		}, "key-not-in-initramfs", "rpool keylocation"},
		{voidMachine, func(m *machine) {
			m.EFI.Entries = append(m.EFI.Entries, installed.EFIEntry{Number: "0005", Active: truth(true), PartUUID: espID,
				Loader: "/efi/zbm/vmlinuz.efi"})
		}, "entries-doubled", "efibootmgr"},
		{grubMachine, func(m *machine) {
			m.set("rpool", "keylocation", "file:///root/rpool.key")
			m.write("root/rpool.key", "a passphrase")
		}, "key-not-in-initramfs", "rpool keylocation"},
		{voidMachine, func(m *machine) { m.write("etc/hostid", "\x12\x34\xab\xcd") }, "hostid-form", "etc/hostid"},
		{voidMachine, func(m *machine) {
			m.Swaps[0].Size = 8 * gibi
			m.Swaps = append(m.Swaps, installed.Swap{Device: "/dev/mapper/other", Size: 64 * gibi})
			m.set(voidRoot, propCommandLine, "%{parent} rd.luks.name=1=other resume=/dev/mapper/cryptswap")
		}, "swap-smaller-than-ram", "swap"},
		{voidMachine, func(m *machine) {
			delete(m.Datasets["zroot"], propKeySource)
			m.set("zroot/ROOT", "encryptionroot", "zroot/ROOT")
			m.set("zroot/ROOT", "keylocation", "file:///etc/zfs/zroot.key")
			m.set("zroot", "keylocation", "prompt")
			m.set("zroot", propKeySource, "zroot/home")
		}, "keysource-without-key", "zroot " + propKeySource},
		{voidMachine, func(m *machine) {
			m.pool("zroot", func(p *installed.Pool) { p.VDevs = []string{"/dev/disk/by-id/dm-name-cryptroot"} })
		}, "pool-behind-mapper", "zroot vdevs"},
		{voidMachine, func(m *machine) {
			m.write("etc/crypttab", "cryptswap PARTUUID=gone /boot/volume.key luks\n")
		}, "crypttab-uuid-wrong", "etc/crypttab"},
		{oldDebianMachine, func(m *machine) {
			delete(m.files, "etc/initramfs-tools/initramfs.conf")
			m.set("rpool", "keylocation", "prompt")
			m.image(func(i *installed.Initramfs) {
				i.Files = []string{"/cryptroot/crypttab", "/cryptroot/keyfiles/cryptswap.key", "/etc/hostid"}
			})
		}, "initramfs-umask", "etc/initramfs-tools/initramfs.conf"},
		{grubMachine, func(m *machine) {
			m.set("rpool", "keylocation", "file:///etc/zfs/secret")
			m.write("etc/zfs/secret", "a passphrase")
		}, "key-in-clear-initramfs", "etc/zfs/secret"},
		{voidMachine, func(m *machine) {
			m.ZBM.OpenZFS, m.Tools["zfs"] = "2.2.7", "2.3.1"
			m.Pools["zroot"].Props["compatibility"] = "off"
		}, "pool-compatibility-beyond-loader", "zroot compatibility"},
		{voidMachine, func(m *machine) { m.pool("zroot", func(p *installed.Pool) { p.VDevs[0] = "sda3" }) },
			"pool-device-name", "zroot vdevs"},
		{voidMachine, func(m *machine) { m.pool("zroot", func(p *installed.Pool) { p.VDevs[0] = "/dev/mmcblk0p2" }) },
			"pool-device-name", "zroot vdevs"},
		{grubMachine, func(m *machine) {
			m.Pools["bpool"].Props["compatibility"] = "openzfs-2.1-linux"
		}, "grub-pool-compatibility", "bpool compatibility"},
		{grubMachine, func(m *machine) {
			m.write("etc/default/grub.d/zfs.cfg", "GRUB_CMDLINE_LINUX=root=ZFS=rpool/ROOT/gone\n")
		}, "grub-root-wrong", "etc/default/grub.d/zfs.cfg"},
		{voidMachine, func(m *machine) {
			m.EFI.Entries = append(m.EFI.Entries, installed.EFIEntry{Number: "0009", Active: truth(true), PartUUID: espID,
				Loader: `\EFI\Microsoft\Boot\bootmgfw.efi`})
			m.ESPFiles[espID]["EFI/Microsoft/Boot/bootmgfw.efi"] = "sha256:3"
			m.EFI.Order = []string{"0009"}
		}, "entries-not-in-order", "efibootmgr"},
		{mirrorMachine, func(m *machine) { m.EFI.Entries[2].Active = truth(false) }, "entry-missing-for-disk", "efibootmgr"},
		{mirrorMachine, func(m *machine) {
			delete(m.ESPFiles["esp-2"], "EFI/BOOT/BOOTX64.EFI")
		}, "fallback-loader-missing", "esp_files"},
		{mirrorMachine, func(m *machine) {
			for _, dev := range []string{"/dev/nvme0n1p1", "/dev/nvme1n1p1"} {
				m.Blkid[dev] = map[string]string{"TYPE": "linux_raid_member"}
			}
			m.Blkid["/dev/md127"] = map[string]string{"TYPE": "vfat", "UUID": "AAAA-0001"}
		}, "esp-on-raid", "/dev/nvme0n1p1"},
		{unifiedMachine, func(m *machine) {
			m.Bootloader, m.UKI = "efistub", nil
			m.EFI.Entries[0].Loader = `\EFI\debian\vmlinuz`
			m.ESPFiles[espID]["EFI/debian/vmlinuz"] = "sha256:4"
		}, "entry-arguments", "efibootmgr"},
		{voidMachine, func(m *machine) {
			m.write("etc/fstab", "/dev/mapper/cryptswap none swap defaults 0 0\n"+
				"PARTUUID=gone /boot/efi vfat umask=0077,nofail 0 0\n")
		}, "fstab-uuid-wrong", "etc/fstab"},
		{voidMachine, func(m *machine) {
			m.Mounts = append(m.Mounts, installed.Mount{Source: "/dev/nvme0n1p4", Target: "/boot", Type: "ext4"})
		}, "boot-not-in-environment", "/dev/nvme0n1p4"},
		{unifiedMachine, func(m *machine) {
			m.UKI[0].Cmdline = "root=ZFS=rpool/home ro quiet"
		}, "uki-root", "efi/EFI/Linux/6.12.5.efi"},
		{voidMachine, func(m *machine) { m.Packages["intel-ucode"] = "20250812_1" }, "nonfree-missing", "packages"},
		{debianMachine, func(m *machine) {
			m.write("usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n")
		}, "policy-rc-left", "usr/sbin/policy-rc.d"},
		{debianMachine, func(m *machine) { m.write("etc/dkms/framework.conf.d/zfs.conf", "REMAKE_INITRD=yes\n") },
			"dkms-remake-initrd", "etc/dkms/framework.conf.d/zfs.conf"},
		{debianMachine, func(m *machine) {
			m.write("etc/zfs/zpool.cache", "\x00\x05rpool\x00\x00hostname\x00\x06rescue\x00")
		}, "pool-cache-foreign", "etc/zfs/zpool.cache"},
		{sleepingMachine, func(m *machine) {
			m.write("etc/crypttab", "cryptswap UUID="+luksID+" /etc/swap.key luks,x-initrd.attach\n")
			m.Modes = map[string]string{"/etc/swap.key": "0400"}
			m.image(func(i *installed.Initramfs) { i.Crypttab = nil })
		}, "key-not-in-initramfs", "etc/crypttab"},
		{sleepingMachine, func(m *machine) {
			delete(m.files, "etc/crypttab")
			const line = "root=ZFS=rpool/ROOT/debian resume=/dev/nvme0n1p2 quiet"
			m.write("etc/kernel/cmdline", line+"\n")
			m.UKI[0].Cmdline = line
			m.Swaps[0].Device = "/dev/nvme0n1p2"
			m.Blkid["/dev/nvme0n1p2"] = map[string]string{"TYPE": "swap", "UUID": "5"}
			delete(m.Blkid, "/dev/mapper/cryptswap")
			m.write("etc/fstab", "UUID=5 none swap sw 0 0\nUUID=AAAA-0001 /efi vfat umask=0077,nofail 0 0\n")
		}, "swap-in-clear", "swap"},
		{sleepingMachine, func(m *machine) { m.UKI[0].Files = m.UKI[0].Files[:3] }, "initramfs-stale",
			"efi/EFI/Linux/6.12.5.efi"},
		{unifiedMachine, func(m *machine) {
			line := "root=ZFS=rpool/ROOT/debian ro quiet zfs_force"
			m.write("etc/kernel/cmdline", line+"\n")
			m.UKI[0].Cmdline = line
		}, "import-forced", "etc/kernel/cmdline"},
		{voidMachine, func(m *machine) { m.EFI.Order = []string{"0000", "0001", "0000"} }, "boot-order-doubled",
			"efibootmgr"},
		{voidMachine, func(m *machine) { m.Firmware.Dumps = 24 }, "firmware-dumps", "firmware"},
		{netbsdMachine, func(m *machine) {
			m.write("boot.cfg", "menu=New:load solaris;fs /ramdisk-zfsroot.fs;boot\n"+
				"menu=Backup:load solaris;load zfs;fs /ramdisk-zfsroot.fs;boot /onetbsd\n")
		}, "netbsd-modules", "boot.cfg"},
		{netbsdMachine, func(m *machine) {
			m.write("boot.cfg", "menu=New:load solaris;load zfs;fs /ramdisk-zfsroot.fs;boot\n"+
				"menu=Backup:load solaris;load zfs;boot /onetbsd\n")
		}, "netbsd-ramdisk", "boot.cfg"},
		{netbsdMachine, func(m *machine) {
			m.write("boot.cfg", "menu=A:load solaris;load zfs;fs /ramdisk-cgdroot.fs;boot\n"+
				"menu=B:load solaris;load zfs;fs /ramdisk-zfsroot.fs;boot\n")
		}, "netbsd-ramdisk", "boot.cfg"},
		{netbsdMachine, func(m *machine) {
			m.write("boot.cfg", "menu=A:load solaris;load zfs;fs /ramdisk-zfsroot.fs;boot\n"+
				"menu=B:load /stand/amd64/10.1/modules/solaris/solaris.kmod;load /stand/amd64/11.0/modules/zfs/zfs.kmod;"+
				"fs /ramdisk-zfsroot.fs;boot /onetbsd\n")
		}, "netbsd-modules-of-another-release", "boot.cfg"},
		{netbsdMachine, func(m *machine) { m.write("boot.cfg", "load=zfs\nfs=/ramdisk-zfsroot.fs\n") },
			"netbsd-modules", "boot.cfg"},
		{netbsdMachine, func(m *machine) {
			m.Blkid = map[string]map[string]string{"/dev/dk2": {"TYPE": "zfs_member", "LABEL": "rpool"},
				"/dev/dk7": {"TYPE": "zfs_member", "LABEL": "rpool"}}
		}, "netbsd-second-rpool", "/dev/dk7"},
		{netbsdMachine, func(m *machine) {
			m.pool("rpool", func(p *installed.Pool) {
				p.VDevs, p.Props["guid"] = []string{"/dev/wedges/rpool"}, "11"
			})
			m.Blkid = map[string]map[string]string{"/dev/dk2": {"TYPE": "zfs_member", "LABEL": "rpool", "UUID": "11"},
				"/dev/dk5": {"TYPE": "zfs_member", "LABEL": "rpool", "UUID": "12"}}
		}, "netbsd-second-rpool", "/dev/dk5"},
		{netbsdMachine, func(m *machine) { m.write("stand/amd64/10.1", "") },
			"netbsd-root-modules", "stand/amd64"},
		{signedMachine, func(m *machine) { m.Kernels[0].ZFSModuleKey = new("") }, "secure-boot", "firmware"},
		{signedMachine, func(m *machine) { m.Kernels[0].ZFSModuleKey = new("AB:00:CE") }, "secure-boot", "firmware"},
		{signedMachine, func(m *machine) { m.Firmware.MOK = m.Firmware.MOK[:1] }, "secure-boot", "firmware"},
		{signedMachine, func(m *machine) { m.Firmware.MOK = []installed.Certificate{} }, "secure-boot", "firmware"},
		{signedMachine, func(m *machine) { m.Kernels[0].ZFSModuleKey, m.Firmware.MOK = nil, nil }, "secure-boot",
			"firmware"},
		{signedMachine, func(m *machine) {
			m.Kernels[0].ZFSModuleKey, m.Firmware.MOK = nil, m.Firmware.MOK[:1]
		}, "secure-boot", "firmware"},
		{netbsdMachine, func(m *machine) {
			m.pool("rpool", func(p *installed.Pool) { p.Features = map[string]string{"feature@encryption": "enabled"} })
		}, "pool-features-beyond-loader", "rpool feature@encryption"},
	} {
		t.Run(fmt.Sprintf("%d %s", i, c.name), func(t *testing.T) {
			m := c.base()
			c.damage(m)
			found := check(m)
			if len(found) != 1 {
				t.Fatalf("%d findings: %+v", len(found), found)
			}
			if sent := checkSent(t, m); c.name != "passphrase-length" && !slices.Equal(sent, found) {
				t.Errorf("from the facts alone: %+v, want %+v", sent, found)
			}
			f := found[0]
			if f.Name != c.name || f.Where != c.where {
				t.Errorf("got %s at %s, want %s at %s", f.Name, f.Where, c.name, c.where)
			}
			if f.Why == "" || f.Fix == "" || f.Severity == "" {
				t.Errorf("a text is missing: %+v", f)
			}
		})
	}
}

// TestEachFindingIsTested compares the names of findings in the source with those that a system
// with one fault has in the tests.
func TestEachFindingIsTested(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var tests []byte
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tests = append(tests, text...)
		}
	}
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`l\.report\(\s*"([a-z0-9-]+)"`).FindAllSubmatch(text, -1) {
			found++
			if !bytes.Contains(tests, []byte(`"`+string(name[1])+`"`)) {
				t.Errorf("no test has a system with %s", name[1])
			}
		}
	}
	if found < 100 {
		t.Errorf("the source has only %d findings", found)
	}
}
