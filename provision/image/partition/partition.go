// Package partition finds the root file system in the image of a disk: the whole disk,
// or a partition of a GPT or MBR. It only reads, and the disk may come from a stranger.
package partition

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/gpt"
	"bakeoff/base/lists"
)

// Range is a part of a disk, in bytes.
type Range struct{ Offset, Size int64 }

// Root returns the place of the ext4 file system that is the root of a disk of size
// bytes: the file system of the whole disk, the Linux partition with the attribute
// BOOTONCE, the one with the type of a root for the architecture arch, the one with the
// attribute BOOTME, or the only Linux partition. Errors are of kind fault.Invalid.
func Root(disk io.ReaderAt, size int64, arch string) (Range, error) {
	whole := Range{0, size}
	if fileSystemOf(disk, whole) == ext {
		return whole, checkExt(disk, whole)
	}
	parts, err := linuxPartitions(disk, size, arch)
	if err != nil {
		return Range{}, err
	}
	if parts == nil {
		if s := fileSystemOf(disk, whole); s != "" {
			return Range{}, unmountable(s)
		}
		if err := refuseFormat(disk); err != nil {
			return Range{}, err
		}
		return Range{}, fault.WithFix(fault.New(fault.Invalid, "the disk has neither a partition "+
			"table nor a file system that "+
			"bakeoff knows"), "name a raw or qcow2 file with an ext4 file system, a GPT or an MBR")
	}
	r, err := chooseRoot(parts)
	if err != nil {
		return r, err
	}
	if s := fileSystemOf(disk, r); s != ext {
		return r, unmountable(s)
	}
	return r, checkExt(disk, r)
}

// refuseFormat returns an error if a disk is an image in another format than raw.
func refuseFormat(disk io.ReaderAt) error {
	const head = 64
	name := gpt.ImageFormat(gpt.ReadAt(disk, 0, head))
	if name == "" {
		return nil
	}
	return fault.WithFix(fault.New(fault.Invalid, "this is a %s disk, which bakeoff does not read", name),
		"convert it: qemu-img convert -O raw FILE FILE.raw")
}

// part is a partition with Linux in it.
type part struct {
	gpt.Partition
	root   bool   // its type says that it is a root
	hidden string // why bakeoff cannot use it, although it can be the root: "is ..."
}

func (p part) byteRange() Range { return Range{p.Offset, p.Size} }

// chooseRoot returns the partition with the attribute BOOTONCE; or else the root partition, or the
// only Linux partition; of several, that with the attribute BOOTME. That attribute does not precede the type
// of a root: systemd uses the same bit for file systems that grow.
//
// Source: GPT_ENT_ATTR_BOOTME in sys/disk/gpt.h of FreeBSD; SD_GPT_FLAG_GROWFS in sd-gpt.h of systemd.
func chooseRoot(parts []part) (Range, error) {
	found := lists.Filter(parts, func(p part) bool { return p.hidden == "" })
	once := lists.Filter(found, func(p part) bool { return p.Attributes&gpt.BootOnce != 0 })
	hidden, isHidden := lists.Find(parts, func(p part) bool { return p.hidden != "" })
	if typed := lists.Filter(found, func(p part) bool { return p.root }); len(typed) > 0 {
		found, isHidden = typed, false
	}
	for _, some := range [][]part{once, found} {
		p, err := gpt.Boot(lists.Map(some, func(p part) gpt.Partition { return p.Partition }), "")
		if err == nil {
			return part{Partition: p}.byteRange(), nil
		}
	}
	if len(found) == 1 && !isHidden {
		return found[0].byteRange(), nil
	}
	numbers := lists.Map(found, func(p part) string { return fmt.Sprint(p.Number) })
	err := fault.New(fault.Invalid, "the disk has %d partitions that can be the root: %s", len(found),
		strings.Join(numbers, ", "))
	switch {
	case isHidden:
		err = fault.New(fault.Invalid, "the root of the disk can be in partition %d, which %s", hidden.Number, hidden.hidden)
	case len(found) == 0:
		err = fault.New(fault.Invalid, "the disk has no Linux partition")
	}
	fix := "copy the file system of the root into a file of its own and name that file"
	const attribute = "attribute 59 (sgdisk --attributes=NUMBER:set:59 FILE)"
	switch {
	case len(found) == 0 || found[0].Type == "": // an MBR has no such attributes
	case isHidden:
		fix = "if another Linux partition is the root, set its " + attribute + "; otherwise " + fix
	default:
		fix = "give the root the " + attribute + ", or " + fix
	}
	return Range{}, fault.WithFix(err, fix)
}

// linuxPartitions returns the Linux partitions of a disk; nil if it has no partition table.
func linuxPartitions(disk io.ReaderAt, size int64, arch string) ([]part, error) {
	all, err := readMBR(disk, size)
	if all == nil || err != nil {
		return nil, err
	}
	parts := []part{}
	for _, e := range all {
		if e.kind == protected {
			return linuxParts(disk, size, arch)
		}
		if err := within(e.Partition, size); err != nil {
			if e.kind == linuxMBR || containersMBR[e.kind] != "" {
				return nil, err
			}
			continue
		}
		other := e.isExtended() || strings.IndexByte(othersMBR, e.kind) >= 0
		if p, ok := linuxPart(disk, e.Partition, e.kind == linuxMBR, other, containersMBR[e.kind]); ok {
			parts = append(parts, p)
		}
	}
	return parts, nil
}

// within refuses a partition that does not lie on its disk.
func within(p gpt.Partition, size int64) error {
	if p.Offset <= 0 || p.Size <= 0 || p.Offset > size || p.Size > size-p.Offset {
		return gpt.Damaged("partition %d does not lie within the disk, which has %d bytes", p.Number, size)
	}
	return nil
}

// linuxParts returns the Linux partitions of a GPT.
func linuxParts(disk io.ReaderAt, size int64, arch string) ([]part, error) {
	all, err := gpt.Read(disk, size)
	if fault.Is(err, fault.NotFound) {
		return nil, gpt.Damaged("the header of the GPT is missing")
	}
	parts := []part{}
	for _, p := range all {
		name, isRoot := gpt.TypeName(p.Type), p.Type == roots[arch]
		if strings.HasPrefix(name, "Linux root") && !isRoot {
			parts = append(parts, part{p, false, fmt.Sprintf("has the type %s, not that of a root for %s", name, arch)})
			continue
		}
		other := name != "" && p.Type != windowsData
		if q, ok := linuxPart(disk, p, isRoot || p.Type == linuxData, other, containers[p.Type]); ok {
			q.root = isRoot
			parts = append(parts, q)
		}
	}
	return parts, err
}

// linuxPart tells whether a partition can be the root. Its type says that it is one with Linux, that
// it has another use, or what it holds instead of a file system. Otherwise its content decides.
func linuxPart(disk io.ReaderAt, p gpt.Partition, linux, other bool, holds string) (part, bool) {
	switch {
	case holds != "":
		return part{p, false, "contains " + holds + " by its type, and bakeoff does not read that"}, true
	case linux:
		return part{p, false, ""}, true
	case other:
		return part{}, false
	}
	switch s := fileSystemOf(disk, Range{p.Offset, p.Size}); s {
	case ext, "xfs", "btrfs", "f2fs", "squashfs", "erofs":
		return part{p, false, ""}, true
	case "LUKS", "LVM":
		return part{p, false, "contains " + s + ", and bakeoff does not read that"}, true
	}
	return part{}, false
}

// ext is the name of the file systems that guests mount: ext2, ext3 and ext4 have one
// form.
const ext = "ext4"

// ffs is the name of the file system of the BSDs, which FreeBSD calls UFS.
const ffs = "FFS"

// systems are the marks by which file systems and containers of file systems are known.
var systems = []struct {
	name, mark string
	offset     int64
}{
	{ext, "\x53\xef", 1024 + 56},
	{"xfs", "XFSB", 0}, {"btrfs", "_BHRfS_M", 0x10040}, {"f2fs", "\x10\x20\xf5\xf2", 1024}, {"squashfs", "hsqs", 0},
	{"erofs", "\xe2\xe1\xf5\xe0", 1024}, {"LUKS", "LUKS\xba\xbe", 0}, {"LVM", "LABELONE",
		512}, {"ISO 9660", "CD001", 0x8001},
	// The superblock of FFS is at 8 KiB or at 64 KiB. Source: sys/ufs/ffs/fs.h of NetBSD.
	{ffs, "\x54\x19\x01\x00", 8<<10 + 1372}, {ffs, "\x19\x01\x54\x19", 64<<10 + 1372},
	{ffs, "\x19\x01\x54\x19", 8<<10 + 1372},
	{"NTFS", "NTFS    ", 3}, {"FAT", "FAT", 54}, {"FAT", "FAT32", 82},
}

// fileSystemOf names what a range holds; "" if it is not known.
func fileSystemOf(disk io.ReaderAt, r Range) string {
	for _, s := range systems {
		if int64(len(s.mark)) <= r.Size-s.offset &&
			bytes.Equal(gpt.ReadAt(disk, r.Offset+s.offset, len(s.mark)), []byte(s.mark)) {
			return s.name
		}
	}
	return ""
}

// unmountable is the error for a root that is not ext4.
func unmountable(s string) error {
	err := fault.New(fault.Invalid, "the root of the disk contains %s, but guests of bakeoff mount "+
		"only ext4", s)
	if s == "" {
		err = fault.New(fault.Invalid,
			"the root of the disk has an unknown file system, but guests of bakeoff mount only ext4")
	}
	if s == ffs {
		return fault.WithFix(
			err,
			"boot it as the disk of the driver qemu, with its own kernel unless it has a boot loader: "+
				"kernel: FILE, disk: FILE",
		)
	}
	return fault.WithFix(err, "mount it, and write rootfs: with the folder or a tar file of it")
}

// checkExt refuses a file system that is larger than its place, which no kernel mounts.
func checkExt(disk io.ReaderAt, r Range) error {
	super := gpt.ReadAt(disk, r.Offset+1024, 1024)
	if super == nil {
		return fault.New(fault.Invalid, "the disk ends within the superblock of its file system")
	}
	le := binary.LittleEndian
	blocks, shift := uint64(le.Uint32(super[4:])), le.Uint32(super[24:])
	if le.Uint32(super[96:])&0x80 != 0 { // 64bit
		blocks |= uint64(le.Uint32(super[336:])) << 32
	}
	if shift > 6 || blocks == 0 || blocks > uint64(r.Size)>>(10+shift) {
		return fault.WithFix(fault.New(fault.Invalid, "the file system is larger than the disk or partition that "+
			"contains it (%d bytes)",
			r.Size), "copy the whole disk again")
	}
	return nil
}

// maxVirtual bounds the disk that a qcow2 file describes, in bytes.
const maxVirtual = 16 << 40

// QCOW2 tells whether a file begins as a qcow2 file. It refuses one that needs other
// files of this machine, or that is encrypted: a stranger could name any file there.
//
// Source: docs/interop/qcow2.rst of QEMU.
func QCOW2(head []byte) (bool, error) {
	if len(head) < 8 || string(head[:4]) != "QFI\xfb" {
		return false, nil
	}
	be := binary.BigEndian
	version := be.Uint32(head[4:])
	switch {
	case len(head) < 104 || version != 2 && version != 3:
		return true, fault.WithFix(fault.New(fault.Invalid, "the qcow2 file has the unsupported version %d, or "+
			"ends within its header",
			version),
			"convert it: qemu-img convert -O raw FILE FILE.raw")
	case be.Uint64(head[8:]) != 0:
		return true, fault.WithFix(fault.New(fault.Invalid, "the qcow2 file has a backing file"),
			"make one file of both: qemu-img convert -O raw FILE FILE.raw")
	case version == 3 && be.Uint64(head[72:])&4 != 0:
		return true, fault.WithFix(fault.New(fault.Invalid, "the qcow2 file has its data in another file"),
			"make one file of both: qemu-img convert -O raw FILE FILE.raw")
	case be.Uint32(head[32:]) != 0:
		return true, fault.WithFix(fault.New(fault.Invalid, "the qcow2 file is encrypted"),
			"decrypt it: qemu-img convert -O raw FILE FILE.raw")
	case be.Uint64(head[24:]) > maxVirtual:
		return true, fault.New(fault.Invalid, "the qcow2 file describes a disk of %d bytes; the limit is %d",
			be.Uint64(head[24:]), int64(maxVirtual))
	}
	return true, nil
}
