// Package pack writes a site's sources into an archive, and restores them.
package pack

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
)

// Bounds of an archive that is restored. It may be a stranger's.
const (
	maxFiles = 200_000
	maxBytes = 16 << 30
)

// Write writes the named files and folders of a site as a compressed tar archive and
// returns the number of files. Names that do not exist, links and names that begin with a
// dot are left out.
func Write(w io.Writer, root *os.Root, names []string) (int, error) {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	count := 0
	for _, name := range names {
		if _, err := root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		err := fs.WalkDir(root.FS(), name, func(at string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if base := path.Base(at); strings.HasPrefix(base, ".") && e.IsDir() {
				return fs.SkipDir
			}
			if !e.Type().IsRegular() || strings.HasPrefix(path.Base(at), ".") {
				return nil
			}
			count++
			return addFile(t, root, at)
		})
		if err != nil {
			return count, fault.Wrap(fault.Lab, "backup", err)
		}
	}
	return count, fault.Wrap(fault.Lab, "backup", errors.Join(t.Close(), z.Close()))
}

// addFile copies one file. Its size is that of the header, even if the file grows meanwhile.
func addFile(t *tar.Writer, root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: info.Size(),
		ModTime: info.ModTime().Truncate(time.Second)}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.CopyN(t, f, h.Size)
	return err
}

// Restore extracts an archive into root and returns the names of the files. Names must
// lie below one of allowed. Without replace, an existing file is an error; nothing is
// extracted then. Entries other than files and folders are an error.
func Restore(open func() (io.ReadCloser, error), root *os.Root, allowed []string, replace bool) ([]string, error) {
	var names []string
	err := forEachFile(open, func(h *tar.Header, _ io.Reader) error {
		if err := checkHeader(h, allowed); err != nil {
			return err
		}
		if _, err := root.Lstat(h.Name); err == nil && !replace {
			return fault.WithFix(fault.New(fault.Invalid, "%s exists", h.Name), "use --replace to overwrite files")
		}
		names = append(names, h.Name)
		return nil
	})
	if err != nil {
		return nil, fault.Op("restore", err)
	}
	return names, fault.Op("restore", forEachFile(open, func(h *tar.Header, r io.Reader) error {
		if err := checkHeader(h, allowed); err != nil {
			return err // the archive changed meanwhile
		}
		return extract(root, h, r)
	}))
}

// forEachFile calls do for every file of the archive.
func forEachFile(open func() (io.ReadCloser, error), do func(*tar.Header, io.Reader) error) error {
	f, err := open()
	if err != nil {
		return fault.Wrap(fault.NotFound, "archive", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return fault.WithFix(fault.Wrap(fault.Invalid, "archive", err), "name a file that bakeoff site backup wrote")
	}
	var total int64
	t := tar.NewReader(io.LimitReader(z, maxBytes))
	for count := 0; ; count++ {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fault.Wrap(fault.Invalid, "archive", err)
		}
		if total += h.Size; count >= maxFiles || total > maxBytes {
			return fault.New(fault.Invalid, "the archive has more than %d files or %d bytes", maxFiles, int64(maxBytes))
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		if err := do(h, t); err != nil {
			return err
		}
	}
}

// checkHeader refuses what is not a file below an allowed name.
func checkHeader(h *tar.Header, allowed []string) error {
	if h.Typeflag != tar.TypeReg {
		return fault.New(fault.Invalid, "archive: %q is not a regular file", h.Name)
	}
	inside := func(a string) bool { return h.Name == a || strings.HasPrefix(h.Name, a+"/") }
	if !fs.ValidPath(h.Name) || !slices.ContainsFunc(allowed, inside) || strings.ContainsAny(h.Name, "\x00\\") {
		return fault.New(fault.Invalid, "archive: %q is not a file of a site", h.Name)
	}
	return nil
}

// extract writes one file. A link in its place is replaced and not followed.
func extract(root *os.Root, h *tar.Header, r io.Reader) error {
	if err := root.MkdirAll(path.Dir(h.Name), 0o755); err != nil {
		return fault.Wrap(fault.Invalid, h.Name, err)
	}
	if err := root.Remove(h.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(fault.Invalid, h.Name, err)
	}
	f, err := root.OpenFile(h.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fault.Wrap(fault.Invalid, h.Name, err)
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Close()); err != nil {
		return fault.Wrap(fault.Invalid, h.Name, err)
	}
	return fault.Wrap(fault.Lab, h.Name, root.Chtimes(h.Name, h.ModTime, h.ModTime))
}
