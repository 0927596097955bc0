package load

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// poller waits for events on sockets, with timeouts in nanoseconds.
type poller struct {
	fd     int
	coarse bool // the kernel has no epoll_pwait2 (before 5.11)
	events [256]unix.EpollEvent
}

func (p *poller) open() (err error) {
	p.fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	return err
}

func (p *poller) close() { unix.Close(p.fd) }

// add registers a socket for its whole life; its events have id in Fd.
func (p *poller) add(fd, id int) unix.Errno {
	e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(id)}
	if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &e); err != nil {
		return err.(unix.Errno)
	}
	return 0
}

// wait returns pending events, or those that arrive within ns nanoseconds. They
// are valid until the next wait. A signal ends it early.
func (p *poller) wait(ns int64) []unix.EpollEvent {
	at := uintptr(unsafe.Pointer(&p.events[0]))
	if !p.coarse {
		ts := unix.NsecToTimespec(max(0, ns))
		n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.fd), at, uintptr(len(p.events)),
			uintptr(unsafe.Pointer(&ts)), 0, 0)
		if errno == 0 {
			return p.events[:n]
		}
		p.coarse = errno == unix.ENOSYS
		return nil
	}
	// Whole milliseconds, rounded down; the rest is spent polling, which
	// costs CPU time but keeps it on time.
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), at, uintptr(len(p.events)),
		uintptr(max(0, ns)/int64(time.Millisecond)), 0, 0)
	if errno != 0 {
		return nil
	}
	return p.events[:n]
}

// ring is a queue of the numbers of sockets, with room for all of them.
type ring struct {
	at   []int
	head int
	n    int
}

func newRing(size int) ring { return ring{at: make([]int, size)} }

func (r *ring) empty() bool { return r.n == 0 }

func (r *ring) push(i int) {
	r.at[(r.head+r.n)%len(r.at)] = i
	r.n++
}

func (r *ring) pop() int {
	i := r.at[r.head]
	r.head = (r.head + 1) % len(r.at)
	r.n--
	return i
}
