package firecracker

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/ulikunitz/xz"
)

// vmlinux returns the ELF kernel in image, the only format that Firecracker
// accepts. A bzImage has it compressed, and says where (Linux
// Documentation/arch/x86/boot.rst: setup_sects at 0x1f1, payload_offset at
// 0x248, payload_length at 0x24c).
func vmlinux(image []byte) ([]byte, error) {
	elf := []byte("\x7fELF")
	if bytes.HasPrefix(image, elf) {
		return image, nil
	}
	if len(image) < 0x250 || string(image[0x202:0x206]) != "HdrS" {
		return nil, errors.New("not a bzImage or an ELF kernel")
	}
	sectors := int64(image[0x1f1])
	if sectors == 0 {
		sectors = 4
	}
	begin := (sectors+1)*512 + int64(binary.LittleEndian.Uint32(image[0x248:]))
	end := begin + int64(binary.LittleEndian.Uint32(image[0x24c:]))
	if begin >= end || end > int64(len(image)) {
		return nil, fmt.Errorf("the packed kernel lies at bytes %d to %d of %d", begin, end, len(image))
	}
	r, err := unpacker(image[begin:end])
	if err != nil {
		return nil, err
	}
	// Four bytes with the length follow the compressed data, which some
	// decompressors take for a broken continuation.
	out, err := io.ReadAll(io.LimitReader(r, maxKernel+1))
	switch {
	case len(out) > maxKernel:
		return nil, fmt.Errorf("the unpacked kernel is longer than %d bytes", maxKernel)
	case !bytes.HasPrefix(out, elf):
		return nil, fmt.Errorf("the packed data is not an ELF kernel: %w", err)
	}
	size := int(binary.LittleEndian.Uint32(image[end-4:]))
	if size != len(out) {
		return nil, fmt.Errorf("%d of %d bytes could be unpacked: %w", len(out), size, err)
	}
	return out, nil
}

func unpacker(packed []byte) (io.Reader, error) {
	r := bytes.NewReader(packed)
	switch {
	case bytes.HasPrefix(packed, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(r)
		if err == nil {
			z.Multistream(false)
		}
		return z, err
	case bytes.HasPrefix(packed, []byte("\xfd7zXZ\x00")):
		return xz.ReaderConfig{SingleStream: true}.NewReader(r)
	case bytes.HasPrefix(packed, []byte{0x02, 0x21, 0x4c, 0x18}): // as Linux packs with LZ4, in blocks of the old format
		return lz4.NewReader(r), nil
	case bytes.HasPrefix(packed, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return zstd.NewReader(r, zstd.WithDecoderMaxMemory(maxKernel))
	}
	return nil, fmt.Errorf("unknown compression (begins with % x); use gzip, xz, lz4 or zstd",
		packed[:min(len(packed), 6)])
}
