package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Replace writes a file whole, or leaves the file that has its name. A file that exists keeps
// its permissions; a new one has mode, changed by the umask. Replace follows links.
//
// Replace writes into what is not a regular file, such as a pipe, and into a file that no other
// file can replace: a mount point, or a file in a folder in which nothing can be created. An
// error may then leave a part of the new content. Replace may call write twice.
func Replace(name string, mode fs.FileMode, write func(io.Writer) error) error {
	if to, err := filepath.EvalSymlinks(name); err == nil {
		name = to
	}
	old, err := os.Lstat(name)
	exists := err == nil
	if exists && !old.Mode().IsRegular() {
		return writeInto(name, mode, write)
	}
	f, err := Create(name, mode)
	if err == nil {
		defer f.Discard()
		if exists {
			err = f.Chmod(old.Mode().Perm())
		}
		if err = errors.Join(err, write(f)); err != nil {
			return err
		}
		err = f.Commit()
	}
	if exists && isIrreplaceable(err) {
		return writeInto(name, mode, write)
	}
	return err
}

// isIrreplaceable reports whether an error says that no other file can have the name of a
// file: rename(2) gives EBUSY for a mount point, and EXDEV or EPERM on some file systems.
func isIrreplaceable(err error) bool {
	return errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.EXDEV) || errors.Is(err, syscall.EROFS) ||
		errors.Is(err, fs.ErrPermission)
}

func writeInto(name string, mode fs.FileMode, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
