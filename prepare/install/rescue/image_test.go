package rescue

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
)

// file makes a sparse file that begins with text.
func file(t *testing.T, size unit.Bytes, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "out.raw")
	err := os.WriteFile(name, []byte(text), 0o600)
	if err == nil && size > 0 {
		err = os.Truncate(name, int64(size))
	}
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestRefusedImages(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file(t, DefaultSize, ""), link); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, file string
		size       unit.Bytes
		want       string
	}{
		{"a folder", dir, 0, "the path does not name a regular file"},
		{"a link", link, 0, "the path does not name a regular file"},
		{"a device", "/dev/null", 0, "the path names a device, not a file; leave --image out"},
		{"no folder", filepath.Join(dir, "none", "out.raw"), 0, "does not exist"},
		{"too small", file(t, unit.GiB, ""), 0, "1GiB is too small for an image: the pool alone needs 8 GiB; use " +
			"--image-size 16GiB"},
		{"a new one, too small", filepath.Join(dir, "new"), unit.GiB, "1GiB is too small"},
		{"another size", file(t, DefaultSize, ""), 20 * unit.GiB,
			"the image has 17179869184 bytes, but --image-size says 21474836480; leave --image-size out"},
		{"part of a sector", file(t, DefaultSize+1, ""), 0, "not a multiple of 512"},
		{"qcow2", file(t, DefaultSize, "QFI\xfb"), 0, "the file is a qcow2 image, not a raw image; use a new file"},
		{"VHDX", file(t, DefaultSize, "vhdxfile"), 0, "the file is a VHDX image"},
	} {
		for _, access := range []Access{Look, Make} {
			before, _ := os.Stat(tt.file)
			i, err := OpenImage(tt.file, tt.size, access)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), tt.file) {
				t.Errorf("%s, access %d: %+v, %v", tt.name, access, i, err)
			}
			if k := fault.Of(err); k != fault.Invalid && k != fault.NotFound {
				t.Errorf("%s: the kind is %v", tt.name, k)
			}
			after, _ := os.Stat(tt.file)
			if (before == nil) != (after == nil) || before != nil && before.Size() != after.Size() {
				t.Errorf("%s, access %d: refused, and changed", tt.name, access)
			}
		}
	}
}

// Only a command that writes makes the file. If nothing was installed, the file goes again.
func TestNewImage(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out.raw")
	open := func(size unit.Bytes, access Access) *Image {
		t.Helper()
		i, err := OpenImage(name, size, access)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	size := func() int64 {
		info, err := os.Stat(name)
		if err != nil {
			return -1
		}
		return info.Size()
	}
	end := func(i *Image, installed bool) {
		t.Helper()
		if err := i.Close(installed); err != nil {
			t.Error(err)
		}
	}
	if _, err := OpenImage(name, 0, Change); !fault.Is(err, fault.NotFound) || size() != -1 {
		t.Errorf("an image without an installation: %v", err)
	}
	i := open(0, Look)
	if !i.New || i.Size != int64(DefaultSize) || size() != -1 {
		t.Errorf("%+v, and the file has %d bytes", i, size())
	}
	end(i, true)
	i = open(12*unit.GiB, Make)
	if err := os.WriteFile(i.Variables(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !i.New || size() != int64(12*unit.GiB) {
		t.Errorf("%+v, and the file has %d bytes", i, size())
	}
	end(i, false)
	if _, err := os.Stat(i.Variables()); size() != -1 || err == nil {
		t.Error("what was made for nothing stays")
	}
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	end(open(0, Make), false)
	if size() != 0 {
		t.Errorf("an empty file has %d bytes after nothing was installed", size())
	}
	end(open(0, Make), true)
	i = open(0, Make)
	if i.New || size() != int64(DefaultSize) {
		t.Errorf("%+v, and the file has %d bytes", i, size())
	}
	end(i, false)
	if size() != int64(DefaultSize) {
		t.Error("a file that was there before is gone")
	}
}

// The serial number is the same each time, by whatever name the path is written, and that of
// another file is another one.
func TestSerial(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	serial := func(name string) string {
		t.Helper()
		i, err := OpenImage(name, 0, Look)
		if err != nil {
			t.Fatal(err)
		}
		return i.Serial
	}
	want := serial(filepath.Join(dir, "out.raw"))
	for _, name := range []string{"out.raw", "./out.raw", filepath.Join(link, "out.raw")} {
		if got := serial(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if serial("other.raw") == want || len(want) > 20 {
		t.Errorf("the serial number is %s", want)
	}
}

func TestImageInUse(t *testing.T) {
	name := file(t, DefaultSize, "")
	first, err := OpenImage(name, 0, Make)
	if err != nil {
		t.Fatal(err)
	}
	for _, access := range []Access{Look, Change, Make} {
		if _, err := OpenImage(name, 0, access); err == nil ||
			!strings.Contains(err.Error(), "the image is in use: another process installs into it; wait until it ends") {
			t.Errorf("access %d: %v", access, err)
		}
	}
	if err := first.Close(true); err != nil {
		t.Fatal(err)
	}
	if first, err = OpenImage(name, 0, Make); err != nil {
		t.Fatal(err)
	}
	first.Close(true)
}
