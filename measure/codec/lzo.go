package codec

import (
	"encoding/binary"
	"math/bits"
)

// LZO is LZO1X-1 with Linux' hash table of 8,192 entries.
//
// Source: Documentation/staging/lzo.rst of Linux, the format, and
// lib/lzo/lzo1x_compress.c, the match finder.
type LZO struct{ last [1 << 13]int32 }

const (
	lzoMargin  = 20     // no match begins in the last bytes
	lzoStretch = 0xc000 // the maximum distance of a match: the table is kept for so long
)

// Encode compresses.
func (z *LZO) Encode(dst, src []byte, limit int) ([]byte, bool) {
	base, rest, at := len(dst), 0, 0 // rest bytes before at are not written yet
	for len(src)-at > lzoMargin {
		n := min(len(src)-at, lzoStretch)
		dst, rest = z.stretch(dst, src[at-rest:at+n], rest, base)
		at += n
		if len(dst)-base > limit {
			return dst, false
		}
	}
	if literals := src[at-rest:]; len(literals) > 0 {
		if len(dst) == base && len(literals) <= 238 {
			dst = append(append(dst, byte(17+len(literals))), literals...)
		} else {
			dst = lzoLiterals(dst, literals)
		}
	}
	dst = append(dst, 17, 0, 0)
	return dst, len(dst)-base <= limit
}

// stretch compresses src, whose first carried bytes belong to the previous
// stretch, and returns how many of its last bytes it did not write.
func (z *LZO) stretch(dst, src []byte, carried, base int) ([]byte, int) {
	clear(z.last[:])
	in := src[carried:]
	end := len(in) - lzoMargin
	done, i := 0, max(0, 4-carried) // what is written; where it looks
	lead := carried                 // bytes before in that are not written
	i += 1 + (i-done)>>5
	for i < end {
		v := binary.LittleEndian.Uint32(in[i:])
		h := v * 0x1824429d >> (32 - 13) & (1<<13 - 1)
		at := int(z.last[h])
		z.last[h] = int32(i)
		if v != binary.LittleEndian.Uint32(in[at:]) {
			i += 1 + (i-done)>>5
			continue
		}
		if literals := src[carried+done-lead : carried+i]; len(literals) > 0 {
			// Only at the end does the very first instruction have
			// a special form; here the plain one is right.
			dst = lzoLiterals(dst, literals)
		}
		lead = 0
		n := lzoMatch(in, at, i, end)
		dst = lzoCopy(dst, n, i-at)
		i += n
		done = i
	}
	return dst, len(in) - done + lead
}

// lzoMatch is the length of the match of four bytes or more between i and at.
// It compares eight bytes at a time, as 64-bit machines do, so it may read up
// to seven bytes beyond end.
func lzoMatch(in []byte, at, i, end int) int {
	for n := 4; ; {
		if v := binary.LittleEndian.Uint64(in[at+n:]) ^ binary.LittleEndian.Uint64(in[i+n:]); v != 0 {
			return n + bits.TrailingZeros64(v)/8
		}
		if n += 8; i+n >= end {
			return n
		}
	}
}

// lzoLiterals writes literal bytes. The previous instruction counts up to
// three.
func lzoLiterals(dst, b []byte) []byte {
	switch n := len(b); {
	case n <= 3:
		dst[len(dst)-2] |= byte(n)
	case n <= 18:
		dst = append(dst, byte(n-3))
	default:
		dst = lzoLength(append(dst, 0), n-18)
	}
	return append(dst, b...)
}

func lzoLength(dst []byte, n int) []byte {
	for ; n > 255; n -= 255 {
		dst = append(dst, 0)
	}
	return append(dst, byte(n))
}

// lzoCopy writes a copy of n bytes from offset back.
func lzoCopy(dst []byte, n, offset int) []byte {
	if n <= 8 && offset <= 0x800 {
		offset--
		return append(dst, byte((n-1)<<5|offset&7<<2), byte(offset>>3))
	}
	long := func(marker byte, most int) {
		if n <= most {
			dst = append(dst, marker|byte(n-2))
			return
		}
		dst = lzoLength(append(dst, marker), n-most)
	}
	if offset <= 0x4000 {
		offset--
		long(32, 33)
	} else {
		offset -= 0x4000
		long(16|byte(offset>>11&8), 9)
	}
	return append(dst, byte(offset<<2), byte(offset>>6))
}
