package agent

import (
	"os"
	"os/exec"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// isolate gives cmd its own process group, and makes the kernel kill it when
// the agent ends.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitBriefly waits until p has ended, but not longer than limit, and reads its output
// meanwhile. It returns false if p may still run. Nothing else runs in this agent meanwhile:
// when a system call of Go takes longer than some microseconds, Go wakes other threads, and on
// the CPU of a command of some milliseconds they take several percent of its time.
func awaitBriefly(p *os.Process, s *streams, limit time.Duration) (ended bool) {
	_ = p.WithHandle(func(pidfd uintptr) { // without a handle, it is awaited as others are
		fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
		for _, r := range s.reads {
			fds = append(fds, unix.PollFd{Fd: descriptorOf(r), Events: unix.POLLIN})
		}
		buf := make([]byte, 64<<10)
		for end := time.Now().Add(limit); ; {
			left := time.Until(end)
			if left <= 0 {
				return
			}
			ts := unix.NsecToTimespec(left.Nanoseconds())
			n, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), uintptr(len(fds)),
				uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
			switch {
			case errno == unix.EINTR:
				continue
			case errno != 0 || n == 0:
				return
			case fds[0].Revents != 0:
				ended = true
				return
			}
			for i := range fds[1:] {
				if f := &fds[1+i]; f.Revents != 0 {
					n, _, errno := syscall.RawSyscall(unix.SYS_READ, uintptr(f.Fd), uintptr(unsafe.Pointer(&buf[0])),
						uintptr(len(buf)))
					switch {
					case errno == 0 && n > 0:
						_, _ = s.outs[i].Write(buf[:n]) // as io.Copy does, its errors end the copy later
					case errno != unix.EINTR && errno != unix.EAGAIN:
						f.Fd = -1 // closed
					}
				}
			}
		}
	})
	return ended
}

// descriptorOf is the file descriptor of an open file, or -1, which poll(2) ignores.
func descriptorOf(f *os.File) int32 {
	fd := int32(-1)
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(d uintptr) { fd = int32(d) })
	}
	return fd
}
