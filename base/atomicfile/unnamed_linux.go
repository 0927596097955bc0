package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openUnnamed creates a file without a name in a folder. It fails if the file system or the
// kernel has no such files, or if linkUnnamed would.
//
// Source: open(2), O_TMPFILE.
func openUnnamed(folder *os.Root, mode fs.FileMode) (*os.File, error) {
	f, err := folder.OpenFile(".", unix.O_TMPFILE|os.O_RDWR, mode)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(ownLink(f)); err != nil { // linkat(2) without privileges needs it
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// linkUnnamed gives a file a name in a folder that is not taken.
func linkUnnamed(f, folder *os.File, name string) error {
	err := unix.Linkat(unix.AT_FDCWD, ownLink(f), int(folder.Fd()), name, unix.AT_SYMLINK_FOLLOW)
	if err != nil {
		return &fs.PathError{Op: "link", Path: name, Err: err}
	}
	return nil
}

// ownLink is the path of an open file of this process.
func ownLink(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }
