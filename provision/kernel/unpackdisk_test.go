package kernel

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/reach/initramfs"
)

// oneFile is an initial RAM disk with one file.
func oneFile(t *testing.T, name string) []byte {
	t.Helper()
	var b bytes.Buffer
	a := initramfs.New(&b)
	if err := a.File(name, 0o755, 4, strings.NewReader("text")); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestUnpackRAMDisk(t *testing.T) {
	early, late := oneFile(t, "/early"), oneFile(t, "/init")
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write(late)
	w.Close()
	plain := append(bytes.Clone(early), late...)
	out, packed, err := UnpackRAMDisk(append(bytes.Clone(early), z.Bytes()...))
	if err != nil || !packed || !bytes.Equal(out, plain) {
		t.Errorf("packed %v, %v; %d bytes of %d", packed, err, len(out), len(plain))
	}
	if out, packed, err = UnpackRAMDisk(plain); err != nil || packed || !bytes.Equal(out, plain) {
		t.Errorf("without compression: packed %v, %v", packed, err)
	}
	if d, err := InspectRAMDisk(out); err != nil || !d.Init || len(d.Archives) != 2 {
		t.Errorf("what was unpacked: %+v, %v", d, err)
	}
	for _, bad := range [][]byte{[]byte("no archive"), z.Bytes()[:z.Len()/2], early[:50]} {
		if _, _, err := UnpackRAMDisk(bad); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", bad[:min(len(bad), 10)], err)
		}
	}
}

func FuzzUnpackRAMDisk(f *testing.F) {
	f.Add([]byte("070701"))
	f.Add([]byte("\x1f\x8b\x08"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if out, _, err := UnpackRAMDisk(b); err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%d bytes, %v", len(out), err)
		}
	})
}
