//go:build linux

// Package bootdisk makes systems for tests that the driver qemu did not make: a RAM disk
// whose init is a script of busybox that starts the agent, and a disk with GRUB, which
// boots by BIOS and by UEFI. It does what a user does who brings a guest.
package bootdisk

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"bakeoff/provision/guest"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/wire"
)

// Kernel is what the systems are made from.
type Kernel struct {
	Image   string // bzImage
	Modules string // directory with lib/modules/VERSION
	Agent   string // on this machine; it is copied
}

// Lacks returns the first program that is missing to make a disk, and the package that
// provides it; "" if nothing is.
func Lacks() (what, pkg string) {
	for _, p := range [][2]string{{"busybox", "busybox-static"}, {"cpio", "cpio"}, {"grub-mkimage", "grub-common"},
		{"mformat", "mtools"}} {
		if _, err := exec.LookPath(p[0]); err != nil {
			return p[0], p[1]
		}
	}
	for _, p := range [][2]string{{pc, "grub-pc-bin"}, {efi, "grub-efi-amd64-bin"}} {
		if _, err := os.Stat(p[0] + "/moddep.lst"); err != nil {
			return p[0], p[1]
		}
	}
	return "", ""
}

// The folders with GRUB.
const (
	pc  = "/usr/lib/grub/i386-pc"
	efi = "/usr/lib/grub/x86_64-efi"
)

// start is the init of the system. With a network card it serves a page, the number of sectors
// of its disk, and the first MiB of a second disk. Its agent dials, as in a guest without ports
// of a virtio console; without a card it serves the port.
const start = `#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mkdir -p /dev /proc /sys /tmp /etc
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
for m in /modules/*; do insmod $m; done
ip link set lo up
if [ -d /sys/class/net/eth0 ]; then
	ip address add 10.0.2.15/24 dev eth0
	ip link set eth0 up
	mkdir /www; echo a page >/www/index.html; cp /sys/block/vda/size /www/sectors
	[ -e /dev/vdb ] && dd if=/dev/vdb of=/www/second bs=64k count=16
	httpd -h /www
	while :; do nc 10.0.2.100 7311 -e /.bakeoff/agent serve -; sleep 1; done
fi
for p in /sys/class/virtio-ports/*; do
	[ "$(cat $p/name)" = bakeoff ] && /.bakeoff/agent serve /dev/${p##*/}
done
echo no way to the host
`

// CommandLine is what the kernel of the system needs. It writes to the serial line and
// restarts if it panics.
const CommandLine = "rdinit=/start console=ttyS0 panic=-1 reboot=t cryptomgr.notests"

// RAMDisk writes the system to file.
func RAMDisk(ctx context.Context, k Kernel, file string) error {
	dir, err := os.MkdirTemp("", "ramdisk")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// bakeoff's RAM disk brings the modules; its init is not started.
	base := filepath.Join(dir, "base")
	q, err := json.Marshal(wire.InitramfsRequest{Kernel: k.Image, Modules: k.Modules, Agent: k.Agent, Out: base,
		Wanted: []string{"virtio_mmio", "virtio_pci", "virtio_console", "virtio_blk", "virtio_net"},
		Config: wire.InitConfig{Schema: wire.InitSchema}})
	if err != nil {
		return err
	}
	script := `set -e; cd "$1"
"$2" initramfs <<Q >made
$3
Q
mkdir -p root/bin root/.bakeoff; cp "$4" root/bin/busybox; cp "$2" root/.bakeoff/agent
printf %s "$5" >root/start; chmod 755 root/start
(cd root; find . | cpio --quiet -o -H newc) >more
cat base more >"$6"`
	box, err := exec.LookPath("busybox")
	if err != nil {
		return err
	}
	return guest.Run(ctx, local.Conn{}, "sh", "-c", script, "sh", dir, k.Agent, string(q), box, start, file)
}

// size is that of the disk, of which the first MiB is GRUB's.
const size = 96 << 20

// Disk writes a raw disk with the system to file: a master boot record, GRUB for a BIOS
// behind it, and a FAT partition with GRUB for UEFI, the kernel and the RAM disk.
func Disk(ctx context.Context, k Kernel, file string) error {
	dir, err := os.MkdirTemp("", "bootdisk")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := RAMDisk(ctx, k, filepath.Join(dir, "initrd")); err != nil {
		return err
	}
	menu := fmt.Sprintf("serial --unit=0\nterminal_output serial\nsearch --file /initrd --set=root\n"+
		"echo starting the kernel\nlinux /vmlinuz %s\ninitrd /initrd\nboot\n", CommandLine)
	if err := os.WriteFile(filepath.Join(dir, "menu"), []byte(menu), 0o600); err != nil {
		return err
	}
	modules := "part_msdos fat linux normal serial terminal search search_fs_file echo boot"
	script := `set -e; cd "$1"
grub-mkimage -O i386-pc -d ` + pc + ` -p /grub -c menu -o core.img biosdisk ` + modules + `
grub-mkimage -O x86_64-efi -d ` + efi + ` -p /grub -c menu -o efi.img ` + modules + `
truncate -s $(($4 - 1048576)) part
mformat -i part -F ::
mmd -i part ::/EFI ::/EFI/BOOT
mcopy -i part efi.img ::/EFI/BOOT/BOOTX64.EFI
mcopy -i part "$3" ::/vmlinuz
mcopy -i part initrd ::/initrd
rm -f "$2"; truncate -s "$4" "$2"
dd if=part of="$2" bs=1M seek=1 conv=notrunc,sparse status=none
dd if=core.img of="$2" bs=512 seek=1 conv=notrunc status=none
dd if=` + pc + `/boot.img of="$2" bs=440 count=1 conv=notrunc status=none`
	if err := guest.Run(ctx, local.Conn{}, "sh", "-c", script, "sh", dir, file, k.Image, fmt.Sprint(size)); err != nil {
		return err
	}
	return partition(file, efiSystem, size)
}

// Whole writes a raw disk to file: a master boot record, GRUB for a BIOS, which executes menu,
// and a partition with the ext4 file system that is in the file part, of whole MiB.
func Whole(ctx context.Context, part, menu, file string) error {
	info, err := os.Stat(part)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bootdisk")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "menu"), []byte(menu), 0o600); err != nil {
		return err
	}
	script := `set -e; cd "$1"
grub-mkimage -O i386-pc -d ` + pc + ` -p /grub -c menu -o core.img biosdisk part_msdos ext2 linux normal boot
truncate -s "$4" "$2"
dd if="$3" of="$2" bs=1M seek=1 conv=notrunc,sparse status=none
dd if=core.img of="$2" bs=512 seek=1 conv=notrunc status=none
dd if=` + pc + `/boot.img of="$2" bs=440 count=1 conv=notrunc status=none`
	whole := info.Size() + 1<<20
	if err := guest.Run(ctx, local.Conn{}, "sh", "-c", script, "sh", dir, file, part, fmt.Sprint(whole)); err != nil {
		return err
	}
	return partition(file, linux, whole)
}

// Types of partitions.
const (
	efiSystem = 0xef
	linux     = 0x83
)

// partition writes the one entry of the partition table: a partition from the second MiB to the
// end of a disk of size bytes.
func partition(file string, kind byte, size int64) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	entry := []byte{0x80, 0xfe, 0xff, 0xff, kind, 0xfe, 0xff, 0xff}
	for _, v := range []uint32{1 << 11, uint32(size>>9) - 1<<11} { // first sector, number of sectors
		entry = append(entry, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
	}
	if _, err = f.WriteAt(entry, 446); err == nil {
		_, err = f.WriteAt([]byte{0x55, 0xaa}, 510)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
