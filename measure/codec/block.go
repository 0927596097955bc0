package codec

import "math/bits"

// stream is written bit by bit, starting at the lowest bit of each byte.
type stream struct {
	b       []byte
	acc     uint64
	have    uint
	aligned int // where in b the bits began after what was written in bytes
}

func (w *stream) put(v uint, n uint8) {
	w.acc |= uint64(v) << w.have
	for w.have += uint(n); w.have >= 8; w.have -= 8 {
		w.b = append(w.b, byte(w.acc))
		w.acc >>= 8
	}
}

func (w *stream) align() {
	if w.have > 0 {
		w.b = append(w.b, byte(w.acc))
		w.acc, w.have = 0, 0
	}
	w.aligned = len(w.b)
}

// bytes writes b as it is, at a byte's beginning.
func (w *stream) bytes(b ...byte) {
	w.align()
	w.b = append(w.b, b...)
	w.aligned = len(w.b)
}

// The tables of RFC 1951, 3.2.5: the code of a length minus three, and the
// number of extra bits after the codes of lengths and distances.
var (
	lengthCode [256]uint8
	lengthBase [29]int
	lengthMore = [29]uint8{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0}
	// bitOrder is the order of the lengths of the code length codes.
	bitOrder = [19]int{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}
	fixedLit = fixed()
	fixedDst = flat()
)

func init() {
	at := 0
	for c := range 28 {
		lengthBase[c] = at
		for range 1 << lengthMore[c] {
			if at < 255 {
				lengthCode[at] = uint8(c)
			}
			at++
		}
	}
	lengthBase[28], lengthCode[255] = 255, 28 // 258 has a code of its own
}

func distanceCode(distance int) int {
	if distance <= 4 {
		return distance - 1
	}
	n := bits.Len(uint(distance-1)) - 1
	return 2*n + (distance-1)>>(n-1)&1
}

func distanceMore(c int) (base int, more uint8) {
	if c < 4 {
		return c, 0
	}
	more = uint8(c/2 - 1)
	return (2 + c&1) << more, more
}

// fixed and flat are the predefined codes, which are not sent.
func fixed() code {
	c := code{len: make([]uint8, 288), bits: make([]uint16, 288)}
	for s := range c.len {
		switch {
		case s < 144:
			c.len[s] = 8
		case s < 256:
			c.len[s] = 9
		case s < 280:
			c.len[s] = 7
		default:
			c.len[s] = 8
		}
	}
	c.assign(15)
	return c
}

func flat() code {
	c := code{len: make([]uint8, 30), bits: make([]uint16, 30)}
	for s := range c.len {
		c.len[s] = 5
	}
	c.assign(15)
	return c
}

// flush writes the symbols of a block that ends before end, in whichever form
// is the shortest.
func (d *Deflate) flush(end int, last bool) {
	lit, dst := build(d.litFreq[:], 15), build(d.dstFreq[:], 15)
	lengths := runs(nil, lit.len[:lit.last+1])
	lengths = runs(lengths, dst.len[:dst.last+1])
	var freq [19]int
	for _, r := range lengths {
		freq[r.symbol]++
	}
	tree := build(freq[:], 7)
	sent := 18
	for sent >= 3 && tree.len[bitOrder[sent]] == 0 {
		sent--
	}
	sent++

	size := 3*sent + 5 + 5 + 4 + d.bits(lit, dst)
	for _, r := range lengths {
		size += int(tree.len[r.symbol]) + int(r.bits)
	}
	dynamic, static := (size+3+7)/8, (d.bits(fixedLit, fixedDst)+3+7)/8
	final := uint(0)
	if last {
		final = 1
	}
	switch stored := end - d.start; {
	case stored+4 <= min(dynamic, static) && stored < 1<<16:
		d.out.put(final, 3)
		d.out.bytes(byte(stored), byte(stored>>8), ^byte(stored), ^byte(stored>>8))
		d.out.bytes(d.src[d.start:end]...)
	case static <= dynamic:
		d.out.put(1<<1|final, 3)
		d.write(fixedLit, fixedDst)
	default:
		d.out.put(2<<1|final, 3)
		d.out.put(uint(lit.last+1-257), 5)
		d.out.put(uint(dst.last), 5)
		d.out.put(uint(sent-4), 4)
		for _, s := range bitOrder[:sent] {
			d.out.put(uint(tree.len[s]), 3)
		}
		for _, r := range lengths {
			d.out.put(uint(tree.bits[r.symbol]), tree.len[r.symbol])
			d.out.put(uint(r.more), r.bits)
		}
		d.write(lit, dst)
	}
	d.clear()
	d.start = end
	d.full = len(d.out.b)-d.base > d.limit
}

// bits counts the bits that write would write.
func (d *Deflate) bits(lit, dst code) int {
	n := 0
	for s, f := range d.litFreq {
		if f > 0 {
			n += f * int(lit.len[s])
			if s > 256 {
				n += f * int(lengthMore[s-257])
			}
		}
	}
	for s, f := range d.dstFreq {
		if f > 0 {
			_, more := distanceMore(s)
			n += f * int(dst.len[s]+more)
		}
	}
	return n
}

func (d *Deflate) write(lit, dst code) {
	for _, s := range d.symbols {
		if s.distance == 0 {
			d.out.put(uint(lit.bits[s.value]), lit.len[s.value])
			continue
		}
		c := int(lengthCode[s.value])
		d.out.put(uint(lit.bits[257+c]), lit.len[257+c])
		d.out.put(uint(int(s.value)-lengthBase[c]), lengthMore[c])
		far := distanceCode(int(s.distance))
		d.out.put(uint(dst.bits[far]), dst.len[far])
		base, more := distanceMore(far)
		d.out.put(uint(int(s.distance)-1-base), more)
	}
	d.out.put(uint(lit.bits[256]), lit.len[256])
}

// run is a symbol of the code of lengths, with the bits after it.
type run struct {
	symbol int
	more   int
	bits   uint8
}

// runs writes lengths as symbols: 16 repeats the previous length 3 to 6 times,
// 17 and 18 are 3 to 10 and 11 to 138 zeros. A run ends at its maximum length;
// a following run of the same length starts with the length itself, unless it
// is zero.
func runs(out []run, lens []uint8) []run {
	before := -1
	for i := 0; i < len(lens); {
		l := int(lens[i])
		most := 7
		switch l {
		case 0:
			most = 138
		case before:
			most = 6
		}
		n := 1
		for n < most && i+n < len(lens) && int(lens[i+n]) == l {
			n++
		}
		i += n
		switch {
		case l == 0 && n >= 11:
			out = append(out, run{18, n - 11, 7})
		case l == 0 && n >= 3:
			out = append(out, run{17, n - 3, 3})
		case l != 0 && l == before && n >= 3:
			out = append(out, run{16, n - 3, 2})
		case l != 0 && l != before && n >= 4:
			out = append(out, run{l, 0, 0}, run{16, n - 4, 2})
		default:
			for range n {
				out = append(out, run{l, 0, 0})
			}
		}
		before = l
	}
	return out
}
