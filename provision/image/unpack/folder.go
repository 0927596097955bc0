package unpack

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"bakeoff/base/fault"
)

// Folder is the tar file of a folder, in the order of names: equal folders give equal
// bytes. It has what Unpack keeps: owners, modes, times, links, hard links and extended
// attributes. Devices and sockets are left out. It does not follow links out of the
// folder.
func Folder(dir string) io.ReadCloser { return packing(dir, false) }

// Written is Folder for what was written over an image: the upper folder of an overlay. The
// tar file is a layer. Files that the overlay hides become whiteouts.
//
// Source: Linux, Documentation/filesystems/overlayfs.rst.
func Written(dir string) io.ReadCloser { return packing(dir, true) }

func packing(dir string, layer bool) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		w.CloseWithError(packFolder(dir, layer, w))
	}()
	return r
}

func packFolder(dir string, layer bool, out io.Writer) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fault.Wrap(fault.Invalid, "pack "+dir, err)
	}
	defer root.Close()
	p := &packer{root: root, tar: tar.NewWriter(out), links: map[inode]string{}, layer: layer}
	if err := p.add("."); err != nil {
		return fault.Op("pack "+dir, err)
	}
	return p.tar.Close()
}

// noTime leaves a time out of a header.
var noTime time.Time

// several tells whether a file may have several names.
func several(info fs.FileInfo) (inode, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Nlink < 2 {
		return inode{}, false
	}
	return inode{uint64(st.Dev), uint64(st.Ino)}, true
}

// inode identifies a file with several names.
type inode struct{ device, number uint64 }

type packer struct {
	root  *os.Root
	tar   *tar.Writer
	links map[inode]string
	layer bool // the folder is the upper one of an overlay
}

// add packs a path and what is below it.
func (p *packer) add(name string) error {
	info, err := p.root.Lstat(name)
	if err != nil {
		return err
	}
	kind := info.Mode().Type()
	if p.layer {
		if isWhiteout(info) {
			return p.whiteout(path.Dir(name), path.Base(name))
		}
		if strings.HasPrefix(path.Base(name), whiteout) {
			return fault.New(fault.Unsupported, "a layer cannot have a file called %s: names with %s mark deleted "+
				"files", forMessage(name), whiteout)
		}
	}
	if kind&(fs.ModeSocket|fs.ModeDevice|fs.ModeIrregular) != 0 {
		return nil
	}
	target := ""
	if kind == fs.ModeSymlink {
		if target, err = p.root.Readlink(name); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h.Name, h.Uname, h.Gname, h.Format = name, "", "", tar.FormatPAX
	h.AccessTime, h.ChangeTime = noTime, noTime
	if id, ok := several(info); ok && !info.IsDir() {
		if first, ok := p.links[id]; ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
			return p.tar.WriteHeader(h)
		}
		p.links[id] = name
	}
	switch kind {
	case 0:
		return p.file(name, h)
	case fs.ModeDir:
		return p.folder(name, h)
	}
	return p.tar.WriteHeader(h)
}

func (p *packer) file(name string, h *tar.Header) error {
	f, err := p.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := describeFile(f, h); err != nil {
		return err
	}
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.Copy(p.tar, io.LimitReader(f, h.Size))
	if err == nil && n < h.Size {
		err = fault.New(fault.Invalid, "%s changed while it was read", forMessage(name))
	}
	return err
}

func (p *packer) folder(name string, h *tar.Header) error {
	f, err := p.root.Open(name)
	if err != nil {
		return err
	}
	err = describeFile(f, h)
	replaces := false
	if p.layer && err == nil {
		replaces, err = replacesLower(f)
	}
	names, rerr := f.Readdirnames(-1)
	if err := errors.Join(err, rerr, f.Close()); err != nil {
		return err
	}
	h.Name = name + "/"
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	if replaces {
		if err := p.whiteout(name, strings.TrimPrefix(opaque, whiteout)); err != nil {
			return err
		}
	}
	slices.Sort(names)
	for _, n := range names {
		if err := p.add(path.Join(name, n)); err != nil {
			return err
		}
	}
	return nil
}

// describeFile adds the extended attributes that Unpack keeps.
func describeFile(f *os.File, h *tar.Header) error {
	all, err := fileAttributes(f)
	if err != nil {
		return err
	}
	for name, value := range all {
		if !isKept(name) || strings.HasPrefix(name, "user.overlay.") {
			continue
		}
		if h.PAXRecords == nil {
			h.PAXRecords = map[string]string{}
		}
		h.PAXRecords[prefix+name] = value
	}
	return nil
}

// isWhiteout tells whether a file is a mark of an overlay: the lower file does not exist any more.
func isWhiteout(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == 0
}

// replacesLower tells whether a folder of an overlay replaces the lower one, instead of adding
// to it. It refuses one whose lower folder is elsewhere.
func replacesLower(f *os.File) (bool, error) {
	all, err := fileAttributes(f)
	for _, namespace := range []string{"trusted.overlay.", "user.overlay."} {
		if all[namespace+"redirect"] != "" {
			return false, fault.New(fault.Unsupported, "%s was moved, and a layer cannot record moves", forMessage(f.Name()))
		}
		if all[namespace+"opaque"] == "y" {
			return true, err
		}
	}
	return false, err
}

// whiteout packs the mark that removes what lower layers have.
func (p *packer) whiteout(dir, base string) error {
	name := path.Join(dir, whiteout+base)
	return p.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Format: tar.FormatPAX})
}
