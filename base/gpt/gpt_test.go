package gpt

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unicode/utf16"

	"bakeoff/base/fault"
)

// diskWith is a disk of 128 sectors of 512 bytes whose table has these partitions, at
// the beginning and at the end.
func diskWith(parts ...Partition) []byte {
	const sector, count = 512, 8
	le := binary.LittleEndian
	disk := make([]byte, 128*sector)
	entries := make([]byte, count*128)
	for i, p := range parts {
		e := entries[i*128:]
		e[0] = 1 // some type
		le.PutUint64(e[32:], uint64(p.Offset/sector))
		le.PutUint64(e[40:], uint64((p.Offset+p.Size)/sector-1))
		le.PutUint64(e[48:], p.Attributes)
		for k, u := range utf16.Encode([]rune(p.Name)) {
			le.PutUint16(e[56+2*k:], u)
		}
	}
	for _, at := range [][3]uint64{{1, 127, 2}, {127, 1, 125}} { // header, the other one, entries
		h := disk[at[0]*sector:][:headerSize]
		copy(h, "EFI PART")
		le.PutUint32(h[12:], headerSize)
		le.PutUint64(h[24:], at[0])
		le.PutUint64(h[32:], at[1])
		le.PutUint64(h[72:], at[2])
		le.PutUint32(h[80:], count)
		le.PutUint32(h[84:], 128)
		le.PutUint32(h[88:], crc32.ChecksumIEEE(entries))
		le.PutUint32(h[16:], crc32.ChecksumIEEE(h))
		copy(disk[at[2]*sector:], entries)
	}
	return disk
}

func part(name string, first int64, attributes uint64) Partition {
	return Partition{Name: name, Offset: first * 512, Size: 4 * 512, Attributes: attributes}
}

func TestBoot(t *testing.T) {
	plain, me, me2 := part("plain", 20, 0), part("me", 24, BootMe), part("me too", 28, BootMe|1<<60)
	once, failed := part("once", 32, BootOnce|BootMe), part("failed", 36, BootOnce|BootFailed)
	for name, c := range map[string]struct {
		parts []Partition
		name  string
		want  int
		kind  fault.Kind
	}{
		"the first BOOTME":          {[]Partition{plain, me, me2}, "", 2, 0},
		"BOOTONCE before BOOTME":    {[]Partition{me, once}, "", 2, 0},
		"BOOTFAILED is left out":    {[]Partition{failed, me}, "", 2, 0},
		"a name before attributes":  {[]Partition{once, plain}, "plain", 2, 0},
		"a failed one, by its name": {[]Partition{once, failed}, "failed", 2, 0},
		"no attribute":              {[]Partition{plain}, "", 0, fault.NotFound},
		"only a failed one":         {[]Partition{failed}, "", 0, fault.NotFound},
		"no such name":              {[]Partition{me}, "other", 0, fault.NotFound},
		"a name twice":              {[]Partition{me, part("me", 40, 0)}, "me", 0, fault.Invalid},
	} {
		parts, err := Read(bytes.NewReader(diskWith(c.parts...)), 128*512)
		if err != nil || len(parts) != len(c.parts) {
			t.Fatalf("%s: %v, %v", name, parts, err)
		}
		got, err := Boot(parts, c.name)
		if got.Number != c.want || (err == nil) != (c.want != 0) || err != nil && fault.Of(err) != c.kind {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestAttributes(t *testing.T) {
	if got := Attributes(1<<2 | BootMe | 1<<60); !slices.Equal(got, []string{"legacy-boot", "bootme", "bit-60"}) {
		t.Errorf("%q", got)
	}
}

func TestSetAttributes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, diskWith(part("a", 20, BootMe), part("b", 24, 0)), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := SetAttributes(f, 128*512, 3, 0); !fault.Is(err, fault.NotFound) {
		t.Errorf("a partition that does not exist: %v", err)
	}
	if err := SetAttributes(f, 128*512, 2, BootOnce); err != nil {
		t.Fatal(err)
	}
	disk, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	// Both tables are the ones that a disk with these attributes has from the start.
	if want := diskWith(part("a", 20, BootMe), part("b", 24, BootOnce)); !bytes.Equal(disk, want) {
		t.Error("the disk differs from one that was made with the attribute")
	}
}

// FuzzRead gives any bytes: partitions lie on their disk.
func FuzzRead(f *testing.F) {
	f.Add(diskWith(part("a", 20, BootMe)))
	f.Add(diskWith())
	f.Fuzz(func(t *testing.T, disk []byte) {
		parts, err := Read(bytes.NewReader(disk), int64(len(disk)))
		if err != nil && !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.NotFound) {
			t.Errorf("an error of another kind: %v", err)
		}
		for _, p := range parts {
			if p.Offset <= 0 || p.Size <= 0 || p.Offset > int64(len(disk))-p.Size {
				t.Errorf("%+v of %d bytes", p, len(disk))
			}
		}
	})
}
