//go:build unix

package local

import (
	"io"
	"os"
	"syscall"
	"time"
)

// NonBlocking makes an open of a pipe without a writer return.
const NonBlocking = syscall.O_NONBLOCK

// OutputPipe is os.Pipe, whose reader has deadlines.
func OutputPipe() (r, w *os.File, err error) { return os.Pipe() }

// ReadNow reads from a pipe without waiting, whatever its deadline was, and removes the
// deadline. It returns io.EOF if the pipe is empty or at its end.
func ReadNow(f *os.File, buf []byte) (n int, err error) {
	f.SetReadDeadline(time.Time{})
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	rerr := raw.Read(func(fd uintptr) bool {
		for {
			n, err = syscall.Read(int(fd), buf)
			if err != syscall.EINTR {
				return true
			}
		}
	})
	if err != nil || rerr != nil || n == 0 {
		return 0, io.EOF
	}
	return n, nil
}
