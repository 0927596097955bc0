//go:build unix && !illumos && !solaris

package lock

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return fmt.Errorf("%s: %w", f.Name(), ErrHeld)
		case !errors.Is(err, syscall.EINTR):
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
}

// held tries a shared lock, which fails while another process has the exclusive
// lock.
func held(f *os.File) bool {
	err := syscall.EINTR
	for errors.Is(err, syscall.EINTR) {
		err, _ = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB).(syscall.Errno)
	}
	return errors.Is(err, syscall.EWOULDBLOCK)
}
