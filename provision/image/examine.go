package image

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/provision/image/archive"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/partition"
	"bakeoff/provision/image/reference"
	"bakeoff/provision/image/unpack"
)

// examineMost bounds how much of an archive Examine reads, in bytes of its files.
const examineMost = 16 << 30

// examineReport is how long Examine may take before it reports, and how often it does.
const examineReport = time.Second

// Examine reads the file that ref names, which is a reference as Resolve returns it, and
// refuses what Get would refuse: it reads an archive to its end, at most 16 GiB of files,
// and finds the root in a raw disk. It writes nothing. Of a folder, a qcow2 file and an
// image of a registry it reads nothing. Errors are of kind fault.Invalid.
func (s *Store) Examine(ctx context.Context, name string) error {
	ref, err := reference.Parse(name)
	if err != nil {
		return err
	}
	switch ref.Kind {
	case reference.Rootfs:
		err = s.examineTree(ctx, ref)
	case reference.OCIArchive, reference.DockerArchive:
		err = archive.Check(ctx, ref, runtime.GOARCH)
	case reference.Disk:
		err = examineDisk(ref.Path)
	}
	return fault.Op("image "+ref.Text, err)
}

func (s *Store) examineTree(ctx context.Context, ref reference.Reference) error {
	info, err := os.Stat(ref.Path)
	if err != nil || !info.Mode().IsRegular() {
		return err // another form is for Get
	}
	next := time.Now().Add(examineReport)
	form := forms{path: ref.Path}
	whole, err := unpack.Check(ctx, unpack.Layer{Name: ref.Path, Size: info.Size(), Plain: true,
		Open: func() (io.ReadCloser, error) { return os.Open(ref.Path) }},
		unpack.Checking{Most: examineMost, Entry: form.noteEntry, Progress: func(done int64) {
			if now := time.Now(); now.After(next) {
				next = now.Add(examineReport)
				s.reportProgress("checking %s: %.1f of %.1f MiB", ref.Path, inMiB(done), inMiB(info.Size()))
			}
		}})
	if err != nil {
		return err
	}
	if !whole {
		s.reportProgress("%s: the first %d GiB of its files were checked", ref.Path, examineMost>>30)
	}
	return form.otherFormError(false)
}

// noteEntry notes the files by which other forms of images are known.
func (f *forms) noteEntry(name string, h *tar.Header, content io.Reader) error {
	f.rootfs = f.rootfs || strings.HasPrefix(name, "rootfs/")
	f.noteName(name, h.Typeflag == tar.TypeDir)
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	switch name {
	case "metadata.yaml":
		f.about = true
	case "manifest.json":
		if h.Size > layout.MaxDocument {
			return nil
		}
		b, err := io.ReadAll(content)
		f.saved = err == nil && isList(b)
		return err
	case "oci-layout":
		f.layout = true
	case "index.json":
		f.index = true
	}
	return nil
}

// examineDisk finds the root in a raw disk. Get converts a qcow2 file first.
func examineDisk(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fault.Wrap(fault.Invalid, "", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return err
	}
	packed, err := partition.QCOW2(head[:n])
	if err != nil || packed {
		return err
	}
	_, err = partition.Root(f, info.Size(), runtime.GOARCH)
	return err
}
