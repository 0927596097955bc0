package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
)

// CreateFile writes a file that must not exist, whole or not at all.
func CreateFile(name string, write func(io.Writer) error) error {
	exists := fault.WithFix(fault.New(fault.Invalid, "%s exists", name), "remove it or name another file")
	if _, err := os.Lstat(name); err == nil {
		return exists
	}
	f, err := atomicfile.Create(name, 0o600)
	if err != nil {
		return fault.Wrap(fault.Invalid, "", err)
	}
	defer f.Discard()
	if err := errors.Join(write(f), f.Chmod(0o644)); err != nil {
		return err
	}
	if err := f.CommitNew(); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return exists
}

// ReplaceFile writes a file whole or not at all (see atomicfile.Replace).
func ReplaceFile(name string, write func(io.Writer) error) error {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return fault.WithFix(fault.New(fault.Invalid, "%s is a folder", name), "remove it, or name another folder")
	}
	return atomicfile.Replace(name, 0o644, write)
}

// WriteNew writes a file that does not exist yet.
func WriteNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return RefuseExisting(path)
	}
	if err != nil {
		return fault.Wrap(fault.Invalid, "init", err)
	}
	_, err = f.Write(text)
	return fault.Wrap(fault.Lab, "init", errors.Join(err, f.Close()))
}

// RefuseExisting refuses to overwrite a file.
func RefuseExisting(path string) error {
	return fault.WithFix(fault.New(fault.Invalid, "%s exists already", path),
		"write another file with --out, or remove it")
}

// OpenFile opens a regular file for reading.
func OpenFile(name string) (*os.File, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.New(fault.NotFound, "the file does not exist")
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fault.WithFix(
			fault.New(fault.Invalid, "not a regular file"),
			"name a kernel, a raw disk or a RAM disk",
		)
	}
	return os.Open(name)
}

// FileSize is a size as people read it.
func FileSize(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// Mebibytes is a number of bytes for a person.
func Mebibytes(n int64) string {
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
