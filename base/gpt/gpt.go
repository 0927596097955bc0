// Package gpt reads the partition table of a disk (GPT) and chooses the partition to boot
// from by its attributes. The disk may come from a stranger.
//
// Source: UEFI Specification, chapter 5; attributes 57 to 59: gpart(8) of FreeBSD.
package gpt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"unicode/utf16"

	"bakeoff/base/fault"
)

// The attributes of a partition that choose what is booted.
const (
	BootFailed = 1 << 57
	BootOnce   = 1 << 58
	BootMe     = 1 << 59
)

// attributes are the names of the bits.
var attributes = []struct {
	bit  uint64
	name string
}{{1 << 0, "required"}, {1 << 1, "no-block-io"}, {1 << 2, "legacy-boot"}, {BootFailed, "bootfailed"},
	{BootOnce, "bootonce"}, {BootMe, "bootme"}}

// Attributes names the bits that are set; others have their number: bit-60.
func Attributes(bits uint64) []string {
	names := []string{}
	for n := range 64 {
		if bits&(1<<n) == 0 {
			continue
		}
		name := fmt.Sprintf("bit-%d", n)
		for _, a := range attributes {
			if a.bit == 1<<n {
				name = a.name
			}
		}
		names = append(names, name)
	}
	return names
}

// Partition is a partition; Offset and Size are in bytes.
type Partition struct {
	Number       int    // from 1 on
	Type, ID     string // GUIDs
	Name         string // from the table, so from a stranger
	Offset, Size int64
	Attributes   uint64
}

// sectors are the sizes of the sectors that disks have, in bytes.
var sectors = []int64{512, 4096}

// The bounds of a table that bakeoff reads.
const (
	maxEntries   = 1024
	maxEntrySize = 4096
	headerSize   = 92
)

// Read returns the partitions of a disk of size bytes, from its primary table. A disk
// without one is an error of kind fault.NotFound, a damaged table of kind fault.Invalid.
func Read(disk io.ReaderAt, size int64) ([]Partition, error) {
	for _, sector := range sectors {
		h := ReadAt(disk, sector, headerSize)
		if h != nil && string(h[:8]) == "EFI PART" {
			return readTable(disk, h, sector, size)
		}
	}
	return nil, fault.New(fault.NotFound, "the disk has no GPT")
}

// imageFormats are the beginnings of disk images that are not raw.
var imageFormats = []struct{ magic, name string }{{"QFI\xfb", "qcow2"}, {"KDMV", "VMDK"}, {"vhdxfile", "VHDX"},
	{"conectix", "VHD"}, {"<<< ", "VDI"}, {"# Disk DescriptorFile", "VMDK"}}

// ImageFormat names the format of a disk image that begins with head; "" if it may be raw.
func ImageFormat(head []byte) string {
	for _, f := range imageFormats {
		if bytes.HasPrefix(head, []byte(f.magic)) {
			return f.name
		}
	}
	return ""
}

// readTable returns the partitions of the table with the header h.
func readTable(disk io.ReaderAt, h []byte, sector, size int64) ([]Partition, error) {
	le := binary.LittleEndian
	sum := le.Uint32(h[16:])
	clear(h[16:20])
	first, count, each := le.Uint64(h[72:]), le.Uint32(h[80:]), le.Uint32(h[84:])
	switch {
	case le.Uint32(h[12:]) != headerSize || crc32.ChecksumIEEE(h) != sum:
		return nil, Damaged("the checksum of the GPT header is wrong")
	case count > maxEntries || each < 128 || each > maxEntrySize || first < 2 || first > uint64(size/sector):
		return nil, Damaged("the GPT header has impossible values: %d entries of %d bytes in sector %d", count, each, first)
	}
	entries := ReadAt(disk, int64(first)*sector, int(count*each))
	if entries == nil || crc32.ChecksumIEEE(entries) != le.Uint32(h[88:]) {
		return nil, Damaged("the checksum of the GPT entries is wrong")
	}
	parts := []Partition{}
	for i := range int(count) {
		e := entries[i*int(each):][:128]
		if bytes.Count(e[:16], []byte{0}) == 16 {
			continue // not used
		}
		from, to, sectors := le.Uint64(e[32:]), le.Uint64(e[40:]), uint64(size/sector)
		if from == 0 || from > to || to >= sectors {
			return nil, Damaged("partition %d does not lie within the disk, which has %d bytes", i+1, size)
		}
		parts = append(parts, Partition{
			Number: i + 1, Type: formatGUID(e[:16]), ID: formatGUID(e[16:32]), Name: decodeName(e[56:128]),
			Offset: int64(from) * sector, Size: int64(to-from+1) * sector, Attributes: le.Uint64(e[48:]),
		})
	}
	return parts, nil
}

// Damaged is the error for a damaged partition table.
func Damaged(format string, args ...any) error {
	return fault.WithFix(fault.New(fault.Invalid, "the partition table is damaged: "+format, args...),
		"copy the whole disk again")
}

// Boot chooses the partition to boot from: the one called name, or without a name the
// first with the attribute BOOTONCE, or else the first with BOOTME. One with the
// attribute BOOTFAILED is chosen only by its name. Errors are of kind fault.NotFound, and
// fault.Invalid if several have the name.
func Boot(parts []Partition, name string) (Partition, error) {
	if name != "" {
		named := slices.DeleteFunc(slices.Clone(parts), func(p Partition) bool { return p.Name != name })
		switch len(named) {
		case 1:
			return named[0], nil
		case 0:
			return Partition{}, fault.WithFix(fault.New(fault.NotFound, "the disk has no partition with the name %q", name),
				"use one of "+listNames(parts))
		}
		return Partition{}, fault.WithFix(fault.New(fault.Invalid, "the disk has %d partitions with the name %q", len(named),
			name), "give each partition a name of its own")
	}
	for _, bit := range []uint64{BootOnce, BootMe} {
		for _, p := range parts {
			if p.Attributes&bit != 0 && p.Attributes&BootFailed == 0 {
				return p, nil
			}
		}
	}
	return Partition{}, fault.WithFix(fault.New(fault.NotFound,
		"no partition of the disk has the attribute BOOTONCE or BOOTME"),
		"set attribute 59 of the root (sgdisk --attributes=NUMBER:set:59), or name the partition")
}

func listNames(parts []Partition) string {
	var all []string
	for _, p := range parts {
		if p.Name != "" {
			all = append(all, fmt.Sprintf("%q", p.Name))
		}
	}
	if all == nil {
		return "the attributes; no partition has a name"
	}
	return strings.Join(all, ", ")
}

// formatGUID writes a GUID as people do. Its first three parts are little-endian.
func formatGUID(b []byte) string {
	le := binary.LittleEndian
	return fmt.Sprintf("%08x-%04x-%04x-%x-%x", le.Uint32(b), le.Uint16(b[4:]), le.Uint16(b[6:]), b[8:10], b[10:16])
}

// decodeName reads a name: UTF-16 to a zero.
func decodeName(b []byte) string {
	var units []uint16
	for i := 0; i+1 < len(b); i += 2 {
		u := binary.LittleEndian.Uint16(b[i:])
		if u == 0 {
			break
		}
		units = append(units, u)
	}
	return string(utf16.Decode(units))
}

// ReadAt reads n bytes; nil if the disk does not have them.
func ReadAt(disk io.ReaderAt, offset int64, n int) []byte {
	b := make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(disk, offset, int64(n)), b); err != nil {
		return nil
	}
	return b
}
