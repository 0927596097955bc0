package codec

import (
	"bytes"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestFramesOfZstd(t *testing.T) {
	for name, src := range inputs() {
		for _, checksum := range []bool{false, true} {
			for _, single := range []bool{false, true} {
				e, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(checksum), zstd.WithSingleSegment(single),
					zstd.WithEncoderConcurrency(1))
				if err != nil {
					t.Fatal(err)
				}
				frame := e.EncodeAll(src, nil)
				if len(frame) == 0 {
					continue // of nothing it makes nothing
				}
				n, header, err := ZstdFrame(append(frame, "what comes after"...))
				if err != nil || n != len(frame) || header < 5 || header > 14 {
					t.Errorf("%s: a frame of %d bytes has %d, %d of them before the first block: %v", name, len(frame), n, header, err)
				}
				if _, _, err := ZstdFrame(frame[:n-1]); err == nil {
					t.Errorf("%s: a frame that was cut is whole", name)
				}
			}
		}
	}
}

func FuzzZstdFrame(f *testing.F) {
	e, err := zstd.NewWriter(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(e.EncodeAll(bytes.Repeat([]byte("seed"), 99), nil))
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0})
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xff})
	f.Add([]byte("no frame"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, header, err := ZstdFrame(b)
		if err == nil && (n > len(b) || header < 5 || n < header+3) {
			t.Errorf("%d bytes have a frame of %d with a header of %d", len(b), n, header)
		}
	})
}
