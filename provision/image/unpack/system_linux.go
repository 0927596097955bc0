package unpack

import (
	"archive/tar"
	"os"

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
	if _, err := u.clear(at, base, real, false); err != nil {
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
