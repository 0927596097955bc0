package codec

// LZJB is Jeff Bonwick's variant of LZRW1: a byte of eight flags before eight
// items, each of them a literal byte or a copy of 3 to 66 bytes from at most
// 1,023 bytes back, in two bytes.
//
// Source: lzjb.c of OpenSolaris.
type LZJB struct {
	// Table is the number of entries of the hash table: 1,024 in OpenZFS
	// (the default), 256 in releases before 2010.
	Table int
	last  [1024]int
}

const (
	lzjbMatchBits = 6
	lzjbMin       = 3
	lzjbMax       = 1<<lzjbMatchBits + lzjbMin - 1
	lzjbWindow    = 1<<(16-lzjbMatchBits) - 1
)

// Encode compresses.
func (z *LZJB) Encode(dst, src []byte, limit int) ([]byte, bool) {
	mask := z.Table - 1
	if z.Table == 0 {
		mask = len(z.last) - 1
	}
	for i := range z.last {
		z.last[i] = -1
	}
	base, flags, bit := len(dst), 0, 8
	for i := 0; i < len(src); bit++ {
		if bit == 8 {
			// The eight items after it must fit.
			if len(dst)-base >= limit-1-2*8 {
				return dst, false
			}
			bit, flags = 0, len(dst)
			dst = append(dst, 0)
		}
		if i > len(src)-lzjbMax {
			dst = append(dst, src[i])
			i++
			continue
		}
		h := int(src[i])<<16 + int(src[i+1])<<8 + int(src[i+2])
		h += h >> 9
		h += h >> 5
		from := z.last[h&mask]
		z.last[h&mask] = i
		// The distance has ten bits: an older entry refers to another
		// position.
		offset := (i - from) & lzjbWindow
		at := i - offset
		if from < 0 || offset == 0 || at < 0 || src[at] != src[i] || src[at+1] != src[i+1] || src[at+2] != src[i+2] {
			dst = append(dst, src[i])
			i++
			continue
		}
		n := lzjbMin
		for n < lzjbMax && src[i+n] == src[at+n] {
			n++
		}
		dst[flags] |= 1 << bit
		dst = append(dst, byte((n-lzjbMin)<<(8-lzjbMatchBits)|offset>>8), byte(offset))
		i += n
	}
	return dst, true
}
