package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"bakeoff/base/fault"
)

// createFile writes a file that must not exist, whole or not at all.
func createFile(name string, write func(io.Writer) error) error {
	exists := fault.WithFix(fault.New(fault.Invalid, "%s exists", name), "remove it or name another file")
	if _, err := os.Lstat(name); err == nil {
		return exists
	}
	err := wholeFile(name, write, func(give func(name string) error) error { return give(name) })
	if errors.Is(err, fs.ErrExist) {
		return exists
	}
	return err
}

// replaceFile writes a file whole or not at all. If bakeoff is killed at the very end, the
// earlier file with this name may be gone.
func replaceFile(name string, write func(io.Writer) error) error {
	return wholeFile(name, write, func(give func(name string) error) error {
		for {
			err := give(name)
			if !errors.Is(err, fs.ErrExist) {
				return err
			}
			if info, err := os.Lstat(name); err == nil && info.IsDir() {
				return fault.WithFix(fault.New(fault.Invalid, "%s is a folder", name), "remove it, or name another folder")
			}
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	})
}

// wholeFile writes a file that has no name until it is complete and on the disk, so that
// nothing remains of it if bakeoff is killed. place calls give with its name; an error of
// give wraps fs.ErrExist if the name is taken. File systems that have no files without
// names, such as NFS, get a file ".NAME.*" for that time.
func wholeFile(name string, write func(io.Writer) error, place func(give func(string) error) error) (err error) {
	f, give, err := unnamed(filepath.Dir(name))
	if errors.Is(err, errors.ErrUnsupported) {
		if f, give, err = named(name); err == nil {
			defer os.Remove(f.Name())
		}
	}
	if err != nil {
		return fault.Wrap(fault.Invalid, "", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := errors.Join(write(f), f.Chmod(0o644)); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return place(give)
}

// named creates a file ".NAME.*", and returns the function that renames it to a name that
// is not taken. Some file systems without unnamed files have no hard links, either.
func named(name string) (f *os.File, give func(name string) error, err error) {
	f, err = os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	return f, func(name string) error {
		if _, err := os.Lstat(name); err == nil {
			return fs.ErrExist
		}
		return os.Rename(f.Name(), name)
	}, err
}
