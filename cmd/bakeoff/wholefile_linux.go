package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// unnamed creates a file without a name in a folder, and returns the function that gives
// it one. The error is errors.ErrUnsupported if the file system or the kernel has no such
// files.
//
// Source: open(2), O_TMPFILE.
func unnamed(dir string) (f *os.File, give func(name string) error, err error) {
	f, err = os.OpenFile(dir, unix.O_TMPFILE|os.O_RDWR, 0o600)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) {
		return nil, nil, errors.ErrUnsupported
	}
	if err != nil {
		return nil, nil, err
	}
	link := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	if _, err := os.Stat(link); err != nil { // linkat(2) without privileges needs it
		return nil, nil, errors.Join(errors.ErrUnsupported, f.Close())
	}
	return f, func(name string) error {
		err := unix.Linkat(unix.AT_FDCWD, link, unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
		if err != nil {
			return &os.PathError{Op: "link", Path: name, Err: err}
		}
		return nil
	}, nil
}
