package partition

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"io"
	"strings"
	"unicode/utf16"

	"bakeoff/base/fault"
)

// Layout of a disk with one partition, in bytes: Start are in front of it, and End behind
// it, so that it begins at a whole MiB.
const (
	Start = 1 << 20
	End   = 1 << 20
)

const (
	sectorSize = 512
	entries    = 128
	entrySize  = 128
)

// WriteRoot writes a GPT for a disk whose one partition is the root of an architecture
// (amd64, arm64) and lies from Start on. size is that of the partition, a multiple of
// 512 bytes; the disk has Start and End more. disk and part are the identifiers of the
// disk and the partition. The same arguments give the same bytes.
func WriteRoot(w io.WriterAt, size int64, arch, name, disk, part string, attributes uint64) error {
	kind, known := roots[arch]
	id, err1 := parseGUID(disk)
	own, err2 := parseGUID(part)
	label := utf16.Encode([]rune(name))
	switch {
	case !known:
		return fault.New(fault.Unsupported, "the GPT has no partition type for roots of %s", arch)
	case err1 != nil || err2 != nil || size <= 0 || size%sectorSize != 0 || len(label) > 36:
		return fault.New(fault.Invalid, "a partition %q of %d bytes with the identifiers %s and %s is not possible", name,
			size, disk, part)
	}
	typ, err := parseGUID(kind)
	if err != nil {
		return err
	}
	le := binary.LittleEndian
	last := (Start+size+End)/sectorSize - 1
	table := make([]byte, entries*entrySize)
	copy(table, typ)
	copy(table[16:], own)
	le.PutUint64(table[32:], Start/sectorSize)
	le.PutUint64(table[40:], uint64(Start+size)/sectorSize-1)
	le.PutUint64(table[48:], attributes)
	for i, c := range label {
		le.PutUint16(table[56+2*i:], c)
	}
	const tableSectors = entries * entrySize / sectorSize
	header := func(at, other, tableAt int64) []byte {
		h := make([]byte, sectorSize)
		copy(h, "EFI PART")
		le.PutUint32(h[8:], 0x10000)
		le.PutUint32(h[12:], 92)
		le.PutUint64(h[24:], uint64(at))
		le.PutUint64(h[32:], uint64(other))
		le.PutUint64(h[40:], 2+tableSectors)
		le.PutUint64(h[48:], uint64(last-1-tableSectors))
		copy(h[56:], id)
		le.PutUint64(h[72:], uint64(tableAt))
		le.PutUint32(h[80:], entries)
		le.PutUint32(h[84:], entrySize)
		le.PutUint32(h[88:], crc32.ChecksumIEEE(table))
		le.PutUint32(h[16:], crc32.ChecksumIEEE(h[:92]))
		return h
	}
	mbr := make([]byte, sectorSize) // protects the disk from programs that know no GPT
	copy(mbr[446:], []byte{0, 0, 2, 0, 0xee, 0xff, 0xff, 0xff, 1, 0, 0, 0})
	le.PutUint32(mbr[458:], uint32(min(last, 1<<32-1)))
	mbr[510], mbr[511] = 0x55, 0xaa
	front := bytes.Join([][]byte{mbr, header(1, last, 2), table}, nil)
	if _, err := w.WriteAt(front, 0); err != nil {
		return err
	}
	back := append(table, header(last, 1, last-tableSectors)...)
	_, err = w.WriteAt(back, (last-tableSectors)*sectorSize)
	return err
}

// parseGUID reads a GUID as people write it.
func parseGUID(text string) ([]byte, error) {
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(b) != 16 {
		return nil, fault.New(fault.Invalid, "%q is not a GUID", text)
	}
	be, le := binary.BigEndian, binary.LittleEndian
	le.PutUint32(b, be.Uint32(b))
	le.PutUint16(b[4:], be.Uint16(b[4:]))
	le.PutUint16(b[6:], be.Uint16(b[6:]))
	return b, nil
}
