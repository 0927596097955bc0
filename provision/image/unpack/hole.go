package unpack

import (
	"bytes"
	"errors"
	"io"
	"os"
)

// entrySize is what an entry takes on the disk at least, in bytes, and pageSize the
// smallest part of a file that is a hole.
const (
	entrySize = 512
	pageSize  = 4096
)

// zeros is a page of a hole.
var zeros [pageSize]byte

// countBytes counts bytes that the layer takes on the disk.
func (u *unpacker) countBytes(n int64) error {
	if u.left -= n; u.left < 0 {
		return refusal("the layer of %d bytes takes more than %d bytes on the disk", u.size, u.o.Limits.mostOnDisk(u.size))
	}
	return nil
}

// writeContent writes a file of size bytes. It leaves out pages of zeros, so that a file system
// keeps holes in their place.
func (u *unpacker) writeContent(f *os.File, size int64, content io.Reader) error {
	for at := int64(0); at < size; {
		b := u.buffer[:min(int64(len(u.buffer)), size-at)]
		if _, err := io.ReadFull(content, b); errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		} else if err != nil {
			return err
		}
		for from := 0; from < len(b); {
			to, hole := run(b, from)
			if !hole {
				if err := u.countBytes(int64(to - from)); err != nil {
					return err
				}
				if _, err := f.WriteAt(b[from:to], at+int64(from)); err != nil {
					return err
				}
			}
			from = to
		}
		at += int64(len(b))
	}
	return f.Truncate(size)
}

// run returns the end of the run of pages that begins at from, and whether they are
// zeros.
func run(b []byte, from int) (to int, hole bool) {
	for to = from; to < len(b); {
		page := b[to:min(to+pageSize, len(b))]
		zero := bytes.Equal(page, zeros[:len(page)])
		if to == from {
			hole = zero
		} else if zero != hole {
			break
		}
		to += len(page)
	}
	return to, hole
}
