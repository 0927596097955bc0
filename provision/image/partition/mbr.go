package partition

import (
	"encoding/binary"
	"io"

	"bakeoff/base/gpt"
)

// maxLogical bounds the logical partitions of a disk, as no machine has more.
const maxLogical = 128

// mbrEntry is a partition of an MBR. Linux numbers the logical ones from 5 on.
type mbrEntry struct {
	gpt.Partition
	kind   byte
	active bool
}

// isExtended reports whether a partition contains logical partitions.
func (e mbrEntry) isExtended() bool { return e.kind == 0x05 || e.kind == 0x0f || e.kind == 0x85 }

// mbrSector reads a sector that ends as a table does; nil for another.
func mbrSector(disk io.ReaderAt, offset int64) []byte {
	b := gpt.ReadAt(disk, offset, 512)
	if b == nil || b[510] != 0x55 || b[511] != 0xaa {
		return nil
	}
	return b
}

// entryOf reads entry i of a table, whose sectors count from an offset in bytes.
func entryOf(table []byte, i int, from int64) mbrEntry {
	e := table[446+16*i:][:16]
	return mbrEntry{gpt.Partition{Number: i + 1, Offset: from + int64(binary.LittleEndian.Uint32(e[8:]))*512,
		Size: int64(binary.LittleEndian.Uint32(e[12:])) * 512}, e[4], e[0] == 0x80}
}

// readMBR returns the partitions of an MBR, the logical ones last; nil if the disk has none, or the
// sector is the boot sector of a file system. After an error, all lists those that were read.
func readMBR(disk io.ReaderAt, size int64) (all []mbrEntry, err error) {
	table := mbrSector(disk, 0)
	if table == nil {
		return nil, nil
	}
	all = []mbrEntry{}
	var extended []mbrEntry
	for i := range 4 {
		if first := table[446+16*i]; first != 0 && first != 0x80 {
			return nil, nil
		}
		e := entryOf(table, i, 0)
		if e.kind == 0 {
			continue
		}
		if all = append(all, e); e.isExtended() {
			extended = append(extended, e)
		}
	}
	for _, e := range extended {
		if all, err = readLogical(disk, size, e, all); err != nil {
			return all, err
		}
	}
	return all, nil
}

// readLogical adds the partitions in an extended partition. Each has a table with its own entry and
// that of the next table.
//
// Source: parse_extended in block/partitions/msdos.c of Linux.
func readLogical(disk io.ReaderAt, size int64, extended mbrEntry, all []mbrEntry) ([]mbrEntry, error) {
	for at, n := extended, 0; ; n++ {
		if err := within(at.Partition, size); err != nil {
			return all, err
		}
		table := mbrSector(disk, at.Offset)
		if table == nil || n == maxLogical {
			return all, gpt.Damaged("the list of logical partitions in partition %d is damaged", extended.Number)
		}
		next := mbrEntry{}
		for i := range 4 {
			e := entryOf(table, i, at.Offset)
			switch {
			case e.Size == 0 || e.kind == 0:
			case e.isExtended() && next.kind == 0:
				next = entryOf(table, i, extended.Offset)
			case !e.isExtended() && i < 2:
				e.Number = max(5, all[len(all)-1].Number+1)
				all = append(all, e)
			}
		}
		if next.kind == 0 {
			return all, nil
		}
		next.Number, at = extended.Number, next
	}
}
