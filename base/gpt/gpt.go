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
	t, err := read(disk, size)
	return t.parts, err
}

// table is what read found: the partitions, and where they are written.
type table struct {
	parts          []Partition
	sector         int64
	header         []byte
	entries        []byte
	entry, entryAt int64 // bytes of one, and where the first is
}

func read(disk io.ReaderAt, size int64) (table, error) {
	for _, sector := range sectors {
		h := at(disk, sector, headerSize)
		if h != nil && string(h[:8]) == "EFI PART" {
			t := table{sector: sector, header: h}
			return t, t.read(disk, size)
		}
	}
	return table{}, fault.New(fault.NotFound, "the disk has no GPT")
}

func (t *table) read(disk io.ReaderAt, size int64) error {
	le, h := binary.LittleEndian, bytes.Clone(t.header)
	sum := le.Uint32(h[16:])
	clear(h[16:20])
	first, count, each := le.Uint64(h[72:]), le.Uint32(h[80:]), le.Uint32(h[84:])
	switch {
	case le.Uint32(h[12:]) != headerSize || crc32.ChecksumIEEE(h) != sum:
		return Damaged("the header of the GPT does not have its checksum")
	case count > maxEntries || each < 128 || each > maxEntrySize || first < 2 || first > uint64(size/t.sector):
		return Damaged("the GPT has %d entries of %d bytes in sector %d", count, each, first)
	}
	t.entry, t.entryAt = int64(each), int64(first)*t.sector
	t.entries = at(disk, t.entryAt, int(count*each))
	if t.entries == nil || crc32.ChecksumIEEE(t.entries) != le.Uint32(h[88:]) {
		return Damaged("the entries of the GPT do not have their checksum")
	}
	parts := []Partition{}
	for i := range int(count) {
		e := t.entries[i*int(each):][:128]
		if bytes.Count(e[:16], []byte{0}) == 16 {
			continue // not used
		}
		from, to, sectors := le.Uint64(e[32:]), le.Uint64(e[40:]), uint64(size/t.sector)
		if from == 0 || from > to || to >= sectors {
			return Damaged("partition %d does not lie on the disk, which has %d bytes", i+1, size)
		}
		parts = append(parts, Partition{Number: i + 1, Type: guid(e[:16]), ID: guid(e[16:32]), Name: name(e[56:128]),
			Offset: int64(from) * t.sector, Size: int64(to-from+1) * t.sector, Attributes: le.Uint64(e[48:])})
	}
	t.parts = parts
	return nil
}

// Damaged is the error for a damaged partition table.
func Damaged(format string, args ...any) error {
	return fault.WithFix(fault.New(fault.Invalid, "the partition table is damaged: "+format, args...),
		"copy the whole disk again")
}

// SetAttributes replaces the attributes of a partition in the table at the beginning of a
// disk and in its copy at the end. Errors are of the kinds of Read, and fault.NotFound if
// there is no such partition.
func SetAttributes(disk interface {
	io.ReaderAt
	io.WriterAt
}, size int64, number int, bits uint64) error {
	t, err := read(disk, size)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(t.parts, func(p Partition) bool { return p.Number == number }) {
		return fault.New(fault.NotFound, "the GPT has no partition %d", number)
	}
	le := binary.LittleEndian
	le.PutUint64(t.entries[int64(number-1)*t.entry+48:], bits)
	headers := []int64{t.sector}
	// The copy is where the header says, and it need not be there.
	if copyAt := le.Uint64(t.header[32:]); copyAt > 1 && copyAt < uint64(size/t.sector) {
		headers = append(headers, int64(copyAt)*t.sector)
	}
	for _, headerAt := range slices.Backward(headers) { // the copy first, so that one is whole at any time
		h := at(disk, headerAt, headerSize)
		if h == nil || string(h[:8]) != "EFI PART" || le.Uint32(h[80:]) != le.Uint32(t.header[80:]) ||
			int64(le.Uint32(h[84:])) != t.entry {
			continue
		}
		entriesAt := le.Uint64(h[72:])
		if entriesAt < 2 || entriesAt > uint64(size/t.sector) {
			continue
		}
		if _, err := disk.WriteAt(t.entries, int64(entriesAt)*t.sector); err != nil {
			return err
		}
		le.PutUint32(h[88:], crc32.ChecksumIEEE(t.entries))
		le.PutUint32(h[16:], 0)
		le.PutUint32(h[16:], crc32.ChecksumIEEE(h))
		if _, err := disk.WriteAt(h, headerAt); err != nil {
			return err
		}
	}
	return nil
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
				"use one of "+names(parts))
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

func names(parts []Partition) string {
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

// guid writes a GUID as people do. Its first three parts are little-endian.
func guid(b []byte) string {
	le := binary.LittleEndian
	return fmt.Sprintf("%08x-%04x-%04x-%x-%x", le.Uint32(b), le.Uint16(b[4:]), le.Uint16(b[6:]), b[8:10], b[10:16])
}

// name reads a name: UTF-16 to a zero.
func name(b []byte) string {
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

// at reads n bytes; nil if the disk does not have them.
func at(disk io.ReaderAt, offset int64, n int) []byte {
	b := make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(disk, offset, int64(n)), b); err != nil {
		return nil
	}
	return b
}
