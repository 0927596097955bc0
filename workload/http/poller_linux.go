package http

import (
	"os"
	"strconv"
	"strings"
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

// add registers a socket once for all its life; id comes back in the Fd of
// its events.
func (p *poller) add(fd, id int) unix.Errno {
	e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(id)}
	if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &e); err != nil {
		return err.(unix.Errno)
	}
	return 0
}

// wait returns the events that are there, or come within ns nanoseconds. They
// are valid until the next wait. A signal ends it early.
func (p *poller) wait(ns int64) []unix.EpollEvent {
	at := uintptr(unsafe.Pointer(&p.events[0]))
	if !p.coarse {
		ts := unix.NsecToTimespec(max(0, ns))
		n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.fd), at, uintptr(len(p.events)), uintptr(unsafe.Pointer(&ts)), 0, 0)
		if errno == 0 {
			return p.events[:n]
		}
		p.coarse = errno == unix.ENOSYS
		return nil
	}
	// Whole milliseconds, rounded down: the rest is spent asking again, which
	// costs CPU time but not punctuality.
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), at, uintptr(len(p.events)), uintptr(max(0, ns)/int64(time.Millisecond)), 0, 0)
	if errno != 0 {
		return nil
	}
	return p.events[:n]
}

// punctual asks the kernel to wake this thread when its timeouts end, not up
// to 50 µs later as is the default (prctl(2), PR_SET_TIMERSLACK). For an open
// loop it also asks for short slices: a thread with those comes sooner to the
// CPU when it wakes up, and gets no more of it (sched(7), since Linux 6.12).
// A kernel that refuses shows in the lateness.
func punctual(open bool) {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	attr, err := unix.SchedGetAttr(0, 0)
	if open && err == nil && attr.Policy == unix.SCHED_NORMAL {
		attr.Runtime = uint64(100 * time.Microsecond)
		_ = unix.SchedSetAttr(0, attr, 0)
	}
}

// runDelay returns how long the calling thread has been ready to run without
// running, in nanoseconds: the second number of its schedstat (the kernel's
// sched-stats.rst). It is -1 where the kernel does not count it.
func runDelay() int64 {
	b, err := os.ReadFile("/proc/thread-self/schedstat")
	if err != nil {
		return -1
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return -1
	}
	n, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return -1
	}
	return n
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
