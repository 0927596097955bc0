package plan

import (
	"slices"
	"strings"

	"bakeoff/prepare/install/spec"
)

// usesGRUB reports whether GRUB starts the system: Debian 12 has no ukify.
func usesGRUB(s *spec.Spec) bool {
	return s.Recipe == "debian-zfs" && s.Release == "bookworm" && s.Bootloader.File == ""
}

// usesUKI reports whether a unified kernel image starts the system.
func usesUKI(s *spec.Spec) bool {
	return s.Recipe == "debian-zfs" && s.Bootloader.File == "" && !usesGRUB(s)
}

// bootPool is the pool that GRUB reads. It holds /boot, is not encrypted, and uses only
// features that GRUB 2.06 knows.
const bootPool = "bpool"

// grubFeatures are those that GRUB 2.06 reads, the set grub2 of OpenZFS 2.1. Later versions
// of OpenZFS have a larger set of that name, so they are named one by one.
var grubFeatures = strings.Fields(`async_destroy bookmarks embedded_data empty_bpobj enabled_txg extensible_dataset
	filesystem_limits hole_birth large_blocks lz4_compress spacemap_histogram`)

// makeBootPool makes the pool for GRUB, and mounts it at /boot. Its first dataset is never
// mounted, and must never have a snapshot, which GRUB 2.06 cannot read.
func (r *recipe) makeBootPool() {
	const top, set = bootPool + "/BOOT", bootPool + "/BOOT/debian"
	devices := r.poolDevices(partBoot)
	argv := []string{"zpool", "create", "-f", "-d", "-o", "ashift=12", "-o", "autotrim=on", "-o",
		"compatibility=grub2"}
	for _, f := range grubFeatures {
		argv = append(argv, "-o", "feature@"+f+"=enabled")
	}
	argv = append(argv, "-O", "compression=lz4", "-O", "acltype=posixacl", "-O", "xattr=sa", "-O", "relatime=on", "-O",
		"devices=off", "-O", "canmount=off", "-m", "none", "-R", target, bootPool)
	r.poolOf("boot-pool", "create the pool that GRUB reads", bootPool, devices, slices.Concat(argv, vdevs(devices)))
	r.dataset("dataset-boot-top", "keep snapshots off the first dataset, which GRUB cannot read with one", top,
		"mountpoint=none", "canmount=off")
	r.dataset("dataset-boot", "hold kernels; this mounts it too", set, "mountpoint=/boot")
	r.mountSet("mount-boot", "mount it, if it is not", set)
}

// installGRUB installs GRUB on the ESP, also as EFI/BOOT/BOOTX64.EFI, and writes its menu.
func (r *recipe) installGRUB() {
	const file = `\EFI\debian\grubx64.efi`
	r.assert("grub-reads", "see that GRUB reads the pool with /boot", "chroot", target, "grub-probe", "--target=fs",
		"/boot").
		expect("zfs").Local = true
	install := []string{"grub-install", "--target=x86_64-efi", "--efi-directory=/boot/efi", "--no-nvram"}
	r.in("loader", "install GRUB", append(install, "--bootloader-id=debian")...).
		check("find", target+"/boot/efi/EFI/debian", "-name", "grubx64.efi").expect("grubx64.efi").Redo = true
	r.in("loader-fallback", "install it also where firmware looks without an entry", append(install, "--removable")...).
		check("find", target+"/boot/efi/EFI/BOOT", "-name", "BOOTX64.EFI").expect("BOOTX64.EFI").Redo = true
	r.in("grub-menu", "write the menu", "update-grub").
		check("grep", "-m1", "root=ZFS="+pool+"/ROOT/debian", target+"/boot/grub/grub.cfg").
		expect("root=ZFS=" + pool + "/ROOT/debian").replaces()
	r.syncESPs()
	r.secondEntry("debian", file)
	r.entry("entry", "debian", file, r.Drives()[0])
}
