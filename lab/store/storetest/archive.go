// Package storetest makes run folders for tests. It also reads archives of run folders that
// bakeoff made, for tests and for programs that measure bakeoff with real runs.
package storetest

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

// maxFile bounds a file of an archive, in bytes.
const maxFile = 64 << 20

// Files returns the name of the one run folder in a .tar.gz archive, and its files by their
// names in it, with slashes.
func Files(archive string) (run string, files map[string][]byte, err error) {
	f, err := os.Open(archive)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return "", nil, fault.Op(archive, err)
	}
	files = map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return run, files, nil
		}
		if err != nil {
			return "", nil, fault.Op(archive, err)
		}
		folder, name, _ := strings.Cut(strings.TrimPrefix(path.Clean("/"+h.Name), "/"), "/")
		if h.Typeflag != tar.TypeReg {
			continue
		}
		run = cmp.Or(run, folder)
		if folder != run || h.Size > maxFile {
			return "", nil, fault.New(fault.Invalid, "%s: %s is in another folder, or too large", archive, h.Name)
		}
		if files[name], err = io.ReadAll(r); err != nil {
			return "", nil, fault.Op(archive, err)
		}
	}
}

// Unpack writes the run folder of an archive into the folder dir, and returns its path.
func Unpack(t testing.TB, archive, dir string) string {
	t.Helper()
	run, files, err := Files(archive)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		file := filepath.Join(dir, run, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, run)
}
