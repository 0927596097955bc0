// Package initramfs writes the initial RAM disk of a guest: one static program
// as /init, the kernel modules to load, in order and uncompressed, and a few
// files.
//
// The same input gives the same bytes.
package initramfs

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cavaliergopher/cpio"
)

// ModuleDir is the directory of the modules in the RAM disk.
const ModuleDir = "/modules"

// Archive writes a RAM disk, file by file. Directories are made as needed.
type Archive struct {
	w    *cpio.Writer
	dirs map[string]bool
	last int64
	err  error
}

// New returns an Archive that is written to w in the format that Linux
// unpacks ("newc", Documentation/driver-api/early-userspace/buffer-format).
func New(w io.Writer) *Archive {
	return &Archive{w: cpio.NewWriter(w), dirs: map[string]bool{"/": true}}
}

// Dir adds a directory.
func (a *Archive) Dir(name string) error {
	name = path.Clean(name)
	if a.dirs[name] || a.err != nil {
		return a.err
	}
	if err := a.Dir(path.Dir(name)); err != nil {
		return err
	}
	a.dirs[name] = true
	return a.header(name, cpio.TypeDir|0o755, 0)
}

// File adds a file of size bytes read from r.
func (a *Archive) File(name string, mode uint32, size int64, r io.Reader) error {
	if err := a.Dir(path.Dir(path.Clean(name))); err != nil {
		return err
	}
	if err := a.header(name, cpio.TypeReg|cpio.FileMode(mode&0o777), size); err != nil {
		return err
	}
	return a.content(name, size, r)
}

// content writes the content of the file whose header was written.
func (a *Archive) content(name string, size int64, r io.Reader) error {
	n, err := io.Copy(a.w, io.LimitReader(r, size))
	if err == nil && n < size {
		err = fmt.Errorf("initramfs: %s: read only %d of %d bytes", name, n, size)
	}
	a.err = err
	return err
}

// Close ends the archive.
func (a *Archive) Close() error {
	if a.err != nil {
		return a.err
	}
	return a.w.Close()
}

func (a *Archive) header(name string, mode cpio.FileMode, size int64) error {
	links := 1
	if mode&cpio.TypeDir == cpio.TypeDir {
		links = 2
	}
	return a.write(&cpio.Header{Name: name, Mode: mode, Size: size, Links: links})
}

// write writes a header without a time. It numbers entries that have no inode.
func (a *Archive) write(h *cpio.Header) error {
	if a.err != nil {
		return a.err
	}
	if h.Inode == 0 {
		a.last++
		h.Inode = a.last
	}
	h.Name, h.ModTime = strings.TrimPrefix(h.Name, "/"), time.Unix(0, 0)
	a.err = a.w.WriteHeader(h)
	return a.err
}

// AddModules adds the wanted modules of t and their dependencies, and returns
// their paths in load order.
func (a *Archive) AddModules(t *Tree, wanted []string) ([]string, error) {
	names, err := t.Order(wanted)
	if err != nil {
		return nil, err
	}
	var paths []string
	for i, n := range names {
		p := fmt.Sprintf("%s/%02d-%s.ko", ModuleDir, i, n)
		data := t.loaded[n]
		if err := a.File(p, 0o644, int64(len(data)), strings.NewReader(string(data))); err != nil {
			return nil, err
		}
		paths = append(paths, p)
	}
	return slices.Clip(paths), nil
}
