// Package partition finds the root file system in the image of a disk: the whole disk,
// or a partition of a GPT or MBR. It only reads, and the disk may come from a stranger.
package partition

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/gpt"
	"bakeoff/base/lists"
)

// Range is a part of a disk, in bytes.
type Range struct{ Offset, Size int64 }

// The types of partitions, as they are written in a GPT.
const (
	linuxData = "0fc63daf-8483-4772-8e79-3d69d8477de4"
	linuxMBR  = 0x83
	protected = 0xee // the entry in an MBR that stands for a GPT
)

// roots are the types of root partitions by GOARCH.
//
// Source: UAPI Group, Discoverable Partitions Specification.
var roots = map[string]string{
	"amd64":   "4f68bce3-e8cd-4db1-96e7-fbcaf984b709",
	"arm64":   "b921b045-1df0-41c3-af44-4c6f280d3fae",
	"386":     "44479540-f297-41b2-9af7-d131d5f0458a",
	"arm":     "69dad710-2ce4-4e3c-b16c-21a1d49abed3",
	"riscv64": "72ec70a6-cf74-40e6-bd49-4bda08e8f224",
	"s390x":   "5eead9a9-fe09-4a1e-a1d7-520d00531306",
	"ppc64le": "c31c45e6-3f39-412e-80fb-4809c4980599",
}

// Root returns the place of the ext4 file system that is the root of a disk of size
// bytes: the file system of the whole disk, the Linux partition with the attribute
// BOOTONCE or BOOTME, the one with the type of a root for the architecture arch, or the
// only Linux partition. Errors are of kind fault.Invalid.
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

// part is a partition with Linux in it.
type part struct {
	gpt.Partition
	root bool // its type says that it is a root
}

func (p part) byteRange() Range { return Range{p.Offset, p.Size} }

// chooseRoot returns the partition that the attributes of the GPT name: BOOTONCE before
// BOOTME; or the root partition; or else the only Linux partition.
func chooseRoot(parts []part) (Range, error) {
	if p, err := gpt.Boot(lists.Map(parts, func(p part) gpt.Partition { return p.Partition }), ""); err == nil {
		return part{Partition: p}.byteRange(), nil
	}
	found := slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return !p.root })
	if len(found) == 0 {
		found = parts
	}
	if len(found) == 1 {
		return found[0].byteRange(), nil
	}
	numbers := lists.Map(found, func(p part) string { return fmt.Sprint(p.Number) })
	err := fault.New(fault.Invalid, "the disk has %d partitions that can be the root: %s", len(found),
		strings.Join(numbers, ", "))
	if len(found) == 0 {
		err = fault.New(fault.Invalid, "the disk has no Linux partition")
	}
	return Range{}, fault.WithFix(err, "copy the file system of the root into a file of its own and name that file")
}

// linuxPartitions returns the Linux partitions of a disk; nil if it has no partition table.
func linuxPartitions(disk io.ReaderAt, size int64, arch string) ([]part, error) {
	mbr := gpt.ReadAt(disk, 0, 512)
	if mbr == nil || mbr[510] != 0x55 || mbr[511] != 0xaa {
		return nil, nil
	}
	parts := []part{}
	for i := range 4 {
		e := mbr[446+16*i:][:16]
		switch {
		case e[0] != 0 && e[0] != 0x80: // the boot sector of a file system, not a table
			return nil, nil
		case e[4] == protected:
			return linuxParts(disk, size, arch)
		case e[4] == linuxMBR:
			p := entryOf(i+1, e)
			if err := p.within(size); err != nil {
				return nil, err
			}
			parts = append(parts, p)
		}
	}
	return parts, nil
}

// entryOf reads an entry of an MBR.
func entryOf(number int, e []byte) part {
	return part{Partition: gpt.Partition{Number: number, Offset: int64(binary.LittleEndian.Uint32(e[8:])) * 512,
		Size: int64(binary.LittleEndian.Uint32(e[12:])) * 512}}
}

// within refuses a partition that does not lie on its disk.
func (p part) within(size int64) error {
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
		if p.Type == linuxData || p.Type == roots[arch] {
			parts = append(parts, part{p, p.Type == roots[arch]})
		}
	}
	return parts, err
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
