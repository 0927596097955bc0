package codec

import (
	"encoding/binary"
	"hash/adler32"
	"math/bits"

	"github.com/andybalholm/brotli/flate"
	"github.com/andybalholm/brotli/matchfinder"
)

// Deflate writes a zlib stream of a level from 1 to 9. It finds the matches that zlib
// finds with its default memory level, and ends a block after as many symbols; a library
// encodes the blocks. The search is our own because those of the libraries find no
// matches of three bytes, which costs them 3 to 5 % on programs.
//
// Source: deflate.c of zlib for the search.
type Deflate struct {
	tune   tuning
	paged  bool   // as btrfs calls it: see NewPagedDeflate
	src    []byte // the visible part of the input
	head   [1 << hashBits]int32
	prev   [windowSize]int32
	coder  matchfinder.Encoder
	out    []byte
	base   int // of the stream in out
	limit  int
	full   bool // the result is longer than limit
	blocks      // the current one
}

// blocks collects the symbols of a block.
type blocks struct {
	start    int // of the block in src
	matches  []matchfinder.Match
	literals int // after the last match
	symbols  int
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

// page is the unit in which btrfs passes input and stores output, on machines
// with pages of 4 KiB.
const page = 4096

// DeflateError bounds by what share the total size of a folder's records differs from
// what zlib makes of them. Measured on mail, text and programs at all levels, in records
// from 4 KiB to 1 MiB, it was 0.1 %; compared with btrfs, it was 0.2 %.
const DeflateError = 0.005

// streamHeader is the header of a stream: deflate, 32 KiB, default effort. All levels have
// headers of two bytes.
var streamHeader = [2]byte{0x78, 0x9c}

// NewDeflate returns an encoder, level from 1 to 9.
func NewDeflate(level int) *Deflate { return &Deflate{tune: tunings[level], coder: flate.NewEncoder()} }

// NewPagedDeflate returns an encoder that gives the sizes of btrfs: Linux' copy of zlib
// gets one page at a time and is flushed (Z_SYNC_FLUSH) after each. So every page is a
// block with its own codes, and no match crosses the end of a page.
//
// Source: zlib_compress_folios in fs/btrfs/zlib.c.
func NewPagedDeflate(level int) *Deflate {
	d := NewDeflate(level)
	d.paged = true
	return d
}

// Encode compresses.
func (d *Deflate) Encode(dst, src []byte, limit int) ([]byte, bool) {
	d.base, d.limit, d.full, d.blocks = len(dst), limit, false, blocks{matches: d.matches[:0]}
	d.out = append(dst, streamHeader[:]...)
	for i := range d.head {
		d.head[i] = -1
	}
	d.coder.Reset()
	step := len(src)
	if d.paged {
		step = page
	}
	for at := 0; at < len(src) && !d.full; at += step {
		d.src = src[:min(at+step, len(src))]
		d.findSymbols(at)
		if d.paged && !d.full {
			d.endPage()
		}
	}
	if !d.full {
		d.src = src
		d.endBlock(len(src), true)
		d.out = binary.BigEndian.AppendUint32(d.out, adler32.Checksum(src))
	}
	out := d.out
	d.src, d.out = nil, nil
	return out, !d.full && len(out)-d.base <= limit
}

// endPage ends the block of a page. The library has no empty stored block, with which a
// flush ends, so four empty blocks of ten bits take its place: about as long.
func (d *Deflate) endPage() {
	d.endBlock(len(d.src), false)
	for range 4 {
		d.endBlock(len(d.src), false)
	}
}

// endBlock encodes the symbols of the block that ends before end.
func (d *Deflate) endBlock(end int, last bool) {
	if d.literals > 0 {
		d.matches = append(d.matches, matchfinder.Match{Unmatched: d.literals})
	}
	d.out = d.coder.Encode(d.out, d.src[d.start:end], d.matches, last)
	d.blocks = blocks{start: end, matches: d.matches[:0]}
	d.full = len(d.out)-d.base > d.limit
}

// findSymbols converts src from i on to symbols.
func (d *Deflate) findSymbols(i int) {
	if d.tune.fast {
		d.takeFirst(i)
	} else {
		d.takeBest(i)
	}
}

// insertString adds the string at i to the table, and returns the position of the
// last one with the same hash; -1 if there is none in the window.
func (d *Deflate) insertString(i int) int {
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

// longestMatch follows the chain from at to find a match with the string at i that is
// longer than best, and returns its length and position.
func (d *Deflate) longestMatch(i, at, best int) (length, from int) {
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
			n := commonPrefix(s, scan)
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

// commonPrefix is the length of the common prefix of scan and s; s is the longer one.
func commonPrefix(s, scan []byte) int {
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

// takeFirst takes the first match: levels 1 to 3.
func (d *Deflate) takeFirst(i int) {
	n := len(d.src)
	for i < n && !d.full {
		length, from := 0, -1
		if n-i >= minMatch {
			if at := d.insertString(i); at >= 0 && i-at <= maxDist {
				length, from = d.longestMatch(i, at, minMatch-1)
			}
		}
		full := false
		if length >= minMatch && from >= 0 {
			full = d.addCopy(length, i-from)
			end := i + length
			if length <= d.tune.lazy && n-end >= minMatch {
				for i++; i < end; i++ {
					d.insertString(i)
				}
			}
			i = end
		} else {
			full = d.addLiteral()
			i++
		}
		if full {
			d.endBlock(i, false)
		}
	}
}

// takeBest defers a match while the next byte begins a longer one: levels 4 to 9.
func (d *Deflate) takeBest(i int) {
	n := len(d.src)
	length, from, waiting := minMatch-1, 0, false
	for i < n && !d.full {
		at := -1
		if n-i >= minMatch {
			at = d.insertString(i)
		}
		before, beforeFrom := length, from
		length = minMatch - 1
		if at >= 0 && before < d.tune.lazy && i-at <= maxDist {
			var where int
			if length, where = d.longestMatch(i, at, before); where >= 0 {
				from = where
			}
			if length == minMatch && i-from > tooFar {
				length = minMatch - 1
			}
		}
		switch {
		case before >= minMatch && length <= before:
			full := d.addCopy(before, i-1-beforeFrom)
			end := i - 1 + before
			for i++; i < end; i++ {
				if n-i >= minMatch {
					d.insertString(i)
				}
			}
			waiting, length = false, minMatch-1
			if full {
				d.endBlock(i, false)
			}
		case waiting:
			if d.addLiteral() {
				d.endBlock(i, false)
			}
			i++
		default:
			waiting = true
			i++
		}
	}
	if waiting && !d.full {
		d.addLiteral()
	}
}

// addLiteral and addCopy store a symbol and report whether the block is full.
func (d *Deflate) addLiteral() bool {
	d.literals++
	d.symbols++
	return d.symbols == maxSymbols
}

func (d *Deflate) addCopy(length, distance int) bool {
	d.matches = append(d.matches, matchfinder.Match{Unmatched: d.literals, Length: length, Distance: distance})
	d.literals = 0
	d.symbols++
	return d.symbols == maxSymbols
}
