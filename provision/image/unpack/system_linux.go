package unpack

import (
	"archive/tar"
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

func setAttribute(f *os.File, name, value string) error {
	return os.NewSyscallError("fsetxattr", unix.Fsetxattr(int(f.Fd()), name, []byte(value), 0))
}

// fifo creates a named pipe.
func (u *unpacker) fifo(at *os.Root, base, real string, h *tar.Header) error {
	uid, gid, err := owner(h)
	if err != nil {
		return err
	}
	if _, err := u.clearPath(at, base, real, false); err != nil {
		return err
	}
	dir, err := at.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Mkfifoat(int(dir.Fd()), base, 0o600); err != nil {
		return os.NewSyscallError("mkfifoat", err)
	}
	if !u.o.Anybody {
		if err := at.Lchown(base, uid, gid); err != nil {
			return err
		}
	}
	return at.Chmod(base, mode(h.Mode))
}

// Sync writes the file system of a folder to its disk.
func Sync(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd())))
}

// fileAttributes are the extended attributes of an open file.
func fileAttributes(f *os.File) (map[string]string, error) {
	names := make([]byte, 64<<10)
	n, err := unix.Flistxattr(int(f.Fd()), names)
	if errors.Is(err, unix.ENOTSUP) || err == nil && n == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, os.NewSyscallError("flistxattr", err)
	}
	out, value := map[string]string{}, make([]byte, maxAttribute)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
		n, err := unix.Fgetxattr(int(f.Fd()), name, value)
		if err != nil {
			return nil, os.NewSyscallError("fgetxattr", err)
		}
		out[name] = string(value[:n])
	}
	return out, nil
}
