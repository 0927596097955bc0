package stream

import (
	"bufio"
	"encoding/binary"
	"io"
)

// sum is a fletcher4 checksum.
type sum [4]uint64

// add continues the checksum with b, whose length is a multiple of four.
//
// Source: OpenZFS, module/zcommon/zfs_fletcher.c.
func (s *sum) add(b []byte, o binary.ByteOrder) {
	x, y, z, w := s[0], s[1], s[2], s[3]
	for ; len(b) >= 4; b = b[4:] {
		x += uint64(o.Uint32(b))
		y += x
		z += y
		w += z
	}
	*s = sum{x, y, z, w}
}

// reader reads records and payloads and checks their checksums.
type reader struct {
	r     *bufio.Reader
	order binary.ByteOrder // of the stream; nil before the first record
	sum   sum              // of everything so far
	read  int64
	buf   []byte
}

// header reads a record. Each record but the first has the checksum of everything before
// it; streams of old systems have none.
func (r *reader) header() ([]byte, error) {
	b := make([]byte, record)
	n, err := io.ReadFull(r.r, b)
	r.read += int64(n)
	if err != nil {
		return nil, cut(err)
	}
	first := r.order == nil
	if first {
		if r.order = orderOf(b); r.order == nil {
			return nil, damaged("it is not a ZFS stream")
		}
	}
	r.sum.add(b[:sumAt], r.order)
	if !first {
		var want sum
		for i := range want {
			want[i] = r.order.Uint64(b[sumAt+8*i:])
		}
		if want != (sum{}) && want != r.sum {
			return nil, damaged("the checksum of the data before this record is wrong")
		}
	}
	r.sum.add(b[sumAt:], r.order)
	return b, nil
}

// payload reads n bytes that follow a record. They are valid until the next call.
func (r *reader) payload(n int64) ([]byte, error) {
	if n > maxBlock {
		return nil, damaged("its data of %d bytes are too large", n)
	}
	if n%8 != 0 {
		return nil, damaged("%d bytes of data are not a multiple of eight", n)
	}
	if int64(cap(r.buf)) < n {
		r.buf = make([]byte, n)
	}
	b := r.buf[:n]
	got, err := io.ReadFull(r.r, b)
	r.read += int64(got)
	if err != nil {
		return nil, cut(err)
	}
	r.sum.add(b, r.order)
	return b, nil
}

// cut is the error of a stream that ends too early.
func cut(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return damaged("the stream is cut off")
	}
	return err
}
