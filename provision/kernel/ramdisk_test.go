package kernel

import (
	"bytes"
	"compress/gzip"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/reach/initramfs"
)

// archive is a RAM disk with these files.
func archive(t testing.TB, names ...string) []byte {
	var b bytes.Buffer
	a := initramfs.New(&b)
	for _, n := range names {
		if err := a.File(n, 0o755, 5, strings.NewReader("hello")); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zipped(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(b)
	z.Close()
	return out.Bytes()
}

func TestInspectRAMDisk(t *testing.T) {
	first, second := archive(t, "/kernel/x86/microcode.bin"), archive(t, "/init", "/modules/00-a.ko", "/m/b.ko.xz")
	early := append(slices.Clone(first), make([]byte, 512-len(first)%512)...)
	for name, c := range map[string]struct {
		data  []byte
		files []int
		init  bool
		mods  int
		how   string
	}{
		"one":               {second, []int{5}, true, 2, ""},
		"compressed":        {zipped(second), []int{5}, true, 2, "gzip"},
		"early and another": {append(slices.Clone(early), second...), []int{3, 5}, true, 2, ""},
		"early and gzip":    {append(slices.Clone(early), zipped(second)...), []int{3, 5}, true, 2, "gzip"},
		"without init":      {first, []int{3}, false, 0, ""},
	} {
		d, err := InspectRAMDisk(c.data)
		var files []int
		for _, a := range d.Archives {
			files = append(files, a.Files)
		}
		if err != nil || !slices.Equal(files, c.files) || d.Init != c.init || d.Modules != c.mods ||
			d.Archives[len(d.Archives)-1].Compression != c.how {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	for name, bad := range map[string][]byte{"text": []byte("hello"), "cut": second[:len(second)/2],
		"cut gzip": zipped(second)[:60], "more": append(slices.Clone(second), "more"...)} {
		if d, err := InspectRAMDisk(bad); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

// FuzzRAMDisk gives any bytes.
func FuzzRAMDisk(f *testing.F) {
	f.Add(archive(f, "/init"))
	f.Add(zipped(archive(f, "/init")))
	f.Add([]byte("070701"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if d, err := InspectRAMDisk(data); err == nil && d.Init && len(d.Archives) == 0 {
			t.Error("an init without an archive")
		}
	})
}
