package firecracker

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/ulikunitz/xz"
)

// packed is a bzImage with kernel in it.
func packed(t testing.TB, how string, kernel []byte) []byte {
	var b bytes.Buffer
	switch how {
	case "gzip":
		z := gzip.NewWriter(&b)
		z.Write(kernel)
		z.Close()
	case "xz":
		z, err := xz.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		z.Write(kernel)
		z.Close()
	case "lz4":
		z := lz4.NewWriter(&b)
		if err := z.Apply(lz4.LegacyOption(true)); err != nil {
			t.Fatal(err)
		}
		z.Write(kernel)
		z.Close()
	case "zstd":
		z, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		z.Write(kernel)
		z.Close()
	}
	if how != "gzip" { // which ends with it already
		b.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(kernel))))
	}
	image := make([]byte, 1024, 1024+b.Len())
	image[0x1f1] = 1
	copy(image[0x202:], "HdrS")
	binary.LittleEndian.PutUint32(image[0x24c:], uint32(b.Len()))
	return append(image, b.Bytes()...)
}

func TestVmlinux(t *testing.T) {
	kernel := append([]byte("\x7fELF"), bytes.Repeat([]byte("kernel"), 10000)...)
	if got, err := vmlinux(kernel); err != nil || !bytes.Equal(got, kernel) {
		t.Errorf("an ELF kernel: %v", err)
	}
	for _, how := range []string{"gzip", "xz", "lz4", "zstd"} {
		image := packed(t, how, kernel)
		if got, err := vmlinux(image); err != nil || !bytes.Equal(got, kernel) {
			t.Errorf("%s: %d bytes, %v", how, len(got), err)
		}
		if _, err := vmlinux(image[:len(image)-8]); err == nil {
			t.Errorf("%s: half a kernel was taken", how)
		}
	}
	for _, bad := range [][]byte{nil, []byte("MZ"), make([]byte, 4096), packed(t, "gzip", []byte("no kernel"))} {
		if _, err := vmlinux(bad); err == nil {
			t.Errorf("%d bytes were taken for a kernel", len(bad))
		}
	}
}

func FuzzVmlinux(f *testing.F) {
	f.Add(packed(f, "gzip", []byte("\x7fELFx")))
	f.Add(packed(f, "xz", []byte("\x7fELFx")))
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, image []byte) {
		if out, err := vmlinux(image); err == nil && !bytes.HasPrefix(out, []byte("\x7fELF")) {
			t.Error("a file that is not a kernel was accepted")
		}
	})
}
