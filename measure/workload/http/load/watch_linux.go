package load

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"bakeoff/base/fault"

	"golang.org/x/sys/unix"
)

// A worker with a CPU makes a turn at least every sweepEvery, whatever the
// server does. A worker that makes none is kept from its CPU, or stuck; its
// latencies would not be the server's. The watcher must not depend on what the
// workers lack. It has the ordinary class, for which the kernel reserves a part
// of each CPU; and it waits in the kernel, not in the Go scheduler, whose other
// threads may be stuck, too.

const (
	// stall is how long a worker may make no progress before the trial is
	// aborted, and watchEvery the interval of checks.
	stall      = 5 * time.Second
	watchEvery = 250 * time.Millisecond
	// stallLooks is the number of checks that must have found no progress:
	// on a machine that was stopped for a while, no worker is stuck.
	stallLooks = 5
)

// pulse is the visible progress of a worker.
type pulse struct {
	steps   atomic.Int64
	working atomic.Bool
	stat    atomic.Int64 // schedstat of its thread; 0 if there is none yet
}

// gate opens when all workers have passed it.
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
		// The event's counter cannot overflow: it is increased once.
		_, _ = unix.Write(g.fd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

func (g *gate) close() { unix.Close(g.fd) }

// open waits until the gate is open, for at most watchEvery.
func (g *gate) open() bool {
	fds := unix.PollFd{Fd: int32(g.fd), Events: unix.POLLIN}
	ts := unix.NsecToTimespec(int64(watchEvery))
	n, _, _ := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 1, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	return int(n) == 1 && g.left.Load() <= 0
}

// watched is the watcher's record of a worker.
type watched struct {
	steps int64
	since int64 // time of the first check without progress, on the clock of now
	looks int
	delay int64 // its waiting time for a CPU then, in nanoseconds; -1 if unknown
}

// watch waits until the gate is open. It returns an error if a worker makes no
// progress; the process is then back in the ordinary class. The caller must be
// locked to its thread.
func (s *standing) watch(g *gate, workers []*worker) error {
	seen := make([]watched, len(workers))
	for !g.open() {
		for i, w := range workers {
			if seen[i].isStuck(w) {
				_ = s.giveUp()
				return stalled(s.words, i, len(workers), w, seen[i])
			}
		}
	}
	return nil
}

// isStuck reports whether w has made no progress for too long.
func (s *watched) isStuck(w *worker) bool {
	if n := w.pulse.steps.Load(); n != s.steps || !w.pulse.working.Load() {
		*s = watched{steps: n}
		return false
	}
	if s.looks++; s.looks == 1 {
		s.since, s.delay = nowNanos(), w.pulse.delay()
	}
	return s.looks > stallLooks && nowNanos()-s.since >= int64(stall)
}

// stalled returns an error with the stuck worker, and whether it had a CPU.
func stalled(priority string, i, n int, w *worker, s watched) error {
	const grain = 100 * time.Millisecond
	what := fmt.Sprintf("thread %d of %d of the generator (%s) made no progress for %v", i+1, n, priority,
		time.Duration(nowNanos()-s.since).Round(grain))
	if d := w.pulse.delay(); d >= 0 && s.delay >= 0 {
		what += fmt.Sprintf("; it was ready and had no CPU for %v of that", time.Duration(d-s.delay).Round(grain))
	}
	return fault.WithFix(fault.New(fault.Lab, "%s", what),
		"see what else has real-time priority there (ps -eLo cls,rtprio,psr,pid,comm): the generator needs a CPU that "+
			"nothing else keeps")
}

// delay returns how long the worker's thread has been ready without running, in
// nanoseconds; -1 if unknown.
func (p *pulse) delay() int64 {
	fd := p.stat.Load()
	if fd <= 0 {
		return -1
	}
	t := thread{stat: int(fd)}
	return t.delay()
}
