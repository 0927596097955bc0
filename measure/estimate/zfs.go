package estimate

import (
	"slices"

	"bakeoff/measure/codec"
)

// Pool is the properties of a pool that matter.
type Pool struct {
	// Ashift is the binary logarithm of the sector size: 9 for 512 bytes,
	// 12 for 4 KiB.
	Ashift int `json:"ashift"`
	// Old is a pool from before OpenZFS 0.8, such as one of zfs-fuse: the
	// maximum compressed size is rounded down to 512 bytes, and small
	// blocks are not embedded in their pointers.
	Old bool `json:"old,omitempty"`
}

// The rules of ZFS.
const (
	zfsSector   = 512
	zfsEmbedded = 112     // the compressed bytes that fit into a block pointer
	zfsAbort    = 1 << 17 // from this size on zstd tries lz4 first
)

// zfsMetadata is the size of what ZFS stores for a file in addition to its
// data, compressed, in bytes: its dnode and its name. It counts on both sides
// of the ratio that a dataset reports. The value was measured on zfs-fuse 0.7.0
// with names of ten characters, and holds approximately for OpenZFS.
const zfsMetadata = 200

// indirect is the size of the block pointers of a file with more than one
// block: 128 in a block, which compresses to about half and is stored twice.
func (z *zfsCoder) indirect(fileSize, record int64) block {
	if fileSize <= record {
		return block{}
	}
	const pointers, left = 128, 64
	var b block
	for n := (fileSize + record - 1) / record; n > 0; n -= pointers {
		size := roundUp(min(n, pointers)*left, zfsSector)
		b.physical += size
		b.allocated += 2 * roundUp(size, 1<<z.pool.Ashift)
	}
	b.logical = b.physical // metadata does not count as compressed
	return b
}

// block is the result for a record.
type block struct {
	logical, physical, allocated int64
}

// zfsCoder compresses the records of one algorithm.
type zfsCoder struct {
	Algorithm
	pool  Pool
	enc   codec.Encoder
	quick []codec.Encoder // tried first: see careful
	buf   []byte
}

func newZFS(a Algorithm, p Pool, b *batch) *zfsCoder {
	z := &zfsCoder{Algorithm: a, pool: p}
	if a.encoder != nil {
		z.enc = a.encoder(b)
	}
	for _, q := range a.careful {
		z.quick = append(z.quick, q(b))
	}
	return z
}

// writeRecord writes one record, whose length is a multiple of 512.
//
// Source: zio_compress_data and zio_write_compress of OpenZFS.
func (z *zfsCoder) writeRecord(record []byte) block {
	n := int64(len(record))
	b := block{logical: n, physical: n, allocated: roundUp(n, 1<<z.pool.Ashift)}
	if z.enc == nil {
		return b
	}
	if allZero(record) {
		return block{} // a hole: neither stored nor counted
	}
	// Compression must save an eighth.
	limit := n - n>>3
	if z.pool.Old {
		limit = limit / zfsSector * zfsSector
	}
	if limit <= int64(z.header) {
		return b
	}
	for i, q := range z.quick {
		if n < zfsAbort {
			break
		}
		out, ok := q.Encode(z.buf[:0], record, int(limit)-4)
		if z.buf = out; ok {
			break
		}
		if i == len(z.quick)-1 {
			return b
		}
	}
	out, ok := z.enc.Encode(z.buf[:0], record, int(limit)-z.header)
	z.buf = out
	size := int64(len(out) + z.header)
	if !ok || size > limit {
		return b
	}
	if size <= zfsEmbedded && !z.pool.Old {
		return block{logical: n, physical: size}
	}
	physical := roundUp(size, zfsSector)
	if !z.pool.Old {
		physical = roundUp(size, 1<<z.pool.Ashift)
	}
	if physical >= n {
		return b
	}
	return block{logical: n, physical: physical, allocated: roundUp(physical, 1<<z.pool.Ashift)}
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }

func allZero(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return c != 0 })
}

// records calls do with the records of size bytes of a file in window, which
// begins at a multiple of size. A file of one record has one as long as itself,
// rounded up to 512 bytes; the last of several is whole, padded with zeros.
// scratch holds at least size bytes.
func records(window []byte, fileSize, size int64, scratch []byte, do func([]byte)) {
	whole := size
	if fileSize <= size {
		whole = roundUp(fileSize, zfsSector)
	}
	for len(window) > 0 {
		n := min(int64(len(window)), whole)
		record := window[:n]
		if n < whole {
			record = scratch[:whole]
			clear(record[copy(record, window):])
		}
		do(record)
		window = window[n:]
	}
}
