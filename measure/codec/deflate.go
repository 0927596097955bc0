package codec

import (
	"encoding/binary"
	"hash/adler32"
	"math/bits"
)

// Deflate writes a zlib stream of a level from 1 to 9, with a window of 32 KiB
// and zlib's default memory level: the bytes are those of deflate() with the
// whole input at once, or those of btrfs, which passes a page at a time.
//
// Source: RFC 1950 and 1951; deflate.c and trees.c of zlib for the decisions
// that the formats leave open.
type Deflate struct {
	tune   tuning
	header [2]byte
	paged  bool   // as btrfs calls it: see pages
	src    []byte // the visible part of the input
	head   [1 << hashBits]int32
	prev   [windowSize]int32

	symbols []symbol
	start   int // of the block in src
	litFreq [286]int
	dstFreq [30]int
	out     stream
	base    int
	limit   int
	full    bool // the result is longer than limit
}

// symbol is a literal (distance 0), or a copy of length+3 from distance back.
type symbol struct {
	distance uint16
	value    uint8
}

// tuning sets the effort of a level: matches of good bytes shorten the search
// for a better one, matches of lazy bytes end it, matches of nice bytes end any
// search; chain is the maximum number of places to compare.
type tuning struct {
	good, lazy, nice, chain int
	fast                    bool // takes the first match
}

var tunings = [...]tuning{
	1: {4, 4, 8, 4, true}, 2: {4, 5, 16, 8, true}, 3: {4, 6, 32, 32, true},
	4: {4, 4, 16, 16, false}, 5: {8, 16, 32, 32, false}, 6: {8, 16, 128, 128, false},
	7: {8, 32, 128, 256, false}, 8: {32, 128, 258, 1024, false}, 9: {32, 258, 258, 4096, false},
}

const (
	windowSize = 1 << 15
	hashBits   = 15
	minMatch   = 3
	maxMatch   = 258
	maxDist    = windowSize - maxMatch - minMatch - 1
	tooFar     = 4096      // a match of three bytes from further back does not pay
	maxSymbols = 1<<14 - 1 // of a block
)

// NewDeflate returns an encoder, level from 1 to 9.
func NewDeflate(level int) *Deflate {
	return &Deflate{tune: tunings[level],
		header:  header([...]int{1: 0, 2: 1, 3: 1, 4: 1, 5: 1, 6: 2, 7: 3, 8: 3, 9: 3}[level]),
		symbols: make([]symbol, 0, maxSymbols)}
}

// header is the header of a stream: deflate, 32 KiB, the effort, and a checksum
// that makes it a multiple of 31.
func header(tried int) [2]byte {
	v := 0x78<<8 | tried<<6
	v += 31 - v%31
	return [2]byte{byte(v >> 8), byte(v)}
}

// Encode compresses.
func (d *Deflate) Encode(dst, src []byte, limit int) ([]byte, bool) {
	d.src, d.start, d.base, d.limit, d.full = src, 0, len(dst), limit, false
	for i := range d.head {
		d.head[i] = -1
	}
	d.out = stream{b: append(dst, d.header[:]...), aligned: len(dst) + len(d.header)}
	d.clear()
	if d.paged {
		d.pages(src)
	} else {
		d.search(0)
	}
	if !d.full {
		d.flush(len(src), true)
		d.out.align()
		d.out.b = binary.BigEndian.AppendUint32(d.out.b, adler32.Checksum(src))
	}
	d.src = nil
	return d.out.b, !d.full && len(d.out.b)-d.base <= limit
}

// search converts src from i on to symbols.
func (d *Deflate) search(i int) {
	if d.tune.fast {
		d.first(i)
	} else {
		d.best(i)
	}
}

// insert adds the string at i to the table, and returns the position of the
// last one with the same hash; -1 if there is none in the window.
func (d *Deflate) insert(i int) int {
	s := d.src[i : i+3]
	h := (int(s[0])<<10 ^ int(s[1])<<5 ^ int(s[2])) & (1<<hashBits - 1)
	at := d.head[h]
	d.prev[i&(windowSize-1)] = at
	d.head[h] = int32(i)
	// Zero ends a chain there, so the very first string is never found.
	if at <= 0 {
		return -1
	}
	return int(at)
}

// match follows the chain from at to find a match with the string at i that is
// longer than best, and returns its length and position.
func (d *Deflate) match(i, at, best int) (length, from int) {
	scan := d.src[i:min(i+maxMatch, len(d.src))]
	left := len(d.src) - i
	chain, nice := d.tune.chain, min(d.tune.nice, left)
	if best >= d.tune.good {
		chain >>= 2
	}
	if best >= left {
		return left, -1
	}
	limit := max(0, i-maxDist)
	from = -1
	for {
		s := d.src[at:]
		if s[best] == scan[best] && s[best-1] == scan[best-1] && s[0] == scan[0] && s[1] == scan[1] {
			n := same(s, scan)
			if n > best {
				best, from = n, at
				if n >= nice || n == len(scan) {
					break
				}
			}
		}
		next := int(d.prev[at&(windowSize-1)])
		if chain--; next <= limit || chain == 0 || next >= at {
			break
		}
		at = next
	}
	return min(best, left), from
}

// same is the length of the common prefix of scan and s; s is the longer one.
func same(s, scan []byte) int {
	n := 0
	for ; n+8 <= len(scan); n += 8 {
		if v := binary.LittleEndian.Uint64(s[n:]) ^ binary.LittleEndian.Uint64(scan[n:]); v != 0 {
			return n + bits.TrailingZeros64(v)/8
		}
	}
	for n < len(scan) && s[n] == scan[n] {
		n++
	}
	return n
}

// first takes the first match: levels 1 to 3.
func (d *Deflate) first(i int) {
	n := len(d.src)
	for i < n && !d.full {
		length, from := 0, -1
		if n-i >= minMatch {
			if at := d.insert(i); at >= 0 && i-at <= maxDist {
				length, from = d.match(i, at, minMatch-1)
			}
		}
		full := false
		if length >= minMatch && from >= 0 {
			full = d.copy(length, i-from)
			end := i + length
			if length <= d.tune.lazy && n-end >= minMatch {
				for i++; i < end; i++ {
					d.insert(i)
				}
			}
			i = end
		} else {
			full = d.literal(d.src[i])
			i++
		}
		if full {
			d.flush(i, false)
		}
	}
}

// best defers a match while the next byte begins a longer one: levels 4 to 9.
func (d *Deflate) best(i int) {
	n := len(d.src)
	length, from, waiting := minMatch-1, 0, false
	for i < n && !d.full {
		at := -1
		if n-i >= minMatch {
			at = d.insert(i)
		}
		before, beforeFrom := length, from
		length = minMatch - 1
		if at >= 0 && before < d.tune.lazy && i-at <= maxDist {
			var where int
			if length, where = d.match(i, at, before); where >= 0 {
				from = where
			}
			if length == minMatch && i-from > tooFar {
				length = minMatch - 1
			}
		}
		switch {
		case before >= minMatch && length <= before:
			full := d.copy(before, i-1-beforeFrom)
			end := i - 1 + before
			for i++; i < end; i++ {
				if n-i >= minMatch {
					d.insert(i)
				}
			}
			waiting, length = false, minMatch-1
			if full {
				d.flush(i, false)
			}
		case waiting:
			if d.literal(d.src[i-1]) {
				d.flush(i, false)
			}
			i++
		default:
			waiting = true
			i++
		}
	}
	if waiting && !d.full {
		d.literal(d.src[n-1])
	}
}

// literal and copy store a symbol and report whether the block is full.
func (d *Deflate) literal(b byte) bool {
	d.symbols = append(d.symbols, symbol{0, b})
	d.litFreq[b]++
	return len(d.symbols) == maxSymbols
}

func (d *Deflate) copy(length, distance int) bool {
	d.symbols = append(d.symbols, symbol{uint16(distance), uint8(length - minMatch)})
	d.litFreq[257+int(lengthCode[length-minMatch])]++
	d.dstFreq[distanceCode(distance)]++
	return len(d.symbols) == maxSymbols
}

func (d *Deflate) clear() {
	d.symbols = d.symbols[:0]
	d.litFreq, d.dstFreq = [286]int{256: 1}, [30]int{}
}
