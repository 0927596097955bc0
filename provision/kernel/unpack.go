package kernel

import (
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"hash/crc32"
	"io"

	"github.com/anchore/go-lzo"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	xzreader "github.com/therootcompany/xz"
	"github.com/ulikunitz/xz/lzma"
)

// compressions are the marks by which compressed data is known.
var compressions = []struct{ name, mark string }{
	{"gzip", "\x1f\x8b"},
	{"xz", "\xfd7zXZ\x00"},
	{"bzip2", "BZh"},
	{"lzo", lzopMagic},
	{"lz4", "\x02\x21\x4c\x18"}, // as Linux packs: in blocks of the old format
	{"lz4", "\x04\x22\x4d\x18"},
	{"zstd", "\x28\xb5\x2f\xfd"},
	{"lzma", "\x5d\x00\x00"}, // the properties that everybody uses, and a dictionary of whole 64 KiB
}

// Compression names how data that begins with b is compressed; "" if it is not known.
func Compression(b []byte) string {
	for _, c := range compressions {
		if at(b, 0, c.mark) {
			return c.name
		}
	}
	return ""
}

// decompress unpacks data to at most maxUnpacked bytes.
func decompress(name string, data []byte) ([]byte, error) {
	if name == "lzo" {
		return lzop(data)
	}
	r, err := reader(name, data)
	if err != nil {
		return nil, err
	}
	if c, ok := r.(io.Closer); ok {
		defer c.Close()
	}
	out, err := io.ReadAll(io.LimitReader(r, maxUnpacked+1))
	if len(out) > maxUnpacked {
		return nil, fmt.Errorf("the unpacked data has more than %d bytes", maxUnpacked)
	}
	return out, err
}

func reader(name string, data []byte) (io.Reader, error) {
	r := bytes.NewReader(data)
	switch name {
	case "gzip":
		z, err := gzip.NewReader(r)
		if err == nil {
			z.Multistream(false) // padding may follow
		}
		return z, err
	case "xz":
		z, err := xzreader.NewReader(r, maxDictionary)
		if err == nil {
			z.Multistream(false)
		}
		return z, err
	case "bzip2":
		return bzip2.NewReader(r), nil
	case "lz4":
		return lz4.NewReader(r), nil
	case "zstd":
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxUnpacked),
			zstd.WithDecoderMaxWindow(maxDictionary))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	case "lzma":
		return lzma.ReaderConfig{DictCap: maxDictionary}.NewReader(r)
	}
	return nil, fmt.Errorf("unknown compression %s", name)
}

// lzopMagic begins a file of lzop.
const lzopMagic = "\x89LZO\x00\r\n\x1a\n"

// The flags in the header of a file of lzop.
const (
	lzopAdlerOut = 1 << 0 // a sum of each unpacked block
	lzopAdlerIn  = 1 << 1 // a sum of each packed block
	lzopExtra    = 1 << 6
	lzopCRCOut   = 1 << 8
	lzopCRCIn    = 1 << 9
	lzopFilter   = 1 << 11
	// lzopMaxBlock is the largest block that lzop writes, in bytes.
	lzopMaxBlock = 64 << 20
)

var errLzop = errors.New("the lzop file ends early")

// lzop unpacks a file of lzop: a header, then blocks with their sizes and sums, and a
// size of zero. Its numbers are big-endian.
//
// Source: lzop 1.04, src/lzop.c (read_header, lzo_decompress); the kernel reads the same
// in lib/decompress_unlzo.c.
func lzop(data []byte) ([]byte, error) {
	b := &cursor{data: data[len(lzopMagic):]}
	version := b.number(2)
	b.number(2) // the version of the library
	if version >= 0x940 {
		b.number(2) // the version that is needed to unpack
	}
	if method := b.number(1); method < 1 || method > 3 {
		return nil, fmt.Errorf("lzop method %d is not LZO1X", method)
	}
	if version >= 0x940 {
		b.number(1) // level
	}
	flags := b.number(4)
	if flags&lzopFilter != 0 {
		return nil, errors.New("lzop files with a filter are not supported")
	}
	b.number(8) // mode and time
	if version >= 0x940 {
		b.number(4)
	}
	b.take(int(b.number(1))) // name
	b.number(4)              // sum of the header
	if flags&lzopExtra != 0 {
		b.take(int(b.number(4)))
		b.number(4)
	}
	var out []byte
	for {
		size := int(b.number(4))
		if b.short {
			return nil, errLzop
		}
		if size == 0 {
			return out, nil
		}
		block, err := lzopBlock(b, size, uint32(flags))
		if err != nil {
			return nil, err
		}
		if len(out)+len(block) > maxUnpacked {
			return nil, fmt.Errorf("the unpacked data has more than %d bytes", maxUnpacked)
		}
		out = append(out, block...)
	}
}

// lzopBlock reads one block that has size bytes unpacked.
func lzopBlock(b *cursor, size int, flags uint32) ([]byte, error) {
	packed := int(b.number(4))
	if size > lzopMaxBlock || packed > size {
		return nil, fmt.Errorf("an lzop block has an invalid size: %d bytes packed, %d unpacked", packed, size)
	}
	var sums [2]uint32 // of the unpacked block
	if flags&lzopAdlerOut != 0 {
		sums[0] = uint32(b.number(4))
	}
	if flags&lzopCRCOut != 0 {
		sums[1] = uint32(b.number(4))
	}
	if packed < size { // sums of the packed block are left out where it is stored
		if flags&lzopAdlerIn != 0 {
			b.number(4)
		}
		if flags&lzopCRCIn != 0 {
			b.number(4)
		}
	}
	data := b.take(packed)
	if b.short {
		return nil, errLzop
	}
	out := data
	if packed < size {
		out = make([]byte, size)
		n, err := lzo.Decompress(data, out)
		if err != nil {
			return nil, fmt.Errorf("unpack an LZO block: %w", err)
		}
		if n != size {
			return nil, fmt.Errorf("an LZO block has %d bytes instead of %d", n, size)
		}
	}
	if flags&lzopAdlerOut != 0 && adler32.Checksum(out) != sums[0] ||
		flags&lzopCRCOut != 0 && crc32.ChecksumIEEE(out) != sums[1] {
		return nil, errors.New("the checksum of an lzop block is wrong")
	}
	return out, nil
}

// cursor reads bytes from the beginning of data.
type cursor struct {
	data  []byte
	short bool // the data ended early
}

// take returns the next n bytes.
func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.data) {
		c.short, c.data = true, nil
		return nil
	}
	b := c.data[:n]
	c.data = c.data[n:]
	return b
}

// number reads a big-endian number of n bytes, at most 8.
func (c *cursor) number(n int) uint64 {
	var b [8]byte
	copy(b[8-n:], c.take(n))
	return binary.BigEndian.Uint64(b[:])
}
