package disk

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
)

// file is what SetTimes changes.
type file interface {
	io.ReaderAt
	io.WriterAt
}

// The features of ext4 with which the bytes of an inode have a checksum, or group
// descriptors another place.
const (
	metadataChecksums = 0x400  // read-only compatible
	metaBlockGroups   = 0x10   // incompatible
	has64Bit          = 0x80   // incompatible
	extMagic          = 0xef53 // of the superblock
)

// SetTimes gives all inodes of an ext4 file system, which begins at offset, the same
// times: those of access, change, modification and creation. The file system has no
// checksums of metadata.
//
// Source: Documentation/filesystems/ext4 of Linux (super.rst, group_descr.rst,
// inodes.rst).
func SetTimes(f file, offset int64, seconds uint32) error {
	super := make([]byte, 1024)
	if _, err := f.ReadAt(super, offset+1024); err != nil {
		return err
	}
	le := binary.LittleEndian
	block := int64(1024) << min(le.Uint32(super[24:]), 6)
	perGroup, inodeSize := int64(le.Uint32(super[40:])), int64(le.Uint16(super[88:]))
	inodes := int64(le.Uint32(super[0:]))
	incompatible := le.Uint32(super[96:])
	descriptor := int64(32)
	if incompatible&has64Bit != 0 {
		descriptor = int64(le.Uint16(super[254:]))
	}
	if le.Uint16(super[56:]) != extMagic || perGroup == 0 || inodeSize < 128 || inodeSize > block || descriptor < 32 ||
		descriptor > 1024 || incompatible&metaBlockGroups != 0 || le.Uint32(super[100:])&metadataChecksums != 0 {
		return errors.New("mke2fs created a different file system than the requested ext4")
	}
	table := int64(le.Uint32(super[20:])+1) * block // the block after the superblock
	group := make([]byte, descriptor)
	for g := int64(0); g*perGroup < inodes; g++ {
		if _, err := f.ReadAt(group, offset+table+g*descriptor); err != nil {
			return err
		}
		at := int64(le.Uint32(group[8:]))
		if descriptor >= 64 {
			at |= int64(le.Uint32(group[40:])) << 32
		}
		if err := sameTimesOf(f, offset+at*block, min(perGroup, inodes-g*perGroup), inodeSize, seconds); err != nil {
			return err
		}
	}
	return nil
}

// inodeTimes are the offsets of times in an inode, and inodeFractions those of their
// nanoseconds, of which the last two exist only in large inodes.
var (
	inodeTimes     = []int64{8, 12, 16}
	inodeFractions = []int64{132, 136, 140, 148}
)

const inodeCreated = 144

// sameTimesOf changes a table of inodes.
func sameTimesOf(f file, at, count, size int64, seconds uint32) error {
	le := binary.LittleEndian
	table := make([]byte, count*size)
	if _, err := f.ReadAt(table, at); err != nil {
		return err
	}
	for inode := range slices.Chunk(table, int(size)) {
		if le.Uint16(inode) == 0 && le.Uint16(inode[26:]) == 0 {
			continue // not used
		}
		for _, o := range inodeTimes {
			le.PutUint32(inode[o:], seconds)
		}
		if size < 160 {
			continue
		}
		for _, o := range inodeFractions {
			le.PutUint32(inode[o:], 0)
		}
		le.PutUint32(inode[inodeCreated:], seconds)
	}
	_, err := f.WriteAt(table, at)
	return err
}
