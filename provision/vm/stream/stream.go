// Package stream is the form in which a guest travels: parts with a name, each with the
// SHA-256 of its content.
//
// A stream begins with Magic. A part is its name, as a byte with its length and the bytes;
// then chunks, each as four bytes with its length, the highest first, and the bytes; then an
// empty chunk; then the SHA-256 of all bytes of the stream until there. The last part has an
// empty name and no content. A stream that was cut therefore lacks it, and one that was
// changed has a wrong sum.
package stream

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"

	"bakeoff/base/fault"
)

// Magic is the beginning of a stream.
const Magic = "bakeoff guest stream 1\n"

// maxChunk is the length of the longest chunk, in bytes.
const maxChunk = 1 << 20

// Writer writes a stream. Its user calls Part for each part, and Close.
type Writer struct {
	out io.Writer
	sum hash.Hash
}

// NewWriter begins a stream.
func NewWriter(out io.Writer) (*Writer, error) {
	w := &Writer{out: out, sum: sha256.New()}
	return w, w.write([]byte(Magic))
}

func (w *Writer) write(b []byte) error {
	w.sum.Write(b) // never fails
	_, err := w.out.Write(b)
	return err
}

// Part writes a part with all that content has. name has 1 to 255 bytes.
func (w *Writer) Part(name string, content io.Reader) error {
	if name == "" || len(name) > 255 {
		return fault.New(fault.Lab, "%q is not the name of a part", name)
	}
	return w.part(name, content)
}

// Close ends the stream.
func (w *Writer) Close() error { return w.part("", bytes.NewReader(nil)) }

func (w *Writer) part(name string, content io.Reader) error {
	if err := w.write(append([]byte{byte(len(name))}, name...)); err != nil {
		return err
	}
	chunk := make([]byte, 4+maxChunk)
	for {
		n, err := io.ReadFull(content, chunk[4:])
		if n > 0 {
			binary.BigEndian.PutUint32(chunk, uint32(n))
			if err := w.write(chunk[:4+n]); err != nil {
				return err
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if err := w.write(make([]byte, 4)); err != nil {
		return err
	}
	_, err := w.out.Write(w.sum.Sum(nil))
	return err
}

// Reader reads a stream.
type Reader struct {
	in  *bufio.Reader
	sum hash.Hash
	// In the present part: what is left of a chunk, and whether the part has ended.
	left  uint32
	full  bool // the last chunk was a full one, or there was none
	ended bool
}

// NewReader begins to read a stream.
func NewReader(in io.Reader) (*Reader, error) {
	r := &Reader{in: bufio.NewReaderSize(in, 64<<10), sum: sha256.New(), ended: true}
	begin := make([]byte, len(Magic))
	if err := r.read(begin); err != nil || string(begin) != Magic {
		return nil, fault.WithFix(fault.New(fault.Invalid, "this is not the stream of a guest"),
			"make one with `bakeoff vm send`")
	}
	return r, nil
}

func (r *Reader) read(b []byte) error {
	if _, err := io.ReadFull(r.in, b); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fault.New(fault.Invalid, "the stream of the guest is incomplete")
	} else if err != nil {
		return err
	}
	r.sum.Write(b)
	return nil
}

// Next reads to the end of the present part, and begins the next one. At the end of the
// stream it returns io.EOF. Errors of the sender are of kind fault.Invalid.
func (r *Reader) Next() (name string, err error) {
	if !r.ended {
		if _, err := io.Copy(io.Discard, r); err != nil {
			return "", err
		}
	}
	var length [1]byte
	if err := r.read(length[:]); err != nil {
		return "", err
	}
	text := make([]byte, length[0])
	if err := r.read(text); err != nil {
		return "", err
	}
	r.ended, r.left, r.full = false, 0, true
	if len(text) > 0 {
		return string(text), nil
	}
	if n, err := io.Copy(io.Discard, r); err != nil {
		return "", err
	} else if n > 0 {
		return "", damaged("the last part has content")
	}
	if _, err := r.in.ReadByte(); err == nil {
		return "", damaged("data follows after its end")
	} else if err != io.EOF {
		return "", err
	}
	return "", io.EOF
}

func damaged(why string) error { return fault.New(fault.Invalid, "the stream is damaged: %s", why) }

// Read reads the content of the part. It returns io.EOF when all of it was read and its sum
// is right: what was read before is not verified.
func (r *Reader) Read(b []byte) (int, error) {
	if r.ended {
		return 0, io.EOF
	}
	if len(b) == 0 {
		return 0, nil
	}
	if r.left == 0 {
		var length [4]byte
		if err := r.read(length[:]); err != nil {
			return 0, err
		}
		switch r.left = binary.BigEndian.Uint32(length[:]); {
		case r.left > maxChunk:
			return 0, damaged("a chunk is too long")
		case r.left > 0 && !r.full:
			return 0, damaged("a short chunk is not the last one")
		case r.left == 0:
			return 0, r.verify()
		}
		r.full = r.left == maxChunk
	}
	b = b[:min(uint32(len(b)), r.left)]
	n, err := r.in.Read(b)
	r.sum.Write(b[:n])
	r.left -= uint32(n)
	if err == io.EOF {
		err = fault.New(fault.Invalid, "the stream of the guest is incomplete")
	}
	return n, err
}

// verify compares the sum. The next sums do not include the sum itself.
func (r *Reader) verify() error {
	want := r.sum.Sum(nil)
	have := make([]byte, len(want))
	if _, err := io.ReadFull(r.in, have); err != nil {
		return fault.New(fault.Invalid, "the stream of the guest is incomplete")
	}
	if !bytes.Equal(have, want) {
		return damaged("a SHA-256 is wrong")
	}
	r.ended = true
	return io.EOF
}
