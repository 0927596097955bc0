package main

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReferenceIsFresh fails when docs/reference is not what `make docs`
// would write.
func TestReferenceIsFresh(t *testing.T) {
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, env: func(string) string { return "" }}
	want := referencePages(a.root())
	dir := filepath.Join("..", "..", "docs", "reference")
	for name, text := range want {
		have, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Errorf("%v: run make docs", err)
		} else if !bytes.Equal(have, text) {
			t.Errorf("%s is stale: run make docs", name)
		}
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if _, ok := want[filepath.ToSlash(name)]; err == nil && !ok {
			t.Errorf("%s is of nothing that exists: remove it", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
