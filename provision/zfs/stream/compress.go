package stream

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"io"
	"iter"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// The compressions of blocks (enum zio_compress).
const (
	inherit  = 0
	off      = 2
	lzjb     = 3
	gzip1    = 5
	gzip9    = 13
	zle      = 14
	lz4Block = 15
	zstdAny  = 16
)

// expand decompresses a block of length bytes. The result may be b itself.
func expand(b []byte, length int, compression byte) ([]byte, error) {
	out := make([]byte, length)
	var n int
	var err error
	switch {
	case compression == inherit || compression == off:
		n, out = len(b), b
	case compression == lzjb:
		n = unpackLZJB(out, b)
	case compression >= gzip1 && compression <= gzip9:
		n, err = unpackZlib(out, b)
	case compression == zle:
		n = unpackZLE(out, b)
	case compression == lz4Block:
		// The block follows its length, as the file system writes it.
		if len(b) < 4 || uint64(binary.BigEndian.Uint32(b)) > uint64(len(b)-4) {
			return nil, damaged("a block of lz4 is damaged")
		}
		n, err = lz4.UncompressBlock(b[4:4+binary.BigEndian.Uint32(b)], out)
	case compression == zstdAny:
		n, err = unpackZstd(out, b)
	default:
		return nil, unsupported("its compression %d is not known", compression)
	}
	if err != nil {
		return nil, damaged("a compressed block: %v", err)
	}
	if n != length {
		return nil, damaged("a block has %d of %d bytes", n, length)
	}
	return out, nil
}

func unpackZlib(out, b []byte) (int, error) {
	r, err := zlib.NewReader(bytes.NewReader(b))
	if err != nil {
		return 0, err
	}
	return io.ReadFull(r, out)
}

// decoder1 decodes blocks of zstd. Blocks are small, and it starts no goroutines.
var decoder1, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(2*maxBlock))

// unpackZstd decodes a frame without its magic number, after its length and its level.
//
// Source: OpenZFS, module/zstd/zfs_zstd.c (zfs_zstdhdr_t).
func unpackZstd(out, b []byte) (int, error) {
	if len(b) < 8 || uint64(binary.BigEndian.Uint32(b)) > uint64(len(b)-8) {
		return 0, damaged("its header is wrong")
	}
	frame := append([]byte{0x28, 0xB5, 0x2F, 0xFD}, b[8:8+binary.BigEndian.Uint32(b)]...)
	got, err := decoder1.DecodeAll(frame, out[:0])
	if err != nil || len(got) > len(out) {
		return len(got), err
	}
	return copy(out, got), nil
}

// unpackZLE decodes runs of zeros and returns how many bytes there were.
//
// Source: OpenZFS, module/zfs/zle.c, with the level 64 of a pool.
func unpackZLE(out, b []byte) int {
	n := 0
	for len(b) > 0 && n < len(out) {
		length := int(b[0]) + 1
		b = b[1:]
		if length > 64 {
			n += min(length-64, len(out)-n)
			continue
		}
		got := copy(out[n:], b[:min(length, len(b))])
		n, b = n+got, b[got:]
	}
	return n
}

// unpackLZJB returns how many bytes there were.
//
// Source: OpenZFS, module/zfs/lzjb.c.
func unpackLZJB(out, b []byte) int {
	const matchBits, matchMin = 6, 3
	n, mask := 0, 0
	var control byte
	for n < len(out) {
		if mask <<= 1; mask == 0 || mask > 0x80 {
			if len(b) == 0 {
				return n
			}
			mask, control, b = 1, b[0], b[1:]
		}
		if control&byte(mask) == 0 {
			if len(b) == 0 {
				return n
			}
			out[n], b = b[0], b[1:]
			n++
			continue
		}
		if len(b) < 2 {
			return n
		}
		length := int(b[0]>>(8-matchBits)) + matchMin
		back := (int(b[0])<<8 | int(b[1])) & (1<<(16-matchBits) - 1)
		b = b[2:]
		if back == 0 || back > n {
			return n
		}
		for ; length > 0 && n < len(out); length-- {
			out[n] = out[n-back]
			n++
		}
	}
	return n
}

// bytesChunks yields the parts of b with size bytes each; what is left is not yielded.
func bytesChunks(b []byte, size int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for ; len(b) >= size; b = b[size:] {
			if !yield(b[:size]) {
				return
			}
		}
	}
}
