// Package gunzip reads files of gzip as gzip(1) does.
package gunzip

import (
	"bufio"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
)

// reader reads one part of a file after another.
type reader struct {
	in *bufio.Reader
	z  *gzip.Reader
}

// NewReader returns what is in a file of gzip, which may have several parts. It ignores zero
// bytes after a part, with which tapes and block devices fill the last block.
func NewReader(in *bufio.Reader) (io.Reader, error) {
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, err
	}
	z.Multistream(false)
	return &reader{in, z}, nil
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.z.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	for {
		b, err := r.in.ReadByte()
		if err != nil {
			return n, err // io.EOF after the last part
		}
		if b != 0 {
			break
		}
	}
	if err := r.in.UnreadByte(); err != nil {
		return n, err
	}
	if err := r.z.Reset(r.in); err != nil {
		return n, err
	}
	r.z.Multistream(false)
	return n, nil
}
