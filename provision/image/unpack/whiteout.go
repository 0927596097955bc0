package unpack

import (
	"archive/tar"
	"cmp"
	"errors"
	"io/fs"
	"path"
	"strings"
)

// The names of the OCI image specification with which a layer removes what lower
// layers hold.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// bookkeeping are names with which AUFS keeps its own files in a layer.
var bookkeeping = map[string]bool{".wh..wh.aufs": true, ".wh..wh.orph": true, ".wh..wh.plnk": true}

// whiteout removes what lower layers have at a name. What the same layer wrote stays,
// whatever the order of the entries.
func (u *unpacker) whiteout(parent, base string, h *tar.Header) error {
	if bookkeeping[base] {
		return nil
	}
	if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeLink {
		return refusal("a whiteout is a file")
	}
	gone := strings.TrimPrefix(base, whiteout)
	if base != opaque && (gone == "" || gone == "." || gone == ".." || strings.HasPrefix(gone, whiteout)) {
		return refusal("the whiteout names no file")
	}
	at, err := u.resolve(parent, false)
	if errors.Is(err, errNoFolder) {
		return nil // there is nothing to remove
	}
	if err != nil {
		return err
	}
	defer u.closeFolder(at)
	if base == opaque {
		return u.opaque(at.path)
	}
	return u.removeLower(path.Join(at.path, gone))
}

// errNoFolder tells that a path has a folder that does not exist.
var errNoFolder = errors.New("the folder does not exist")

// opaque removes what lower layers have in a folder.
func (u *unpacker) opaque(real string) error {
	if u.upper == nil {
		return nil // the lowest layer
	}
	name := cmp.Or(real, ".")
	f, err := u.root.Open(name)
	if err != nil {
		return err
	}
	names, err := f.Readdirnames(-1)
	f.Close()
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := u.removeLower(path.Join(real, n)); err != nil {
			return err
		}
	}
	return nil
}

// removeLower removes what lower layers have at a path and below it.
func (u *unpacker) removeLower(real string) error {
	if u.upper == nil {
		return nil
	}
	info, err := u.root.Lstat(real)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case u.wroteBelow(real) && info.IsDir():
		return u.opaque(real)
	case u.wroteBelow(real):
		return nil
	}
	u.removed(real)
	return u.root.RemoveAll(real)
}
