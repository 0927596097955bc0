package initramfs

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"bakeoff/base/fault"

	"github.com/cavaliergopher/cpio"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// module makes the smallest kernel module that says what it depends on: an
// ELF file with a section .modinfo.
func module(info string) []byte {
	names := "\x00.modinfo\x00.shstrtab\x00"
	const head, section = 64, 64
	infoAt := head
	namesAt := infoAt + len(info)
	tableAt := (namesAt + len(names) + 7) &^ 7
	b := make([]byte, tableAt+3*section)
	copy(b, "\x7fELF\x02\x01\x01")
	le := binary.LittleEndian
	le.PutUint16(b[16:], uint16(elf.ET_REL))
	le.PutUint16(b[18:], uint16(elf.EM_X86_64))
	le.PutUint32(b[20:], 1)
	le.PutUint64(b[40:], uint64(tableAt))
	le.PutUint16(b[52:], head)
	le.PutUint16(b[58:], section)
	le.PutUint16(b[60:], 3)
	le.PutUint16(b[62:], 2)
	copy(b[infoAt:], info)
	copy(b[namesAt:], names)
	put := func(i int, name uint32, kind elf.SectionType, at, size int) {
		s := b[tableAt+i*section:]
		le.PutUint32(s, name)
		le.PutUint32(s[4:], uint32(kind))
		le.PutUint64(s[24:], uint64(at))
		le.PutUint64(s[32:], uint64(size))
	}
	put(1, 1, elf.SHT_PROGBITS, infoAt, len(info))
	put(2, 10, elf.SHT_STRTAB, namesAt, len(names))
	return b
}

func packed(t *testing.T, how string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch how {
	case "xz":
		w, err = xz.NewWriter(&b)
	case "zst":
		w, err = zstd.NewWriter(&b)
	case "gz":
		w = gzip.NewWriter(&b)
	}
	if err == nil {
		_, err = w.Write(data)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tree(t *testing.T) *Tree {
	t.Helper()
	files := fstest.MapFS{
		"modules.builtin":              {Data: []byte("kernel/fs/ext4/ext4.ko\nkernel/lib/crc-ccitt.ko\n")},
		"kernel/drivers/net/net.ko.xz": {Data: packed(t, "xz", module("license=GPL\x00depends=fail-over,base\x00"))},
		"kernel/net/fail-over.ko.zst": {Data: packed(t, "zst",
			module("depends=crc_ccitt\x00softdep=pre: hash missing crypto-sum32 post: late\x00"))},
		"kernel/drivers/base.ko.gz":      {Data: packed(t, "gz", module("depends=\x00"))},
		"kernel/crypto/hash.ko":          {Data: module("softdep=pre: fail_over\x00")},
		"kernel/crypto/sum32-generic.ko": {Data: module("depends=\x00")},
		"kernel/late.ko":                 {Data: module("depends=\x00")},
		"kernel/lame.ko":                 {Data: module("depends=nowhere\x00")},
		"kernel/one.ko":                  {Data: module("depends=other\x00")},
		"kernel/other.ko":                {Data: module("depends=one\x00")},
		"kernel/text.ko":                 {Data: []byte("no module at all")},
		"build":                          {Mode: fs.ModeSymlink},
		"kernel/drivers/net/readme.txt":  {Data: []byte("x")},
	}
	tr, err := OpenTree(files)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestOrder(t *testing.T) {
	tr := tree(t)
	got, err := tr.Order([]string{"net", "ext4", "base", "crc-ccitt"})
	if want := []string{"hash", "sum32_generic", "fail_over", "base", "net"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	for _, name := range []string{"nothing", "lame", "one"} {
		if _, err := tr.Order([]string{name}); !fault.Is(err, fault.Unsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := tr.Order([]string{"text"}); err == nil {
		t.Error("a text passes for a module")
	}
}

func TestArchive(t *testing.T) {
	build := func() []byte {
		var b bytes.Buffer
		a := New(&b)
		if err := a.File("/init", 0o755, 5, strings.NewReader("hello and more")); err != nil {
			t.Fatal(err)
		}
		paths, err := a.AddModules(tree(t), []string{"net"})
		if want := []string{"/modules/00-hash.ko", "/modules/01-sum32_generic.ko", "/modules/02-fail_over.ko",
			"/modules/03-base.ko", "/modules/04-net.ko"}; err != nil || !slices.Equal(paths, want) {
			t.Fatalf("got %q, %v", paths, err)
		}
		if err := a.Dir("/dev"); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	archive := build()
	if !bytes.Equal(archive, build()) {
		t.Error("the same input gave different bytes")
	}
	var names []string
	for r := cpio.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprintf("%s %o", h.Name, h.Mode&0o777))
		if h.Name == "init" {
			if text, _ := io.ReadAll(r); string(text) != "hello" {
				t.Errorf("/init holds %q", text)
			}
		}
		if h.Name == "modules/04-net.ko" {
			if data, _ := io.ReadAll(r); !bytes.HasPrefix(data, []byte("\x7fELF")) {
				t.Error("a module is still compressed")
			}
		}
	}
	if want := "init 755, modules 755, modules/00-hash.ko 644, modules/01-sum32_generic.ko 644, " +
		"modules/02-fail_over.ko 644, modules/03-base.ko 644, modules/04-net.ko 644, dev 755"; strings.Join(names,
		", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(names, ", "), want)
	}
}

// What other programs unpack is what was packed.
func TestCpioUnpacks(t *testing.T) {
	program, err := exec.LookPath("cpio")
	if err != nil {
		t.Skip("needs cpio: apt-get install cpio")
	}
	var b bytes.Buffer
	a := New(&b)
	if err := errors.Join(a.File("/a/b/c", 0o640, 3, strings.NewReader("abc")), a.Close()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(program, "-idm", "--quiet")
	cmd.Dir, cmd.Stdin = dir, &b
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "a/b/c")); err != nil || string(got) != "abc" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestFileThatEndsEarly(t *testing.T) {
	a := New(io.Discard)
	if err := a.File("/x", 0o644, 10, strings.NewReader("short")); err == nil {
		t.Error("a short file was taken")
	}
	if err := a.Close(); err == nil {
		t.Error("a broken archive was closed as if it were whole")
	}
}

// bzImage makes the head of one, with its version at the given place.
func bzImage(at uint16, version string) []byte {
	b := make([]byte, 0x4000)
	copy(b[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(b[0x20e:], at)
	if at := 0x200 + int(at); at < len(b) {
		copy(b[at:], version)
	}
	return b
}

func TestKernelVersion(t *testing.T) {
	elfKernel := append([]byte("\x7fELF"), bytes.Repeat([]byte{0}, 3<<20)...)
	copy(elfKernel[100:], "Linux version %s (%s)")
	copy(elfKernel[1<<20-7:], "Linux version 6.12.9-custom+ (me@here)") // across two chunks
	for _, tt := range []struct {
		image []byte
		want  string
	}{
		{bzImage(0x3000, "6.1.0-37-cloud-amd64 (debian@x) #1 SMP"), "6.1.0-37-cloud-amd64"},
		{elfKernel, "6.12.9-custom+"},
		{bzImage(0x3000, "../../../etc (x)"), ""},
		{bzImage(0xfff0, ""), ""},
		{[]byte("#!/bin/sh"), ""},
		{[]byte("\x7fELF and nothing"), ""},
		{nil, ""},
	} {
		got, err := KernelVersion(bytes.NewReader(tt.image))
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%.20q: got %q, %v; want %q", tt.image, got, err, tt.want)
		}
	}
}

func FuzzKernelVersion(f *testing.F) {
	f.Add(bzImage(0x100, "6.1.0 (x)"))
	f.Add([]byte("\x7fELF Linux version 5.10.0-8 (gcc)"))
	f.Add([]byte("\x7fELFLinux version "))
	f.Fuzz(func(t *testing.T, image []byte) {
		v, err := KernelVersion(bytes.NewReader(image))
		if err == nil && (v == "" || strings.Contains(v, "/") || strings.HasPrefix(v, ".")) {
			t.Errorf("%q becomes part of a path", v)
		}
	})
}

func FuzzDependencies(f *testing.F) {
	f.Add(module("depends=a,b\x00softdep=pre: c\x00"))
	f.Add(module(""))
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, data []byte) {
		depends, before, err := dependencies(data)
		if err != nil && len(depends)+len(before) > 0 {
			t.Error("an unreadable module depends on something")
		}
	})
}
