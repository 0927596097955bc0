//go:build illumos || solaris

package lock

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// flock uses fcntl locks, which these systems have. They belong to the
// process, so two locks of one path inside one process do not exclude each
// other.
func flock(f *os.File) error {
	err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%s: %w", f.Name(), ErrHeld)
	}
	return err
}

// unlock does nothing: closing the file releases the lock.
func unlock(*os.File) {}

// lockedByOther asks for a lock that would conflict with one of this process.
func lockedByOther(f *os.File) bool {
	asked := unix.Flock_t{Type: unix.F_WRLCK}
	err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &asked)
	return err == nil && asked.Type != unix.F_UNLCK
}
