package main

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
)

// createFile writes a file that must not exist, whole or not at all.
func createFile(name string, write func(io.Writer) error) error {
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

// replaceFile writes a file whole or not at all (see atomicfile.Replace).
func replaceFile(name string, write func(io.Writer) error) error {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return fault.WithFix(fault.New(fault.Invalid, "%s is a folder", name), "remove it, or name another folder")
	}
	return atomicfile.Replace(name, 0o644, write)
}
