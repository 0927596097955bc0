package unpack

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

// sparse is an archive with a file of which only the size is stored.
func sparse(t testing.TB, size int64) []byte {
	b := pack(t, with(head(tar.TypeReg, "f"), func(e *entry) { e.Format = tar.FormatGNU }))
	copy(b[156:], "S")
	copy(b[386:], fmt.Sprintf("%011o\x00%011o\x00", size, 0)) // nothing is stored
	copy(b[483:], fmt.Sprintf("%011o\x00", size))
	return checked(b)
}

// typed is an archive with one entry of any type.
func typed(t testing.TB, flag byte) []byte {
	b := pack(t, with(head(tar.TypeReg, "f"), func(e *entry) { e.Format = tar.FormatGNU }))
	b[156] = flag
	return checked(b)
}

// checked corrects the checksum of the first header.
func checked(b []byte) []byte {
	copy(b[148:], "        ")
	n := 0
	for _, c := range b[:512] {
		n += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", n))
	return b
}

func many(n int, one func(i int) entry) (out []entry) {
	for i := range n {
		out = append(out, one(i))
	}
	return out
}

// hostile are images that are refused, with a part of the reason.
func hostile(t testing.TB, outside string) []struct {
	name   string
	layers []Layer
	limits Limits
	want   string
} {
	type c = struct {
		name   string
		layers []Layer
		limits Limits
		want   string
	}
	one := func(entries ...entry) []Layer { return layers(t, entries) }
	two := func(lower []entry, upper ...entry) []Layer { return layers(t, lower, upper) }
	raw := func(b []byte) []Layer { return []Layer{layer(b)} }
	changed := func(change func(*Layer)) []Layer {
		l := layer(gzipped(t, pack(t, file("f", "x"))))
		change(&l)
		return []Layer{l}
	}
	small := Limits{Bytes: 1 << 20, Entries: 100, Names: 4 << 10, Ratio: 10, Slack: 64 << 10}
	zeros := append(pack(t, file("f", "x")), make([]byte, 2<<20)...)
	full := pack(t, file("f", strings.Repeat("x", 900<<10)))
	up := "../" + filepath.Base(outside)
	plain := pack(t, file("f", strings.Repeat("x", 4000)))
	gz, zst, xzf := gzipped(t, plain), zstded(t, plain), xzed(t, plain)
	damaged := func(b []byte, at int) []byte {
		b = bytes.Clone(b)
		b[at] ^= 0xff
		return b
	}
	device := func(name string, flag byte) entry {
		return with(head(flag, name), func(e *entry) { e.Devmajor, e.Devminor = 1, 3 })
	}
	return []c{
		{"path above", one(file("../x", "")), Limits{}, "has .."},
		{"path above after a folder", one(file("a/../../x", "")), Limits{}, "has .."},
		{"path above in the middle", one(file("a/../x", "")), Limits{}, "has .."},
		{"path above after a dot", one(file("./../x", "")), Limits{}, "has .."},
		{"absolute path above", one(file("/../x", "")), Limits{}, "has .."},
		{"folder above", one(folder("a/..")), Limits{}, "has .."},
		{"empty path", raw(checked(func() []byte { b := pack(t, file("f", "")); b[0] = 0; return b }())),
			Limits{}, "path is empty"},
		{"long name", one(file(strings.Repeat("n", 256), "")), Limits{}, "256 bytes"},
		{"long path", one(folder(strings.Repeat("n/", 2049))), Limits{}, "4098 bytes"},
		{"root is a link", one(symlink(".", up)), Limits{}, "root of the image is not a folder"},
		{"root is a file", one(file("./.", "")), Limits{}, "root of the image is not a folder"},

		{"link out, then through it", one(symlink("l", up), file("l/x", "")), Limits{}, "leaves the image"},
		{"link out of a folder", one(folder("d"), symlink("d/l", "../"+up), file("d/l/x", "")), Limits{}, "leaves the image"},
		{"link to a link out", one(symlink("a", "b"), symlink("b", "../.."), file("a/x", "")), Limits{}, "leaves the image"},
		{"absolute link above", one(symlink("l", "/../.."), file("l/x", "")), Limits{}, "leaves the image"},
		{"link out of a link", one(symlink("a", "/"), symlink("a/b", ".."), file("a/b/x", "")), Limits{}, "leaves the image"},
		{"link out in a lower layer", two([]entry{symlink("l", up)}, file("l/x", "")), Limits{}, "leaves the image"},
		{"folder through a link out", one(symlink("l", up), folder("l/d")), Limits{}, "leaves the image"},
		{"link through a link out", one(symlink("l", up), symlink("l/d", "x")), Limits{}, "leaves the image"},
		{"links in a circle", one(symlink("a", "b"), symlink("b", "a"), file("a/x", "")), Limits{}, "more than 40 links"},
		{"link to itself", one(symlink("a", "a"), file("a/x", "")), Limits{}, "more than 40 links"},
		{"many links", one(append(many(45, func(i int) entry {
			return symlink(fmt.Sprint("l", i), fmt.Sprint("l", i+1))
		}), file("l0/x", ""))...), Limits{}, "more than 40 links"},
		{"links that grow", one(symlink("a", strings.Repeat("a/", 1000)), file("a/x", "")), Limits{}, "bytes"},
		{"folders deeper behind a link", one(symlink("a", strings.Repeat("nnnnnnn/", 511)),
			file("a/"+strings.Repeat("m", 200)+"/x", "")), Limits{}, "4096 bytes"},
		{"link without a target", raw(typed(t, tar.TypeSymlink)), Limits{}, "the link has no target"},
		{"long target", one(symlink("l", strings.Repeat("t/", 2048))), Limits{}, "target of the link has 4096 bytes"},
		{"file as a folder", one(file("f", ""), file("f/x", "")), Limits{}, "is not a folder"},
		{"file of a lower layer as a folder", two([]entry{file("f", "")}, file("f/x", "")), Limits{}, "is not a folder"},

		{"hard link above", one(hardlink("h", up+"/secret")), Limits{}, "has .."},
		{"hard link to a path of the machine", one(hardlink("h", outside+"/secret")), Limits{}, "does not exist"},
		{"hard link through a link out", one(symlink("l", up), hardlink("h", "l/secret")), Limits{}, "leaves the image"},
		{"hard link to nothing", one(hardlink("h", "x")), Limits{}, "no earlier entry"},
		{"hard link to a later file", one(hardlink("h", "x"), file("x", "")), Limits{}, "no earlier entry"},
		{"hard link to a folder", one(folder("d"), hardlink("h", "d")), Limits{}, "folder"},
		{"hard link to the root", one(hardlink("h", "/")), Limits{}, "hard link to the root"},
		{"hard link to itself", one(file("h", ""), hardlink("h", "./h")), Limits{}, "itself"},
		{"hard link without a target", raw(typed(t, tar.TypeLink)), Limits{}, "path is empty"},
		{"hard link to a device", one(device("dev/null", tar.TypeChar), hardlink("h", "dev/null")),
			Limits{}, "does not exist"},
		{"hard link in place of the folder of its target", two([]entry{file("d/f", "")}, hardlink("d", "d/f")), Limits{},
			"which it replaces"},

		{"character device", one(device("null", tar.TypeChar)), Limits{}, "device"},
		{"block device", one(device("etc/sda", tar.TypeBlock)), Limits{}, "device"},
		{"device through a link", one(folder("dev"), symlink("d", "dev"), device("d/sda", tar.TypeBlock)), Limits{},
			"device"},
		{"whiteout of the kernel's overlay", two([]entry{file("f", "")}, head(tar.TypeChar, "f")), Limits{},
			"device"},
		{"unknown type", raw(typed(t, 'Z')), Limits{}, "unknown type"},
		{"contiguous file", raw(typed(t, tar.TypeCont)), Limits{}, "unknown type"},

		{"whiteout of nothing", one(file(".wh.", "")), Limits{}, "names no file"},
		{"whiteout of the folder", one(file("a/.wh..", "")), Limits{}, "names no file"},
		{"whiteout of the folder above", one(file("a/.wh...", "")), Limits{}, "names no file"},
		{"unknown whiteout", one(file(".wh..wh.x", "")), Limits{}, "names no file"},
		{"whiteout that is a folder", one(folder(".wh.x")), Limits{}, "a whiteout is a file"},
		{"whiteout that is a link", one(symlink(".wh.x", "y")), Limits{}, "a whiteout is a file"},
		{"whiteout above", one(file("../.wh.x", "")), Limits{}, "has .."},
		{"whiteout through a link out", two([]entry{symlink("l", up)}, file("l/.wh.secret", "")),
			Limits{}, "leaves the image"},
		{"opaque folder through a link out", two([]entry{symlink("l", up)}, file("l/"+opaque, "")), Limits{},
			"leaves the image"},

		{"link in place of a folder", one(folder("d"), file("d/x", ""), symlink("d", up), file("d/y", "")), Limits{},
			"replaces a folder"},
		{"file in place of a folder", one(folder("d"), file("d", "")), Limits{}, "replaces a folder"},
		{"file in place of an unnamed folder", two([]entry{file("f", "")}, file("d/x", ""), file("d", "")), Limits{},
			"replaces a folder"},
		{"hard link in place of a folder", one(file("f", ""), folder("d"), hardlink("d", "f")),
			Limits{}, "replaces a folder"},

		{"too many bytes", one(file("a", strings.Repeat("x", 600<<10)), file("b", strings.Repeat("x", 600<<10))),
			Limits{Bytes: 1 << 20, Entries: 100, Names: 1 << 20, Ratio: 1000, Slack: 1 << 30}, "more than 1048576 bytes"},
		{"too many files", one(many(101, func(i int) entry { return file(fmt.Sprint(i), "") })...),
			small, "more than 100 files"},
		{"too many folders", one(file(strings.Repeat("d/", 101)+"f", "")), small, "more than 100 files"},
		{"too many bytes of paths",
			one(many(50, func(i int) entry { return file(fmt.Sprint(strings.Repeat("n", 100), i), "") })...),
			small, "paths"},
		{"sparse file", raw(sparse(t, 8<<30-1)), small, "more than"},
		{"full file of a small layer", raw(gzipped(t, full)), small, "bytes on the disk"},
		{"attributes of a small layer", raw(gzipped(t, pack(t, many(99, func(i int) entry {
			return with(file(fmt.Sprint(i), ""), func(e *entry) {
				e.PAXRecords = map[string]string{"SCHILY.xattr.user.a": strings.Repeat("x", 3000)}
			})
		})...))), small, "bytes on the disk"},
		{"bomb of gzip", raw(gzipped(t, zeros)), small, "holds more than"},
		{"bomb of zstd", raw(zstded(t, zeros)), small, "holds more than"},
		{"bomb of xz", raw(xzed(t, zeros)), small, "holds more than"},
		{"bomb of gzip in gzip", raw(gzipped(t, gzipped(t, zeros))), small, "not a tar file"},

		{"end in the file", raw(plain[:1000]), Limits{}, "ends in the middle of the file"},
		{"end in the header", raw(plain[:300]), Limits{}, "not a tar file"},
		{"end of gzip", raw(gz[:len(gz)-9]), Limits{}, "damaged"},
		{"end of zstd", raw(zst[:len(zst)-5]), Limits{}, "damaged"},
		{"end of xz", raw(xzf[:len(xzf)-20]), Limits{}, "damaged"},
		{"damaged gzip", raw(damaged(gz, len(gz)-6)), Limits{}, "damaged"},
		{"damaged zstd", raw(damaged(zst, len(zst)-2)), Limits{}, "damaged"},
		{"damaged xz", raw(damaged(xzf, 30)), Limits{}, "damaged"},
		{"damaged header", raw(damaged(plain, 1)), Limits{}, "not a tar file"},
		{"text", raw(bytes.Repeat([]byte("no archive\n"), 100)), Limits{}, "not a tar file"},
		{"lz4", raw([]byte("\x04\x22\x4d\x18\x64\x40\xa7")), Limits{}, "compressed with lz4, which bakeoff cannot read"},
		{"lzma", raw([]byte("\x5d\x00\x00\x80\x00\xff\xff")), Limits{}, "compressed with lzma, which"},
		{"zip", raw([]byte("PK\x03\x04\x14\x00")), Limits{}, "compressed with zip, which bakeoff cannot read"},
		{"zstd with a large window", raw([]byte("\x28\xb5\x2f\xfd\x04\x90\x01\x00\x00")), Limits{},
			"takes more than 128 MiB"},
		{"nothing", raw(nil), Limits{}, "holds no file"},

		{"another digest", changed(func(l *Layer) { l.Digest = sum(nil) }), Limits{}, "layer was changed or is damaged"},
		{"another digest inside", changed(func(l *Layer) { l.DiffID = sum(nil) }), Limits{}, "unpacked layer was changed"},
		{"appended bytes", func() []Layer {
			l, b := layer(plain), append(bytes.Clone(plain), "more"...)
			l.Open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
			return []Layer{l}
		}(), Limits{}, "was changed"},

		{"redirect of an overlay", one(attribute("trusted.overlay.redirect", "/etc")), Limits{}, "trusted.overlay.redirect"},
		{"opaque folder of an overlay", one(attribute("trusted.overlay.opaque", "y")), Limits{}, "trusted.overlay.opaque"},
		{"redirect of a user's overlay", one(attribute("user.overlay.redirect", "/etc")), Limits{}, "user.overlay.redirect"},
		{"long attribute name", one(attribute("user."+strings.Repeat("n", 251), "x")), Limits{}, "256 bytes"},
		{"attribute without a name", one(attribute("", "x")), Limits{}, "0 bytes"},
		{"long attribute", one(attribute("user.x", strings.Repeat("x", 65537))), Limits{}, "65537 bytes"},

		{"no user", one(with(file("f", ""), func(e *entry) { e.Uid = 1<<32 - 1 })), Limits{}, "not a valid user and group"},
		{"user that is too large", one(with(file("f", ""), func(e *entry) { e.Uid = 1 << 40 })),
			Limits{}, "not a valid user and group"},
		{"no group", one(with(symlink("l", "x"), func(e *entry) { e.Gid = 1<<32 - 1 })), Limits{},
			"not a valid user and group"},
	}
}

func TestHostileImagesAreRefused(t *testing.T) {
	base := t.TempDir()
	outside := filepath.Join(base, "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := tree(t, base)
	cases := hostile(t, outside)
	if len(cases) < 50 {
		t.Errorf("%d cases", len(cases))
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := options()
			o.Limits = c.limits
			err := Unpack(t.Context(), filepath.Join(base, "root"), c.layers, o)
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant %q", err, c.want)
			}
			if after := tree(t, base); after != before {
				t.Errorf("the files outside changed, or something was left:\n%s\nwant\n%s", after, before)
			}
		})
	}
}

// Whatever an archive holds, nothing outside changes, and on an error nothing is left.
func FuzzUnpack(f *testing.F) {
	base := f.TempDir()
	outside := filepath.Join(base, "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600); err != nil {
		f.Fatal(err)
	}
	for _, c := range hostile(f, outside) {
		var all [2][]byte
		for i, l := range c.layers {
			r, err := l.Open()
			if err != nil {
				f.Fatal(err)
			}
			if all[i], err = io.ReadAll(r); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(all[0], all[1])
	}
	f.Fuzz(func(t *testing.T, lower, upper []byte) {
		base := t.TempDir()
		if err := os.WriteFile(filepath.Join(base, "secret"), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		image := []Layer{layer(lower)}
		if len(upper) > 0 {
			image = append(image, layer(upper))
		}
		o := options()
		o.Limits = Limits{Bytes: 1 << 20, Entries: 1000, Names: 1 << 16, Ratio: 10, Slack: 1 << 20}
		err := Unpack(t.Context(), filepath.Join(base, "root"), image, o)
		if err == nil {
			if err := os.RemoveAll(filepath.Join(base, "root")); err != nil {
				t.Fatal(err)
			}
		}
		if after := tree(t, base); after != `secret 600 "secret"` {
			t.Fatalf("%v\n%s", err, after)
		}
	})
}
