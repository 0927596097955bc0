// Package gpttest makes disks with a GPT for tests.
package gpttest

import (
	"encoding/binary"
	"hash/crc32"
	"unicode/utf16"
)

// Sector is the size of the disk's sectors, in bytes. The first partition can begin at
// sector First, and the last Tail sectors are the copy of the table.
const (
	Sector = 512
	First  = 8
	Tail   = 3
	count  = 8
)

// Part is a partition. From is a multiple of Sector, and so is the length of Content.
type Part struct {
	Name       string
	Attributes uint64
	From       int
	Content    []byte
}

// Disk returns a disk of size bytes with these partitions and two tables.
func Disk(size int, parts ...Part) []byte {
	le := binary.LittleEndian
	disk := make([]byte, size)
	entries := make([]byte, count*128)
	for i, p := range parts {
		e := entries[i*128:]
		// The type of Linux file systems: 0fc63daf-8483-4772-8e79-3d69d8477de4.
		copy(e, "\xaf\x3d\xc6\x0f\x83\x84\x72\x47\x8e\x79\x3d\x69\xd8\x47\x7d\xe4")
		e[16] = byte(i + 1) // an identifier of its own
		le.PutUint64(e[32:], uint64(p.From/Sector))
		le.PutUint64(e[40:], uint64((p.From+len(p.Content))/Sector-1))
		le.PutUint64(e[48:], p.Attributes)
		for k, u := range utf16.Encode([]rune(p.Name)) {
			le.PutUint16(e[56+2*k:], u)
		}
		copy(disk[p.From:], p.Content)
	}
	last := uint64(size/Sector - 1)
	// The protective MBR: one partition over the whole disk.
	disk[446+4] = 0xee
	le.PutUint32(disk[446+8:], 1)
	le.PutUint32(disk[446+12:], uint32(last))
	copy(disk[510:], "\x55\xaa")
	for _, at := range [][3]uint64{{1, last, 2}, {last, 1, last - 2}} { // header, the other one, entries
		h := disk[at[0]*Sector:][:92]
		copy(h, "EFI PART\x00\x00\x01\x00")
		le.PutUint32(h[12:], 92)
		le.PutUint64(h[24:], at[0])
		le.PutUint64(h[32:], at[1])
		le.PutUint64(h[40:], First)
		le.PutUint64(h[48:], last-Tail)
		h[56] = 1
		le.PutUint64(h[72:], at[2])
		le.PutUint32(h[80:], count)
		le.PutUint32(h[84:], 128)
		le.PutUint32(h[88:], crc32.ChecksumIEEE(entries))
		le.PutUint32(h[16:], crc32.ChecksumIEEE(h))
		copy(disk[at[2]*Sector:], entries)
	}
	return disk
}
