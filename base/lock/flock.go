//go:build unix && !illumos && !solaris

package lock

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EWOULDBLOCK) && lockedByOther(f):
			return fmt.Errorf("%s: %w", f.Name(), ErrHeld)
		case errors.Is(err, syscall.EWOULDBLOCK):
			// Somebody asked whether it is held, and had it shared for a
			// moment.
			unlock(f)
			time.Sleep(askTime)
		case !errors.Is(err, syscall.EINTR):
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
}

// askTime is more than lockedByOther takes.
const askTime = 100 * time.Microsecond

// unlock releases the lock at once. Closing the file would not, as long as a program
// that another thread is starting has a copy of the descriptor.
func unlock(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }

// lockedByOther tries a shared lock, which fails while another process has the exclusive
// lock.
func lockedByOther(f *os.File) bool {
	err := syscall.EINTR
	for errors.Is(err, syscall.EINTR) {
		err, _ = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB).(syscall.Errno)
	}
	return errors.Is(err, syscall.EWOULDBLOCK)
}
