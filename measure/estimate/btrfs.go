package estimate

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"

	"bakeoff/base/lists"
	"bakeoff/measure/codec"
)

// The rules of btrfs.
const (
	btrfsSector = 4096
	btrfsInline = 2048    // max_inline: the maximum size of data in the tree, next to the inode
	btrfsChunk  = 1 << 17 // the unit of compression
	btrfsAsync  = 1 << 19 // the part of a file for one kernel thread
)

// btrfsCoder compresses the extents of one algorithm.
type btrfsCoder struct {
	Algorithm
	enc   codec.Encoder
	force bool
	buf   []byte
	btrfsFile
}

// btrfsFile is the state within a file.
type btrfsFile struct {
	// bailed is the end of the part of the file that is not compressed,
	// because an earlier piece was not worthwhile or did not compress.
	bailed int64
	// given is set once a part of a file did not compress: the rest of the
	// file is then not compressed. In the kernel this depends on the order
	// of its threads; here the parts follow each other.
	given bool
}

func newBtrfs(a Algorithm, force bool, asked *batch) *btrfsCoder {
	b := &btrfsCoder{Algorithm: a, force: force}
	if a.encoder != nil {
		b.enc = a.encoder(asked)
	}
	return b
}

// beginFile is called before each file.
func (b *btrfsCoder) beginFile() { b.btrfsFile = btrfsFile{} }

// storeExtent stores up to 128 KiB of a file of fileSize bytes, from its offset at.
//
// Source: compress_file_range, cow_file_range_inline and
// btrfs_compress_heuristic of Linux 6.
func (b *btrfsCoder) storeExtent(data []byte, at, fileSize int64) block {
	n := int64(len(data))
	plain := block{logical: roundUp(n, btrfsSector), physical: roundUp(n, btrfsSector), allocated: roundUp(n, btrfsSector)}
	whole := at == 0 && n == fileSize
	if whole && n <= btrfsInline {
		plain = block{logical: n, physical: n, allocated: n}
	}
	if b.enc == nil || b.given && !b.force || at < b.bailed || n <= btrfsSector && !whole {
		return plain
	}
	b.bailed = (at/btrfsAsync + 1) * btrfsAsync
	if !b.force && !worthwhile(data) {
		return plain
	}
	out, ok := b.enc.Encode(b.buf[:0], data, len(data)-1)
	b.buf = out
	size := int64(len(out))
	if ok && whole && n <= btrfsSector && size <= btrfsInline {
		return block{logical: n, physical: size, allocated: size}
	}
	size = roundUp(size, btrfsSector)
	if !ok || size+btrfsSector > roundUp(n, btrfsSector) {
		b.given = true
		return plain
	}
	b.bailed = 0
	return block{logical: roundUp(n, btrfsSector), physical: size, allocated: size}
}

// worthwhile samples data as the kernel does before it compresses: repeated
// patterns, few different bytes or a low entropy make compression worthwhile.
func worthwhile(data []byte) bool {
	const every, width = 256, 16
	sample := make([]byte, 0, btrfsChunk/every*width) // zeros where nothing is appended
	for i := 0; i < len(data); i += every {
		sample = append(sample, data[i:min(i+width, len(data))]...)
	}
	// The sample includes the rest of the last page behind the end of the
	// file.
	sample = sample[:roundUp(int64(len(data)), btrfsSector)/every*width]
	half := len(sample) / 2
	if bytes.Equal(sample[:half], sample[half:2*half]) {
		return true
	}
	var count [256]int
	for _, c := range sample {
		count[c]++
	}
	slices.SortFunc(count[:], func(a, b int) int { return b - a })
	different := 0
	for different < len(count) && count[different] > 0 {
		different++
	}
	if different < 64 {
		return true
	}
	// How many different bytes make up nine tenths?
	core, sum := 0, 0
	for core < different && sum <= len(sample)*9/10 {
		sum += count[core]
		core++
	}
	switch {
	case core <= 65:
		return true
	case core > 200:
		return false
	}
	return entropy(count[:different], len(sample)) < 80
}

// entropy is Shannon's, in percent of eight bits, with the kernel's logarithm
// in steps of a quarter.
func entropy(count []int, total int) int {
	log := func(n int) int { return bits.Len64(uint64(n)*uint64(n)*uint64(n)*uint64(n)) - 1 }
	sum := lists.Sum(count, func(n int) int { return n * (log(total) - log(n)) })
	return sum / total * 100 / (8 * 4)
}

// lzoSegments compresses each sector separately, preceded by its length; the
// total length precedes all. The length of a segment does not cross the end of
// a sector.
//
// Source: the head of fs/btrfs/lzo.c.
type lzoSegments struct {
	lzo codec.LZO
}

const lzoWord = 4

// Encode compresses. The result may exceed limit if it needs no more sectors: a
// small file that grows is still inline.
func (s *lzoSegments) Encode(dst, src []byte, _ int) ([]byte, bool) {
	base := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	for at := 0; at < len(src); at += btrfsSector {
		segment := src[at:min(len(src), at+btrfsSector)]
		if left := btrfsSector - (len(dst)-base)%btrfsSector; left < lzoWord {
			dst = append(dst, make([]byte, left)...)
		}
		head := len(dst)
		dst, _ = s.lzo.Encode(append(dst, 0, 0, 0, 0), segment, 2*btrfsSector)
		binary.LittleEndian.PutUint32(dst[head:], uint32(len(dst)-head-lzoWord))
		if in := at + len(segment); in > 2*btrfsSector && in < len(dst)-base {
			return dst, false
		}
	}
	binary.LittleEndian.PutUint32(dst[base:], uint32(len(dst)-base))
	return dst, int64(len(dst)-base) <= roundUp(int64(len(src)), btrfsSector)
}
