package gpt

import (
	"bytes"
	"slices"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/gpt/gpttest"
)

// diskWith is a disk of 128 sectors with these partitions of 4 sectors.
func diskWith(parts ...gpttest.Part) []byte { return gpttest.Disk(size, parts...) }

const size = 128 * gpttest.Sector

func part(name string, first int, attributes uint64) gpttest.Part {
	return gpttest.Part{Name: name, From: first * gpttest.Sector, Content: make([]byte, 4*gpttest.Sector),
		Attributes: attributes}
}

func TestBoot(t *testing.T) {
	plain, me, me2 := part("plain", 20, 0), part("me", 24, BootMe), part("me too", 28, BootMe|1<<60)
	once, failed := part("once", 32, BootOnce|BootMe), part("failed", 36, BootOnce|BootFailed)
	for name, c := range map[string]struct {
		parts []gpttest.Part
		name  string
		want  int
		kind  fault.Kind
	}{
		"the first BOOTME":          {[]gpttest.Part{plain, me, me2}, "", 2, 0},
		"BOOTONCE before BOOTME":    {[]gpttest.Part{me, once}, "", 2, 0},
		"BOOTFAILED is left out":    {[]gpttest.Part{failed, me}, "", 2, 0},
		"a name before attributes":  {[]gpttest.Part{once, plain}, "plain", 2, 0},
		"a failed one, by its name": {[]gpttest.Part{once, failed}, "failed", 2, 0},
		"no attribute":              {[]gpttest.Part{plain}, "", 0, fault.NotFound},
		"only a failed one":         {[]gpttest.Part{failed}, "", 0, fault.NotFound},
		"no such name":              {[]gpttest.Part{me}, "other", 0, fault.NotFound},
		"a name twice":              {[]gpttest.Part{me, part("me", 40, 0)}, "me", 0, fault.Invalid},
	} {
		parts, err := Read(bytes.NewReader(diskWith(c.parts...)), size)
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
