//go:build unix

package files

import (
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

// descriptor is an open file.
type descriptor = int

// The ways to open a file: to read it, to overwrite parts of it, and empty.
const (
	toRead    = unix.O_RDONLY
	toUpdate  = unix.O_RDWR
	toReplace = unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC
)

func openFile(path string, mode int) (descriptor, error) {
	return unix.Open(path, mode|unix.O_CLOEXEC, 0o600)
}

func closeFile(fd descriptor) error { return unix.Close(fd) }

func syncFile(fd descriptor) error { return unix.Fsync(fd) }

// rewindFile makes the next read or write without an offset start at the beginning.
func rewindFile(fd descriptor) error {
	_, err := unix.Seek(fd, 0, io.SeekStart)
	return err
}

// sizeOf returns the size of a file in bytes.
func sizeOf(fd descriptor) (int64, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return int64(st.Size), err
}

// readAt reads at offset, or at the current one with a negative one.
func readAt(fd descriptor, b []byte, offset int64) (n int, err error) {
	for {
		if offset < 0 {
			n, err = unix.Read(fd, b)
		} else {
			n, err = unix.Pread(fd, b, offset)
		}
		if err != unix.EINTR {
			return n, err
		}
	}
}

// writeAt writes at offset, or at the current one with a negative one.
func writeAt(fd descriptor, b []byte, offset int64) (n int, err error) {
	for {
		if offset < 0 {
			n, err = unix.Write(fd, b)
		} else {
			n, err = unix.Pwrite(fd, b, offset)
		}
		if err != unix.EINTR {
			return n, err
		}
	}
}

// instant is a reading of the clock that times operations.
type instant = time.Time

func now() instant { return time.Now() }

// since returns the nanoseconds that have passed.
func since(t instant) int64 { return int64(time.Since(t)) }

// folder is an open directory. Names are relative to it, so the length of its path does
// not matter.
type folder struct{ fd int }

func openFolder(path string) (folder, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return folder{}, fmt.Errorf("open %s: %w", path, err)
	}
	return folder{fd}, nil
}

func (f folder) close() { unix.Close(f.fd) }

// create makes a new file.
func (f folder) create(name string) (descriptor, error) {
	return unix.Openat(f.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
}

func (f folder) remove(name string) error { return unix.Unlinkat(f.fd, name, 0) }

// size looks a file up and returns its size in bytes.
func (f folder) size(name string) (int64, error) {
	var st unix.Stat_t
	err := unix.Fstatat(f.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return int64(st.Size), err
}

// sync forces the names to the disk. Some file systems do not support fsync of a
// directory; they have no alternative.
func (f folder) sync() error {
	if err := unix.Fsync(f.fd); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("fsync the directory: %w", err)
	}
	return nil
}
