package codec

import "encoding/binary"

// LZ4 is the fast compressor of the LZ4 block format with the table sizes of
// ZFS: 8,192 entries for records below 64 KiB, otherwise 4,096.
//
// Source: LZ4 block format; lz4.c of OpenZFS.
type LZ4 struct{ last [1 << 13]int32 }

const (
	lz4Min       = 4
	lz4LastBytes = 5  // the last bytes are literals
	lz4Margin    = 12 // and no match begins in the last twelve
	lz4Window    = 1<<16 - 1
)

// Encode compresses.
func (z *LZ4) Encode(dst, src []byte, limit int) ([]byte, bool) {
	bits := 12
	if len(src) < 1<<16+lz4Margin-1 {
		bits = 13
	}
	clear(z.last[:])
	hash := func(i int) uint32 { return binary.LittleEndian.Uint32(src[i:]) * 2654435761 >> (32 - bits) }
	base, anchor := len(dst), 0
	if len(src) > lz4Margin {
		z.last[hash(0)] = 0
		for i := 1; ; {
			// The longer nothing is found, the larger the steps.
			at, step, tries := 0, 1, 1<<6+3
			for next := i; ; {
				i = next
				step = tries >> 6
				tries++
				if next += step; next > len(src)-lz4Margin {
					return lz4Tail(dst, src[anchor:], base, limit)
				}
				h := hash(i)
				at = int(z.last[h])
				z.last[h] = int32(i)
				if at < i && i-at <= lz4Window && binary.LittleEndian.Uint32(src[at:]) == binary.LittleEndian.Uint32(src[i:]) {
					break
				}
			}
			for i > anchor && at > 0 && src[i-1] == src[at-1] {
				i, at = i-1, at-1
			}
			for {
				n := lz4Min
				for i+n < len(src)-lz4LastBytes && src[i+n] == src[at+n] {
					n++
				}
				dst = lz4Sequence(dst, src[anchor:i], i-at, n-lz4Min)
				if len(dst)-base > limit {
					return dst, false
				}
				i += n
				anchor = i
				if i > len(src)-lz4Margin {
					return lz4Tail(dst, src[anchor:], base, limit)
				}
				z.last[hash(i-2)] = int32(i - 2)
				h := hash(i)
				at = int(z.last[h])
				z.last[h] = int32(i)
				if at >= i || i-at > lz4Window || binary.LittleEndian.Uint32(src[at:]) != binary.LittleEndian.Uint32(src[i:]) {
					break
				}
			}
			i++
		}
	}
	return lz4Tail(dst, src[anchor:], base, limit)
}

// lz4Sequence writes literals and a copy of n+4 bytes.
func lz4Sequence(dst, literals []byte, offset, n int) []byte {
	dst = append(dst, byte(min(len(literals), 15)<<4|min(n, 15)))
	dst = lz4Length(dst, len(literals))
	dst = append(dst, literals...)
	dst = append(dst, byte(offset), byte(offset>>8))
	return lz4Length(dst, n)
}

func lz4Length(dst []byte, n int) []byte {
	if n < 15 {
		return dst
	}
	for n -= 15; n >= 255; n -= 255 {
		dst = append(dst, 255)
	}
	return append(dst, byte(n))
}

func lz4Tail(dst, literals []byte, base, limit int) ([]byte, bool) {
	dst = append(dst, byte(min(len(literals), 15)<<4))
	dst = lz4Length(dst, len(literals))
	dst = append(dst, literals...)
	return dst, len(dst)-base <= limit
}
