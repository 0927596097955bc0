package qemu

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/reach/conn/local"
)

// elfKernel is a small ELF file of 64 or 32 bits with one note of the owner Xen and a
// text.
func elfKernel(wide bool, note uint32, text string) []byte {
	le := binary.LittleEndian
	b := make([]byte, 256)
	copy(b, "\x7fELF\x01\x01\x01")
	b[16], b[18], b[20] = 2, 62, 1 // an executable for amd64
	offset := uint32(128)
	notes := append(le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, 4), 4), note), "Xen\x00\x00\x00\x10\x00"...)
	if wide {
		b[4] = 2
		le.PutUint64(b[32:], 64) // e_phoff
		le.PutUint16(b[54:], 56)
		le.PutUint16(b[56:], 1)
		le.PutUint32(b[64:], 4) // PT_NOTE
		le.PutUint64(b[64+8:], uint64(offset))
		le.PutUint64(b[64+32:], uint64(len(notes)))
	} else {
		le.PutUint32(b[28:], 52)
		le.PutUint16(b[42:], 32)
		le.PutUint16(b[44:], 1)
		le.PutUint32(b[52:], 4)
		le.PutUint32(b[52+4:], offset)
		le.PutUint32(b[52+16:], uint32(len(notes)))
	}
	copy(b[offset:], notes)
	return append(b, "\x00"+text+"\x00"...)
}

// netbsdText is the line that a NetBSD kernel begins with; the version is that of the
// kernel that was measured.
const netbsdText = "NetBSD 10.99.12 (MICROVM) #0: made for this test\x00virtio_mmio.device="

func TestReadKernelFile(t *testing.T) {
	multi := make([]byte, 64)
	binary.LittleEndian.PutUint32(multi[16:], 0x1BADB002)
	binary.LittleEndian.PutUint32(multi[24:], ^uint32(0x1BADB002)+1)
	bz := make([]byte, 0x400)
	copy(bz[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(bz[0x20e:], 0x100)
	copy(bz[0x300:], "6.1.0-56-cloud-amd64 (debian)\x00")
	for name, tt := range map[string]struct {
		file                   []byte
		system, version, loads string
	}{
		"netbsd":    {elfKernel(true, 18, netbsdText), "netbsd", "NetBSD 10.99.12", LoadsPVH},
		"freebsd":   {elfKernel(true, 18, "FreeBSD 15.0-CURRENT #0"), "freebsd", "FreeBSD 15.0-CURRENT", LoadsPVH},
		"linux":     {elfKernel(true, 18, "Linux version 6.1.0-1 (x)"), "linux", "Linux version 6.1.0-1", LoadsPVH},
		"32 bits":   {elfKernel(false, 18, ""), "", "", LoadsPVH},
		"no note":   {elfKernel(true, 17, netbsdText), "netbsd", "NetBSD 10.99.12", ""},
		"multiboot": {append(multi, "OpenBSD 7.5"...), "openbsd", "OpenBSD 7.5", LoadsMultiboot},
		"bzImage":   {bz, "linux", "Linux version 6.1.0-56-cloud-amd64 (debian)", LoadsBzImage},
		"empty":     {nil, "", "", ""},
		"text":      {[]byte("#!/bin/sh\n"), "", "", ""},
	} {
		file := filepath.Join(t.TempDir(), "kernel")
		if err := os.WriteFile(file, tt.file, 0o600); err != nil {
			t.Fatal(err)
		}
		k, err := ReadKernelFile(t.Context(), local.Conn{}, nil, file)
		if err != nil || k.System != tt.system || k.Version != tt.version || k.Loads != tt.loads || len(k.SHA256) != 64 ||
			k.DeviceWords != (tt.system == "netbsd") || (k.Kind == "MICROVM") != (tt.system == "netbsd") {
			t.Errorf("%s: %+v, %v", name, k, err)
		}
		if err := k.CheckLoads(file); (err == nil) != (tt.loads != "") ||
			err != nil && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "PVH note")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// As NetBSD distributes its kernels.
	file := filepath.Join(t.TempDir(), "netbsd.gz")
	if err := os.WriteFile(file, []byte("\x1f\x8b\x08\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := ReadKernelFile(t.Context(), local.Conn{}, nil, file)
	if err == nil {
		err = k.CheckLoads(file)
	}
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "compressed as a whole (gzip)") ||
		!strings.Contains(fault.Fix(err), "gunzip") {
		t.Errorf("a compressed kernel: %v", err)
	}
	if _, err := ReadKernelFile(t.Context(), local.Conn{}, nil, "/no/kernel"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a kernel that is not there: %v", err)
	}
}

func FuzzLoads(f *testing.F) {
	f.Add(elfKernel(true, 18, ""))
	f.Add(elfKernel(false, 18, ""))
	f.Add(bytes.Repeat([]byte("HdrS"), 200))
	f.Fuzz(func(t *testing.T, b []byte) {
		more := func(off, size int64) ([]byte, error) {
			if off < 0 || size < 0 || size > maxHeaders {
				t.Fatalf("reads %d bytes at %d", size, off)
			}
			return b[min(off, int64(len(b))):min(off+size, int64(len(b)))], nil
		}
		if loadedAs(b, &distant{head: b[:min(len(b), 100)], left: maxHeaders, more: more}) == LoadsBzImage {
			if v := bzImageVersion(b); len(v) > 4*300 {
				t.Errorf("a version of %d bytes", len(v))
			}
		}
	})
}
