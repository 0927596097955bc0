package unpack

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

// unpacked is the tree that layers give.
func unpacked(t *testing.T, all ...[]entry) (string, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "root")
	if err := Unpack(t.Context(), dir, layers(t, all...), options()); err != nil {
		t.Fatal(err)
	}
	return tree(t, dir), dir
}

func TestLayersLieUponEachOther(t *testing.T) {
	for _, c := range []struct {
		name   string
		layers [][]entry
		want   []string
	}{
		{"one", [][]entry{{folder("a/"), file("a/f", "x"), symlink("l", "a/f")}}, []string{"a/", `a/f 644 "x"`, "l -> a/f"}},
		{"folders without an entry", [][]entry{{file("a/b/f", "x")}}, []string{"a/", "a/b/", `a/b/f 644 "x"`}},
		{"absolute and dotted names", [][]entry{{file("/a", "x"), file("./b", "y"), file("c//./d", "z")}},
			[]string{`a 644 "x"`, `b 644 "y"`, "c/", `c/d 644 "z"`}},
		{"file upon file", [][]entry{{file("f", "old")}, {file("f", "new")}}, []string{`f 644 "new"`}},
		{"the last of two entries", [][]entry{{file("f", "old"), file("f", "new")}}, []string{`f 644 "new"`}},
		{"folder upon folder", [][]entry{{file("d/a", "x")}, {folder("d"), file("d/b", "y")}},
			[]string{"d/", `d/a 644 "x"`, `d/b 644 "y"`}},
		{"file upon folder", [][]entry{{file("d/a", "x")}, {file("d", "y")}}, []string{`d 644 "y"`}},
		{"folder upon link", [][]entry{{file("d/a", "x"), symlink("l", "d")}, {folder("l"), file("l/b", "y")}},
			[]string{"d/", `d/a 644 "x"`, "l/", `l/b 644 "y"`}},
		{"file upon link", [][]entry{{file("a", "x"), symlink("l", "a")}, {file("l", "y")}},
			[]string{`a 644 "x"`, `l 644 "y"`}},
		{"file through a link", [][]entry{{folder("usr/lib"), symlink("lib", "usr/lib")}, {file("lib/x", "y")}},
			[]string{"lib -> usr/lib", "usr/", "usr/lib/", `usr/lib/x 644 "y"`}},
		{"file through an absolute link", [][]entry{{folder("run"), symlink("var/run", "/run")}, {file("var/run/x", "y")}},
			[]string{"run/", `run/x 644 "y"`, "var/", "var/run -> /run"}},
		{"file through a link to nothing", [][]entry{{symlink("var/run", "/run"), file("var/run/x", "y")}},
			[]string{"run/", `run/x 644 "y"`, "var/", "var/run -> /run"}},
		{"link up inside", [][]entry{{symlink("a/l", "../b"), file("a/l/x", "y")}},
			[]string{"a/", "a/l -> ../b", "b/", `b/x 644 "y"`}},
		{"links out that nothing follows", [][]entry{{symlink("a", "../../../etc"), symlink("b", "/etc/passwd")}},
			[]string{"a -> ../../../etc", "b -> /etc/passwd"}},
		{"link that replaces itself", [][]entry{{symlink("d/l", "."), file("d/l/l", "x")}}, []string{"d/", `d/l 644 "x"`}},
		{"link that leads elsewhere later", [][]entry{{symlink("l", "a"), file("l/d/x", "1"), symlink("l", "b"),
			file("l/d/y", "2"), file("a/d/z", "3")}}, []string{"a/", "a/d/", `a/d/x 644 "1"`, `a/d/z 644 "3"`, "b/", "b/d/",
			`b/d/y 644 "2"`, "l -> b"}},
		{"folder that a link replaces", [][]entry{{file("d/e/x", "1")}, {file("f", ""), file("d/.wh.e", ""),
			symlink("d/e", "/g"), file("d/e/y", "2")}}, []string{"d/", "d/e -> /g", `f 644 ""`, "g/", `g/y 644 "2"`}},
		{"names that begin alike", [][]entry{{file("a/b/x", "1"), file("a/bc/y", "2"), file("a/z", "3"), file("ab/w", "4")}},
			[]string{"a/", "a/b/", `a/b/x 644 "1"`, "a/bc/", `a/bc/y 644 "2"`, `a/z 644 "3"`, "ab/", `ab/w 644 "4"`}},
		{"devices", [][]entry{{folder("dev"), head(tar.TypeChar, "dev/null"), head(tar.TypeBlock, "/dev/disk/sda")}},
			[]string{"dev/"}},
		{"header of all entries", [][]entry{{entry{Header: tar.Header{Typeflag: tar.TypeXGlobalHeader,
			PAXRecords: map[string]string{"comment": "x"}}}, file("f", "x")}}, []string{`f 644 "x"`}},

		{"whiteout", [][]entry{{file("d/a", "x"), file("d/b", "y")}, {file("d/.wh.a", "")}}, []string{"d/", `d/b 644 "y"`}},
		{"whiteout of a folder", [][]entry{{file("d/e/a", "x"), file("f", "y")}, {file(".wh.d", "")}}, []string{`f 644 "y"`}},
		{"whiteout of nothing", [][]entry{{file("f", "x")}, {file(".wh.g", ""), file("no/folder/.wh.g", "")}},
			[]string{`f 644 "x"`}},
		{"whiteout through a link", [][]entry{{file("usr/lib/a", "x"), symlink("lib", "usr/lib")}, {file("lib/.wh.a", "")}},
			[]string{"lib -> usr/lib", "usr/", "usr/lib/"}},
		{"whiteout before its replacement", [][]entry{{file("d/a", "x")}, {file(".wh.d", ""), file("d/b", "y")}},
			[]string{"d/", `d/b 644 "y"`}},
		{"whiteout after its replacement", [][]entry{{file("d/a", "x")}, {file("d/b", "y"), file(".wh.d", "")}},
			[]string{"d/", `d/b 644 "y"`}},
		{"whiteout of a link of a lower layer", [][]entry{{folder("a"), symlink("l", "a")},
			{file(".wh.l", ""), file("l/x", "y")}},
			[]string{"a/", "l/", `l/x 644 "y"`}},
		{"whiteout in the lowest layer", [][]entry{{file("a", "x"), file(".wh.a", "")}}, []string{`a 644 "x"`}},
		{"opaque", [][]entry{{file("d/a", "x"), file("d/e/f", "x")}, {folder("d"), file("d/"+opaque, ""), file("d/b", "y")}},
			[]string{"d/", `d/b 644 "y"`}},
		{"opaque last", [][]entry{{file("d/a", "x"), file("d/e/f", "x")}, {file("d/e/g", "y"), file("d/"+opaque, "")}},
			[]string{"d/", "d/e/", `d/e/g 644 "y"`}},
		{"opaque root", [][]entry{{file("a", "x")}, {file(opaque, ""), file("b", "y")}}, []string{`b 644 "y"`}},
		{"files of AUFS", [][]entry{{file("a", "x"), file(".wh..wh.aufs", ""), folder(".wh..wh.plnk")}},
			[]string{`a 644 "x"`}},
		{"three layers", [][]entry{{file("a", "1")}, {file(".wh.a", "")}, {file("a", "3")}}, []string{`a 644 "3"`}},
		{"hard link upon a link of a lower layer", [][]entry{{file("a", "x"), symlink("l", "a")}, {hardlink("l", "a")}},
			[]string{`a 644 "x"`, `l 644 "x"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, _ := unpacked(t, c.layers...); got != strings.Join(c.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", got, strings.Join(c.want, "\n"))
			}
		})
	}
}

// Folders that are deeper than unpack keeps open.
func TestDeepFolders(t *testing.T) {
	deep := strings.Repeat("d/", 2*maxOpen+1)
	_, dir := unpacked(t, []entry{file(deep+"a", "1"), file(deep+"e/f/b", "2"), file(deep+"c", "3"), file("d/e", "4")})
	for name, want := range map[string]string{deep + "a": "1", deep + "e/f/b": "2", deep + "c": "3", "d/e": "4"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

func TestCompressedLayers(t *testing.T) {
	b := pack(t, file("f", strings.Repeat("x", 1<<20)))
	var want string
	for _, l := range [][]byte{b, gzipped(t, b), append(gzipped(t, b), 0, 0, 0), zstded(t, b), xzed(t, b)} {
		one := layer(l)
		one.DiffID = sum(b)
		dir := filepath.Join(t.TempDir(), "root")
		if err := Unpack(t.Context(), dir, []Layer{one}, options()); err != nil {
			t.Fatal(err)
		}
		got := tree(t, dir)
		if want == "" {
			want = got
		}
		if got != want || len(got) < 1<<20 {
			t.Errorf("%d bytes, want %d", len(got), len(want))
		}
	}
}

// A root file system that is no layer may have any name.
func TestPlainArchive(t *testing.T) {
	l := layers(t, []entry{file(".wh.x", "y")})
	l[0].Plain, l[0].Size = true, -1
	dir := filepath.Join(t.TempDir(), "root")
	if err := Unpack(t.Context(), dir, l, options()); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, dir); got != `.wh.x 644 "y"` {
		t.Error(got)
	}
}

// What stops in the middle leaves nothing.
func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := options()
	o.Progress = func(int64) { cancel() }
	dir := filepath.Join(t.TempDir(), "root")
	b := pack(t, file("f", strings.Repeat("x", 4<<20)))
	if err := Unpack(ctx, dir, []Layer{layer(b)}, o); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	broken := layer(b)
	broken.Open = func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader(string(b[:1<<20])), failing{})), nil
	}
	err := Unpack(t.Context(), dir, []Layer{broken}, options())
	if !errors.Is(err, errDisk) || fault.Is(err, fault.Invalid) {
		t.Errorf("a disk that fails: %v", err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was left: %v", err)
	}
}

var errDisk = errors.New("input/output error")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errDisk }

// What is there already is not touched.
func TestExistingFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Unpack(t.Context(), dir, layers(t, []entry{file("g", "")}), options()); !errors.Is(err, os.ErrExist) {
		t.Errorf("%v", err)
	}
	if got := tree(t, dir); got != `f 600 ""` {
		t.Error(got)
	}
}
