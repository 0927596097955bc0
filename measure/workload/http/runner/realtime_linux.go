package runner

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What real-time priority asks of a program in Go. Its threads wait for one
// another: a worker gives its turn to the scheduler every 10 ms and goes on when
// another thread has handed it back, and some of the runtime waits by looking
// again and again (the collector's sweeper, while another thread is in the middle
// of a span: bgsweep in runtime/mgcsweep.go). So
//
//   - all threads of the generator have the priority, or none. If only the
//     workers had it they would wait, behind what everybody else wants of the
//     CPU, for those that hand back their turn;
//   - they take turns (SCHED_RR, sched(7)). With SCHED_FIFO a thread keeps its CPU
//     from others of its priority until it sleeps, and a generator that `chrt -f`
//     had started on one CPU waited there, for ever, for a thread that the
//     waiting kept from running.

// realtime is the priority of a generator that has CPUs of its own: the
// lowest of those that come before everything ordinary.
const realtime = 1

// inTurn is a real-time class of that priority whose threads take turns.
func inTurn(priority uint32) *unix.SchedAttr {
	return &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: priority}
}

// everyday is the ordinary class, with the nice value of that.
func everyday(nice int32) *unix.SchedAttr {
	return &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL, Nice: nice}
}

// setAll puts every thread of this process into a class.
func setAll(to *unix.SchedAttr) error {
	// Threads that were made meanwhile, by one that had not changed yet, are
	// found the next time.
	for range 100 {
		changed, err := setThreads(to, threads())
		if err != nil || changed == 0 {
			return err
		}
	}
	return errors.New("threads are made faster than they change their class")
}

// setThreads changes those threads that are not in the class, and returns how
// many that were. It never gives its turn to the Go scheduler: what it has changed
// may be kept from a CPU from then on, with all that a turn needs.
func setThreads(to *unix.SchedAttr, tids []int) (changed int, err error) {
	for _, tid := range tids {
		has := unix.SchedAttr{}
		_, _, errno := unix.RawSyscall6(unix.SYS_SCHED_GETATTR, uintptr(tid), uintptr(unsafe.Pointer(&has)), unix.SizeofSchedAttr, 0, 0, 0)
		if errno != 0 || has.Policy == to.Policy && has.Priority == to.Priority {
			continue
		}
		_, _, errno = unix.RawSyscall(unix.SYS_SCHED_SETATTR, uintptr(tid), uintptr(unsafe.Pointer(to)), 0)
		if errno != 0 && errno != unix.ESRCH {
			return changed, errno
		}
		changed++
	}
	return changed, nil
}

// threads returns the threads of this process.
func threads() (tids []int) {
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		if tid, err := strconv.Atoi(task.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids
}

// startedWith returns the class that this process was started with. Where that is
// one of real-time priority its threads take turns from now on.
func startedWith() (*unix.SchedAttr, error) {
	a, err := unix.SchedGetAttr(os.Getpid(), 0)
	if err != nil || !isRealtime(a) {
		return a, err
	}
	return inTurn(a.Priority), setAll(inTurn(a.Priority))
}

func isRealtime(a *unix.SchedAttr) bool {
	return a.Policy == unix.SCHED_FIFO || a.Policy == unix.SCHED_RR
}

// takeTurns sees to it that the threads of a process that was started with
// real-time priority take turns. It returns that priority in words, "" where there
// is none.
func takeTurns() (priority string, err error) {
	a, err := startedWith()
	if err != nil || !isRealtime(a) {
		return "", err
	}
	return asStarted(a), nil
}

func asStarted(a *unix.SchedAttr) string {
	return fmt.Sprintf("real-time (priority %d), as it was started", a.Priority)
}

// standing is what a process has of the CPUs, before others or beside them.
type standing struct {
	words string          // for people
	class *unix.SchedAttr // of its threads; nil for what they were started with
	nice  int32           // of the ordinary class
	tids  []int           // of the threads that were given the class
}

// standingOf is what this process can have, where first says whether it is to run
// before everything ordinary.
func standingOf(first bool) standing {
	a, err := startedWith()
	switch {
	case err != nil:
		return standing{words: "normal: " + refusal(err)}
	case isRealtime(a):
		return standing{words: asStarted(a), class: a}
	case a.Policy != unix.SCHED_NORMAL:
		return standing{words: fmt.Sprintf("normal: it was started with policy %d", a.Policy)}
	case !first:
		return standing{words: "normal: asked for, or for want of a CPU for each thread"}
	}
	return standing{words: fmt.Sprintf("real-time (SCHED_RR %d)", realtime), class: inTurn(realtime), nice: a.Nice}
}

// take puts the process there where the system permits it. The calling thread
// alone stays ordinary, or becomes it: whoever watches the others must not be kept
// from a CPU with them. The caller is locked to it.
func (s *standing) take() {
	if s.class == nil {
		return
	}
	own := unix.Gettid()
	_ = unix.SchedSetAttr(0, everyday(s.nice), 0) // to be less is always permitted
	s.tids = slices.DeleteFunc(threads(), func(tid int) bool { return tid == own })
	if _, err := setThreads(s.class, s.tids); err != nil {
		*s = standing{words: "normal: " + refusal(err)}
	}
}

// giveUp makes the process ordinary.
func (s *standing) giveUp() error {
	if s.class == nil {
		return nil
	}
	// What may be kept from a CPU comes first: whoever calls this needs it for
	// the rest.
	if _, err := setThreads(everyday(s.nice), s.tids); err != nil {
		return err
	}
	return setAll(everyday(s.nice))
}
