package unpack

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"bakeoff/base/fault"
	"bakeoff/base/gunzip"
)

// stream is the tar file in a layer. It reads ahead in a goroutine, which also
// decompresses and computes both digests.
type stream struct {
	layer  Layer
	file   *source
	tar    *measured
	closer func()

	full, empty chan []byte
	done, ended chan struct{}
	failed      error // of the goroutine; valid after ended

	now, rest []byte // the buffer and what is left of it
}

// open opens a layer. count receives the number of bytes whenever some were read.
func open(ctx context.Context, l Layer, limits Limits, count func(int64)) (*stream, error) {
	in, err := l.Open()
	if err != nil {
		return nil, err
	}
	s := &stream{layer: l, file: &source{ctx: ctx, in: in, sum: sha256.New(), count: count},
		full: make(chan []byte, buffers), empty: make(chan []byte, buffers), done: make(chan struct{}),
		ended: make(chan struct{})}
	plain, closer, err := decompress(s.file)
	if err != nil {
		in.Close()
		return nil, s.classifyError(err)
	}
	s.closer = closer
	s.tar = &measured{in: plain, most: limits.mostUnpacked()}
	if l.DiffID != "" { // half of the time of reading
		s.tar.sum = sha256.New()
	}
	for range buffers {
		s.empty <- make([]byte, bufferSize)
	}
	go s.fillBuffers()
	return s, nil
}

// mostUnpacked is how many bytes a layer may hold, with its headers.
func (l Limits) mostUnpacked() int64 { return l.Bytes + int64(l.Entries)*4096 }

// mostOnDisk is how many bytes a layer of a size may take on the disk.
func (l Limits) mostOnDisk(size int64) int64 {
	most := l.mostUnpacked()
	if size >= 0 && size < (most-l.Slack)/l.Ratio {
		most = l.Slack + l.Ratio*size
	}
	return most
}

const (
	buffers    = 4
	bufferSize = 256 << 10
)

// fillBuffers reads the tar file into buffers until its end.
func (s *stream) fillBuffers() {
	defer close(s.ended)
	defer close(s.full)
	for {
		var b []byte
		select {
		case <-s.done:
			return
		case b = <-s.empty:
		}
		n, err := io.ReadFull(s.tar, b[:bufferSize])
		if n > 0 {
			select {
			case <-s.done:
				return
			case s.full <- b[:n]:
			}
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && s.tar.ended:
			return
		case err != nil:
			s.failed = s.classifyError(err)
			return
		}
	}
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		if s.now != nil {
			s.empty <- s.now
			s.now = nil
		}
		b, ok := <-s.full
		if !ok {
			<-s.ended
			if s.failed != nil {
				return 0, s.failed
			}
			return 0, io.EOF
		}
		s.now, s.rest = b, b
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// endError returns what ended the stream early; else err, as a reason to refuse the
// archive.
func (s *stream) endError(err error) error {
	select {
	case <-s.ended:
		if s.failed != nil {
			return s.failed
		}
	default:
	}
	if err == nil {
		return nil
	}
	return refusal("the file is not a tar file: %w", err)
}

// classifyError tells a file that cannot be read from one that is damaged.
func (s *stream) classifyError(err error) error {
	switch {
	case s.file.failed != nil:
		return s.file.failed
	case errors.Is(err, errLarge):
		return refusal("the layer of %d bytes holds more than %d bytes", s.layer.Size, s.tar.most)
	}
	return Damage(err)
}

// Damage explains why the data of a compressed archive cannot be read: err is an error of a reader
// that Decompress returned, or of Decompress, and not of the file.
func Damage(err error) error {
	if _, explained := errors.AsType[*fault.Error](err); explained {
		return err
	}
	if errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return fault.WithFix(refusal("to unpack the archive takes more than %d MiB of memory: %w", maxWindow>>20, err),
			"compress it again with zstd --long=27 or less")
	}
	return refusal("the compressed archive is damaged: %w", err)
}

// finish reads the rest and compares the digests.
func (s *stream) finish() error {
	if _, err := io.Copy(io.Discard, s); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, s.file); err != nil { // what follows the compressed data
		return err
	}
	for _, c := range []struct {
		what, want string
		sum        hash.Hash
	}{{"layer", s.layer.Digest, s.file.sum}, {"unpacked layer", s.layer.DiffID, s.tar.sum}} {
		if c.want == "" {
			continue
		}
		if got := digest(c.sum); c.want != got {
			return refusal("the %s was changed or is damaged: its digest is %s and not %s", c.what, got, c.want)
		}
	}
	if s.layer.Found != nil {
		s.layer.Found(digest(s.file.sum))
	}
	return nil
}

// Close ends the goroutine and closes the file.
func (s *stream) Close() error {
	close(s.done)
	<-s.ended
	s.closer()
	return s.file.in.Close()
}

func digest(h hash.Hash) string { return "sha256:" + hex.EncodeToString(h.Sum(nil)) }

// source is the file of a layer, as it is stored.
type source struct {
	ctx    context.Context
	in     io.ReadCloser
	sum    hash.Hash
	count  func(int64)
	failed error
}

func (s *source) Read(p []byte) (int, error) {
	if s.failed = s.ctx.Err(); s.failed != nil {
		return 0, s.failed
	}
	n, err := s.in.Read(p)
	s.sum.Write(p[:n])
	s.count(int64(n))
	if err != nil && !errors.Is(err, io.EOF) {
		s.failed = err
	}
	return n, err
}

// measured is the tar file of a layer.
type measured struct {
	in    io.Reader
	sum   hash.Hash // nil if nobody asks for it
	n     int64
	most  int64
	ended bool
}

var errLarge = errors.New("too large")

func (m *measured) Read(p []byte) (int, error) {
	n, err := m.in.Read(p)
	if m.sum != nil {
		m.sum.Write(p[:n])
	}
	if m.n += int64(n); m.n > m.most {
		return 0, errLarge
	}
	m.ended = err == io.EOF //nolint:errorlint // a damaged file ends with another error that may wrap it
	return n, err
}

// maxWindow bounds the memory that a compressed archive may ask for.
const maxWindow = 128 << 20

// Decompress returns the tar file in a file that gzip, xz, zstd or bzip2 may compress. The
// function releases what the reader holds. Another format of compression is an error.
func Decompress(file io.Reader) (io.Reader, func(), error) { return decompress(file) }

// decompress returns the tar file in a file, which its first bytes describe.
func decompress(file io.Reader) (io.Reader, func(), error) {
	b := bufio.NewReaderSize(file, bufferSize)
	head, err := b.Peek(MagicBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	nothing := func() {}
	switch Compression(head) {
	case "gzip":
		r, err := gunzip.NewReader(b)
		return r, nothing, err
	case "zstd":
		r, err := zstd.NewReader(b, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, nil, err
		}
		return r, r.Close, nil
	case "xz":
		r, err := xz.NewReader(b)
		return r, nothing, err
	case "bzip2":
		return bzip2.NewReader(b), nothing, nil
	}
	return b, nothing, CheckFormat(head)
}

// foreign are the first bytes of formats that bakeoff cannot read.
var foreign = []struct{ name, mark string }{
	{"lz4", "\x04\x22\x4d\x18"}, {"lz4", "\x02\x21\x4c\x18"}, {"lzip", "LZIP"}, {"lzop", "\x89LZO"},
	{"compress (.Z)", "\x1f\x9d"}, {"zip", "PK\x03\x04"}, {"7z", "7z\xbc\xaf"}, {"rar", "Rar!"}, {"lrzip", "LRZI"},
}

// CheckFormat refuses a file that begins with head if it is compressed in a format that bakeoff cannot read.
func CheckFormat(head []byte) error {
	name := ""
	for _, f := range foreign {
		if bytes.HasPrefix(head, []byte(f.mark)) {
			name = f.name
		}
	}
	// The header of an lzma file has the usual properties, and then the size of the dictionary.
	if bytes.HasPrefix(head, []byte("\x5d\x00\x00")) && len(head) >= 5 && head[3]|head[4] != 0 {
		name = "lzma"
	}
	if name == "" {
		return nil
	}
	return fault.WithFix(refusal("the file is compressed with %s, which bakeoff cannot read", name),
		"compress the tar file with zstd, gzip, xz or bzip2")
}

// MagicBytes is how many bytes of a file Compression and CheckFormat need.
const MagicBytes = 6

// Compression names how a file is compressed that begins with head: gzip, zstd, xz or
// bzip2; "" if it is not compressed with one of them.
func Compression(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return "gzip"
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}), len(head) >= 4 && head[0]&0xf0 == 0x50 &&
		bytes.Equal(head[1:4], []byte{0x2a, 0x4d, 0x18}):
		return "zstd"
	case bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")):
		return "xz"
	case bytes.HasPrefix(head, []byte("BZh")):
		return "bzip2"
	}
	return ""
}
