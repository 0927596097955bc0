package unpack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// then is the modification time of what tests pack.
var then = time.Unix(1_700_000_000, 0)

// entry is one of an archive that a test writes.
type entry struct {
	tar.Header
	content string
}

func head(flag byte, name string) entry {
	return entry{Header: tar.Header{Typeflag: flag, Name: name, Mode: 0o644}}
}

func folder(name string) entry {
	return with(head(tar.TypeDir, name), func(e *entry) { e.Mode = 0o755 })
}

func file(name, content string) entry {
	return with(head(tar.TypeReg, name), func(e *entry) { e.Size, e.content = int64(len(content)), content })
}

func symlink(name, target string) entry {
	return with(head(tar.TypeSymlink, name), func(e *entry) { e.Linkname = target })
}

func hardlink(name, target string) entry {
	return with(head(tar.TypeLink, name), func(e *entry) { e.Linkname = target })
}

func with(e entry, change func(*entry)) entry {
	change(&e)
	return e
}

func attribute(name, value string) entry {
	return with(file("f", "x"), func(e *entry) { e.PAXRecords = map[string]string{prefix + name: value} })
}

// pack writes a tar file.
func pack(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if e.Typeflag != tar.TypeXGlobalHeader {
			e.ModTime = then
		}
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatalf("%s: %v", e.Name, err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatalf("%s: %v", e.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	return written(t, &out, w, b)
}

func zstded(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	return written(t, &out, w, b)
}

func xzed(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := xz.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	return written(t, &out, w, b)
}

func written(t testing.TB, out *bytes.Buffer, w io.WriteCloser, b []byte) []byte {
	t.Helper()
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// layer is b as a layer of an image, with its right digest.
func layer(b []byte) Layer {
	return Layer{Name: "layer", Size: int64(len(b)), Digest: sum(b),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }}
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(s[:])
}

func layers(t testing.TB, all ...[]entry) []Layer {
	var out []Layer
	for _, entries := range all {
		out = append(out, layer(pack(t, entries...)))
	}
	return out
}

// options are those with which any user can run the tests.
func options() Options { return Options{Anybody: os.Getuid() != 0} }

// tree lists what is below dir: names, types, permissions, targets, contents.
func tree(t testing.TB, dir string) string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		line := name
		switch {
		case d.IsDir():
			line += "/"
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			line += " -> " + target
		case d.Type().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %o %q", info.Mode().Perm(), b)
		default:
			line += " " + d.Type().String()
		}
		out = append(out, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, "\n")
}
