package codec

// page is the unit in which btrfs passes input and stores output, on machines
// with pages of 4 KiB.
const page = 4096

// NewPagedDeflate returns an encoder with the output of btrfs: Linux' copy of
// zlib, which descends from version 1.1.3, gets one page at a time and is
// flushed (Z_SYNC_FLUSH) after each. So every page is a block with its own
// codes, no match crosses the end of a page, and the two strings before it are
// never found again. It gives up as btrfs does.
//
// Source: zlib_compress_folios in fs/btrfs/zlib.c; lib/zlib_deflate.
func NewPagedDeflate(level int) *Deflate {
	d := NewDeflate(level)
	d.header, d.paged = header(min(3, (level-1)/2)), true
	return d
}

// outlet stores the result in pages.
type outlet struct {
	out  *stream
	base int
	sent int // bytes that are in a page
	room int // in the current page
}

// flush moves the whole words of the bit buffer to the page, and reports
// whether the page is then full.
func (o *outlet) flush() bool {
	n := min(o.pending(), o.room)
	o.sent += n
	o.room -= n
	return o.room == 0
}

func (o *outlet) pending() int { return o.out.words() - o.base - o.sent }

// words is how many bytes a bit buffer of 16 bits has passed on: it keeps the
// last word until another bit follows.
func (w *stream) words() int {
	bits := 8*(len(w.b)-w.aligned) + int(w.have)
	if bits == 0 {
		return w.aligned
	}
	return w.aligned + (bits-1)/16*2
}

// pages compresses src, without the end of the stream.
func (d *Deflate) pages(src []byte) {
	o := outlet{out: &d.out, base: d.base, room: page}
	for in := 0; in < len(src) && !d.full; {
		// Move what did not fit first; return a page that this fills
		// before reading.
		if o.pending() == 0 || !o.flush() {
			d.src = src[:min(in+page, len(src))]
			d.search(in)
			in = len(d.src)
			d.flush(in, false)
			// Omit the empty block that ends a flush if the block
			// before it has filled a page.
			if !o.flush() {
				d.out.put(0, 3)
				d.out.bytes(0, 0, 0xff, 0xff)
				o.flush()
			}
		}
		if in > 2*page && in < o.sent {
			d.full = true
		}
		if o.room == 0 {
			o.room = page
		}
	}
	d.src = src
}
