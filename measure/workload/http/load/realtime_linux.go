package load

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What real-time priority requires of a Go program. Its threads wait for each
// other: a worker yields to the Go scheduler every 10 ms and continues when
// another thread has returned its turn, and parts of the runtime wait by
// polling (the garbage collector's sweeper, while another thread is in the
// middle of a span: bgsweep in runtime/mgcsweep.go). Therefore
//
//   - all threads of the generator have the priority, or none. If only the
//     workers had it, they would wait, behind all other load of the
//     CPU, for the threads that return their turn;
//   - they use round-robin scheduling (SCHED_RR, sched(7)). With SCHED_FIFO a
//     thread keeps its CPU from others of its priority until it sleeps: a
//     generator that `chrt -f` had started on one CPU polled there without end
//     for a thread that it kept from running.

// realtime is the priority of a generator with its own CPUs: the lowest
// real-time priority.
const realtime = 1

// inTurn is the real-time class of that priority with round-robin scheduling.
func inTurn(priority uint32) *unix.SchedAttr {
	return &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: priority}
}

// everyday is the ordinary class with a nice value.
func everyday(nice int32) *unix.SchedAttr {
	return &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL, Nice: nice}
}

// setAll moves every thread of this process to a class.
func setAll(to *unix.SchedAttr) error {
	// Threads created in the meantime by an unchanged thread are found in
	// the next round.
	for range 100 {
		changed, err := setThreads(to, threads())
		if err != nil || changed == 0 {
			return err
		}
	}
	return errors.New("the process creates threads faster than bakeoff can change their scheduling class")
}

// setThreads moves the threads that are not in the class yet, and returns their
// number. It never yields to the Go scheduler, because changed threads may be
// kept from a CPU from then on.
func setThreads(to *unix.SchedAttr, tids []int) (changed int, err error) {
	for _, tid := range tids {
		has := unix.SchedAttr{}
		_, _, errno := unix.RawSyscall6(unix.SYS_SCHED_GETATTR, uintptr(tid), uintptr(unsafe.Pointer(&has)),
			unix.SizeofSchedAttr, 0, 0, 0)
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

// startedWith returns the class with which this process was started. If it is a
// real-time class, its threads use round-robin scheduling from then on.
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

// takeTurns switches the threads of a process that was started with real-time
// priority to round-robin scheduling. It returns that priority in words; "" if
// there is none.
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

// standing is the scheduling class of this process and its threads.
type standing struct {
	words string          // for people
	class *unix.SchedAttr // of its threads; nil for what they were started with
	nice  int32           // of the ordinary class
	tids  []int           // of the threads that were given the class
}

// standingOf returns the class for this process; first requests real-time
// priority.
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

// raisePriority moves the process to the class, if the system permits it. Only the
// calling thread stays ordinary, or becomes it: the watcher must not be kept
// from a CPU together with the others. The caller must be locked to its thread.
func (s *standing) raisePriority() {
	if s.class == nil {
		return
	}
	own := unix.Gettid()
	_ = unix.SchedSetAttr(0, everyday(s.nice), 0) // a lower priority is always permitted
	s.tids = slices.DeleteFunc(threads(), func(tid int) bool { return tid == own })
	if _, err := setThreads(s.class, s.tids); err != nil {
		*s = standing{words: "normal: " + refusal(err)}
	}
}

// giveUp returns the process to the ordinary class.
func (s *standing) giveUp() error {
	if s.class == nil {
		return nil
	}
	// First the threads that may be kept from a CPU: the caller needs them
	// for the rest.
	if _, err := setThreads(everyday(s.nice), s.tids); err != nil {
		return err
	}
	return setAll(everyday(s.nice))
}
