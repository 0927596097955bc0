package pack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
)

var allowed = []string{"config.sh.local", "src"}

func root(t *testing.T, dir string) *os.Root {
	t.Helper()
	r, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func reader(b []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
}

func TestABackupIsRestored(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"config.sh.local": "A=1\n", "src/a.md": "a", "secret": "s"} {
		path := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret", filepath.Join(from, "src/link")); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if n, err := Write(&b, root(t, from), append(allowed, "missing")); n != 2 || err != nil {
		t.Fatalf("%d files, %v", n, err)
	}
	if names, err := Restore(reader(b.Bytes()), root(t, to), allowed, false); len(names) != 2 || err != nil {
		t.Fatalf("%q, %v", names, err)
	}
	if text, err := os.ReadFile(filepath.Join(to, "src/a.md")); string(text) != "a" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := Restore(reader(b.Bytes()), root(t, to), allowed, false); err == nil {
		t.Error("a second restore overwrites files")
	}
	if _, err := Restore(reader(b.Bytes()), root(t, to), allowed, true); err != nil {
		t.Error(err)
	}
}

func TestHostileArchives(t *testing.T) {
	for _, h := range []tar.Header{
		{Name: "../x", Typeflag: tar.TypeReg}, {Name: "/etc/x", Typeflag: tar.TypeReg},
		{Name: "src/../../x", Typeflag: tar.TypeReg},
		{Name: "src/x", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, {Name: "src/x", Typeflag: tar.TypeLink, Linkname: "y"},
		{Name: "src/x", Typeflag: tar.TypeFifo}, {Name: "output/x", Typeflag: tar.TypeReg},
		{Name: "src", Typeflag: tar.TypeChar},
		{Name: `src\..\x`, Typeflag: tar.TypeReg},
	} {
		base := t.TempDir()
		dir := filepath.Join(base, "site")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		w := tar.NewWriter(z)
		// A good file first: nothing is extracted of an archive with a bad one.
		if err := w.WriteHeader(&tar.Header{Name: "src/good.md", Typeflag: tar.TypeReg, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		w.Close()
		z.Close()
		if _, err := Restore(reader(b.Bytes()), root(t, dir), allowed, true); err == nil {
			t.Errorf("%q (%c) is accepted", h.Name, h.Typeflag)
		}
		if found, _ := filepath.Glob(filepath.Join(base, "*", "*")); len(found) > 0 {
			t.Errorf("%q: the archive left %q", h.Name, found)
		}
	}
	// A link that stands in the folder does not lead out of it.
	base := t.TempDir()
	dir := filepath.Join(base, "site")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("..", filepath.Join(dir, "src")); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: "src/a.md", Typeflag: tar.TypeReg, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	w.Close()
	z.Close()
	if _, err := Restore(reader(b.Bytes()), root(t, dir), allowed, true); err == nil {
		t.Error("a link out of the site is followed")
	}
	if _, err := os.Stat(filepath.Join(base, "a.md")); err == nil {
		t.Error("a file was written outside of the site")
	}
}
