package runner

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"bakeoff/base/fault"

	"golang.org/x/sys/unix"
)

// A worker that has a CPU makes a turn every sweepEvery at the least, whatever
// the server does. One that makes none is kept from its CPU, or stuck; what it
// would report in the end were not the server's times.
//
// Whoever watches must not need what the workers lack. It is ordinary, for which
// the kernel saves a part of each CPU; and it waits in the kernel, past the Go
// scheduler, whose other threads may be stuck as well.

const (
	// stall is how long a worker may make no progress until the trial is given
	// up, and watchEvery how often that is looked at.
	stall      = 5 * time.Second
	watchEvery = 250 * time.Millisecond
	// stallLooks is how many looks must have found it so: a machine that was
	// stopped for a while, and its clock not, has stalled nobody.
	stallLooks = 5
)

// pulse is what a worker shows of itself while it works.
type pulse struct {
	steps   atomic.Int64
	working atomic.Bool
	stat    atomic.Int64 // schedstat of its thread, 0 while there is none
}

// gate opens when everybody has passed.
type gate struct {
	left atomic.Int64
	fd   int
}

func newGate(n int) (*gate, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	g := &gate{fd: fd}
	g.left.Store(int64(n))
	return g, err
}

func (g *gate) pass() {
	if g.left.Add(-1) == 0 {
		// The count in the event cannot run full: it is added to once.
		_, _ = unix.Write(g.fd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

func (g *gate) close() { unix.Close(g.fd) }

// open waits until the gate is open, at most for watchEvery.
func (g *gate) open() bool {
	fds := unix.PollFd{Fd: int32(g.fd), Events: unix.POLLIN}
	ts := unix.NsecToTimespec(int64(watchEvery))
	n, _, _ := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 1, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	return int(n) == 1 && g.left.Load() <= 0
}

// watched is what was seen of a worker.
type watched struct {
	steps int64
	since int64 // of the first look that found no progress, on the clock of now
	looks int
	delay int64 // that it had waited for a CPU then, nanoseconds; -1 if unknown
}

// watch waits until the gate is open. It returns an error when one of the workers
// makes no progress; the process is ordinary then. The caller is locked to its
// thread.
func (s *standing) watch(g *gate, workers []*worker) error {
	seen := make([]watched, len(workers))
	for !g.open() {
		for i, w := range workers {
			if seen[i].look(w) {
				_ = s.giveUp()
				return stalled(s.words, i, len(workers), w, seen[i])
			}
		}
	}
	return nil
}

// look tells whether w has made no progress for too long.
func (s *watched) look(w *worker) bool {
	if n := w.pulse.steps.Load(); n != s.steps || !w.pulse.working.Load() {
		*s = watched{steps: n}
		return false
	}
	if s.looks++; s.looks == 1 {
		s.since, s.delay = now(), w.pulse.delay()
	}
	return s.looks > stallLooks && now()-s.since >= int64(stall)
}

// stalled says which worker is stuck, and whether it had a CPU.
func stalled(priority string, i, n int, w *worker, s watched) error {
	const grain = 100 * time.Millisecond
	what := fmt.Sprintf("thread %d of %d of the generator (%s) made no progress for %v", i+1, n, priority, time.Duration(now()-s.since).Round(grain))
	if d := w.pulse.delay(); d >= 0 && s.delay >= 0 {
		what += fmt.Sprintf("; it was ready and had no CPU for %v of that", time.Duration(d-s.delay).Round(grain))
	}
	return fault.WithFix(fault.New(fault.Lab, "%s", what),
		"see what else has real-time priority there (ps -eLo cls,rtprio,psr,pid,comm): the generator needs a CPU that nothing else keeps")
}

// delay returns how long the worker's thread has been ready without running, in
// nanoseconds, -1 where it is not known.
func (p *pulse) delay() int64 {
	fd := p.stat.Load()
	if fd <= 0 {
		return -1
	}
	t := thread{stat: int(fd)}
	return t.delay()
}
