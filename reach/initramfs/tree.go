package initramfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/cavaliergopher/cpio"

	"bakeoff/base/fault"
)

// Tree adds the folder dir as the root of the RAM disk, in the order of names, with
// owners, permissions, links and hard links, but without times. Devices and sockets are
// left out. It does not follow links. A file with a name in except is refused: the RAM
// disk has one of its own.
func (a *Archive) Tree(dir string, except ...string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	t := walker{a: a, root: root, except: except, first: map[uint64]int64{}}
	return t.add(".")
}

// walker is the state of Tree.
type walker struct {
	a      *Archive
	root   *os.Root
	except []string
	first  map[uint64]int64 // inode of a file with several names → inode in the archive
}

// inode is what the system knows about a file in addition to fs.FileInfo.
type inode struct {
	uid, gid, links int
	number          uint64
}

// The bits of cpio that Go has elsewhere.
var specialBits = []struct {
	from fs.FileMode
	to   cpio.FileMode
}{{fs.ModeSetuid, cpio.ModeSetuid}, {fs.ModeSetgid, cpio.ModeSetgid}, {fs.ModeSticky, cpio.ModeSticky}}

func (t *walker) add(name string) error {
	info, err := t.root.Lstat(name)
	if err != nil {
		return err
	}
	at := path.Join("/", name)
	if slices.Contains(t.except, at) {
		return fault.New(fault.Invalid, "the root file system already has %s, but the RAM disk puts its own file there", at)
	}
	st, ok := inodeOf(info)
	if !ok {
		return fmt.Errorf("initramfs: the owner of %s is not known", name)
	}
	h := cpio.Header{Name: at, Mode: cpio.FileMode(info.Mode().Perm()), Uid: st.uid, Guid: st.gid, Links: 1}
	for _, b := range specialBits {
		if info.Mode()&b.from != 0 {
			h.Mode |= b.to
		}
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		return t.folder(name, h)
	case fs.ModeSymlink:
		target, err := t.root.Readlink(name)
		if err != nil {
			return err
		}
		h.Mode, h.Size = cpio.TypeSymlink|0o777, int64(len(target))
		if err := t.a.write(&h); err != nil {
			return err
		}
		return t.a.content(h.Name, h.Size, strings.NewReader(target))
	case 0:
		return t.file(name, h, info.Size(), st.links, st.number)
	}
	return nil
}

func (t *walker) folder(name string, h cpio.Header) error {
	if name != "." && !t.a.dirs[h.Name] {
		t.a.dirs[h.Name] = true
		h.Mode |= cpio.TypeDir
		h.Links = 2
		if err := t.a.write(&h); err != nil {
			return err
		}
	}
	f, err := t.root.Open(name)
	if err != nil {
		return err
	}
	names, err := f.Readdirnames(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	slices.Sort(names)
	for _, n := range names {
		if err := t.add(path.Join(name, n)); err != nil {
			return err
		}
	}
	return nil
}

func (t *walker) file(name string, h cpio.Header, size int64, links int, inode uint64) error {
	h.Mode |= cpio.TypeReg
	if links > 1 {
		// The first name has the content. The kernel links the others to it.
		h.Links = links
		if first, ok := t.first[inode]; ok {
			h.Inode = first
			return t.a.write(&h)
		}
		t.first[inode] = t.a.last + 1
	}
	if size > 1<<32-1 {
		return fault.New(fault.Invalid, "%s has %d bytes, but a file in a RAM disk must be smaller than 4 GiB", h.Name, size)
	}
	f, err := t.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	h.Size = size
	if err := t.a.write(&h); err != nil {
		return err
	}
	return t.a.content(h.Name, size, f)
}

// Text adds a small file.
func (a *Archive) Text(name string, mode uint32, text []byte) error {
	return a.File(name, mode, int64(len(text)), bytes.NewReader(text))
}
