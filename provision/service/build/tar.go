package build

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
)

// tarWriter writes files without times and owners. After an error it writes nothing.
type tarWriter struct {
	w   *tar.Writer
	err error
}

func newTar(w io.Writer) *tarWriter { return &tarWriter{w: tar.NewWriter(w)} }

func (t *tarWriter) add(name string, size int64, r io.Reader) {
	if t.err != nil {
		return
	}
	t.err = t.w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size, ModTime: epoch, Format: tar.FormatUSTAR})
	if t.err == nil {
		_, t.err = io.CopyN(t.w, r, size)
	}
}

func (t *tarWriter) text(name string, b []byte) { t.add(name, int64(len(b)), bytes.NewReader(b)) }

func (t *tarWriter) file(name, path string, size int64) {
	f, err := os.Open(path)
	if err != nil {
		t.err = errors.Join(t.err, err)
		return
	}
	defer f.Close()
	t.add(name, size, f)
}

func (t *tarWriter) close() error { return errors.Join(t.err, t.w.Close()) }
