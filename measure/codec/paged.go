package codec

// page is what btrfs compresses at a time, and what it has for the result at a
// time, on machines with pages of 4 KiB.
const page = 4096

// NewPagedDeflate returns an encoder that writes what btrfs does: Linux' own
// copy of zlib, which descends from version 1.1.3, is given a page at a time
// and asked for all it has (Z_SYNC_FLUSH) after each. So every page is a block
// with codes of its own, no match crosses a page's end, and the two strings
// before it are never found again. It gives up as btrfs does.
//
// Source: zlib_compress_folios in fs/btrfs/zlib.c; lib/zlib_deflate.
func NewPagedDeflate(level int) *Deflate {
	d := NewDeflate(level)
	d.header, d.paged = header(min(3, (level-1)/2)), true
	return d
}

// outlet is the pages that the result is put into.
type outlet struct {
	out  *stream
	base int
	sent int // bytes that are in a page
	room int // in the page at hand
}

// flush moves what is written in whole words of the bit buffer, and tells
// whether the page is full then.
func (o *outlet) flush() bool {
	n := min(o.pending(), o.room)
	o.sent += n
	o.room -= n
	return o.room == 0
}

func (o *outlet) pending() int { return o.out.words() - o.base - o.sent }

// words is how many bytes a bit buffer of 16 bits has given away: it keeps the
// last word until a bit more comes.
func (w *stream) words() int {
	bits := 8*(len(w.b)-w.aligned) + int(w.have)
	if bits == 0 {
		return w.aligned
	}
	return w.aligned + (bits-1)/16*2
}

// pages compresses src but for the end of the stream.
func (d *Deflate) pages(src []byte) {
	o := outlet{out: &d.out, base: d.base, room: page}
	for in := 0; in < len(src) && !d.full; {
		// What did not fit is moved first; a page that this fills is given
		// back before anything is read.
		if o.pending() == 0 || !o.flush() {
			d.src = src[:min(in+page, len(src))]
			d.search(in)
			in = len(d.src)
			d.flush(in, false)
			// The empty block that ends a flush is left out where the block
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
