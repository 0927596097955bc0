package local

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

var _ conn.Files = Conn{}

// ReadFile returns a file of at most conn.FileLimit bytes.
func (Conn) ReadFile(_ context.Context, path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fault.Wrap(missing(err), "", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, conn.FileLimit+1))
	if len(b) > conn.FileLimit {
		return nil, fault.New(fault.Lab, "%s: the file is longer than %d bytes", path, conn.FileLimit)
	}
	return b, fault.Wrap(missing(err), "", err)
}

// WriteFile writes to a file that exists, in one write.
func (Conn) WriteFile(_ context.Context, path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fault.Wrap(missing(err), "", err)
	}
	_, err = f.Write(data)
	return fault.Wrap(missing(err), "", errors.Join(err, f.Close()))
}

// Mkdir creates one directory. In a cgroup that is being removed the kernel
// returns ENODEV; that is an error of kind fault.NotFound, too.
func (Conn) Mkdir(_ context.Context, path string) error {
	err := os.Mkdir(path, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if errors.Is(err, syscall.ENODEV) {
		return fault.Wrap(fault.NotFound, "", err)
	}
	return fault.Wrap(missing(err), "", err)
}

// Rmdir removes one empty directory.
func (Conn) Rmdir(_ context.Context, path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fault.Wrap(fault.Lab, "", err)
}

// ReadDir returns the names in a directory, sorted.
func (Conn) ReadDir(_ context.Context, path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fault.Wrap(missing(err), "", err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}
