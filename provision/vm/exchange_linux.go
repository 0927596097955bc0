package vm

import (
	"os"

	"golang.org/x/sys/unix"
)

// exchange gives each of two files the name of the other.
func exchange(a, b string) error {
	return os.NewSyscallError("renameat2", unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE))
}
