package load

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// thread is the thread of the operating system that a worker is locked to, as
// the scheduler sees it.
type thread struct {
	stat int // its schedstat; -1 if there is none
	buf  [64]byte
}

// openThread opens the account of the calling thread.
func openThread() thread {
	fd, err := unix.Open("/proc/thread-self/schedstat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		fd = -1
	}
	return thread{stat: fd}
}

func (t *thread) close() {
	if t.stat >= 0 {
		unix.Close(t.stat)
	}
}

// delay returns how long the thread has been ready to run without running, in
// nanoseconds: the second number of its schedstat (the kernel's
// sched-stats.rst). It is -1 if the kernel does not count it.
func (t *thread) delay() int64 {
	if t.stat < 0 {
		return -1
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_PREAD64, uintptr(t.stat), uintptr(unsafe.Pointer(&t.buf[0])),
		uintptr(len(t.buf)), 0, 0, 0)
	if errno != 0 {
		return -1
	}
	return secondNumber(t.buf[:n])
}

// secondNumber returns the second of decimal numbers separated by single
// spaces; -1 if there is none. It allocates nothing.
func secondNumber(b []byte) int64 {
	_, rest, _ := bytes.Cut(b, []byte(" "))
	digits, _, _ := bytes.Cut(rest, []byte(" "))
	n, err := strconv.ParseUint(string(digits), 10, 63)
	if err != nil {
		return -1
	}
	return int64(n)
}

// threadCPU returns the CPU time of the calling thread in nanoseconds, without
// stolen time if the hypervisor reports it.
func threadCPU() int64 {
	var ts unix.Timespec
	_, _, errno := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_THREAD_CPUTIME_ID, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return 0
	}
	return ts.Nano()
}

// sharpenTimer makes the kernel wake the calling thread exactly when its timeouts
// end, instead of up to 50 µs later (prctl(2), PR_SET_TIMERSLACK), and moves it
// to its process's class; nil is the ordinary one. undo restores the thread's
// own settings; standing.giveUp restores the class. An ordinary thread of an
// open loop requests short slices: it then gets the CPU sooner after a wake-up,
// but not more of it (since Linux 6.12).
func sharpenTimer(class *unix.SchedAttr, open bool) (undo func()) {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	old, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return func() {}
	}
	switch {
	case class != nil:
		own := *class // the call writes its size into it, and all threads have one class
		_ = unix.SchedSetAttr(0, &own, 0)
		return func() {}
	case open && old.Policy == unix.SCHED_NORMAL:
		short := *old
		short.Runtime = uint64(100 * time.Microsecond)
		_ = unix.SchedSetAttr(0, &short, 0)
	}
	return func() { _ = unix.SchedSetAttr(0, old, 0) }
}

// yieldToServer keeps the calling thread from interrupting the server on its CPU when a
// response arrives (SCHED_BATCH in sched(7)); hasten's undo restores its class. A server
// that is interrupted for every response makes both sides switch for each request. It
// reports whether the thread is in that class now.
func yieldToServer() bool {
	a, err := unix.SchedGetAttr(0, 0)
	if err != nil || a.Policy != unix.SCHED_NORMAL {
		return false
	}
	a.Policy = unix.SCHED_BATCH
	return unix.SchedSetAttr(0, a, 0) == nil
}

// serverIsHere reports whether this thread may use only one CPU, and the responses came
// from that CPU: on the loopback interface and between network namespaces, a packet is
// received on the CPU that sent it.
func (w *worker) serverIsHere() bool {
	var own unix.CPUSet
	if unix.SchedGetaffinity(0, &own) != nil || own.Count() != 1 {
		return false
	}
	open := 0
	for _, s := range w.sockets {
		if s.fd < 0 {
			continue
		}
		open++
		cpu, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_INCOMING_CPU)
		if err != nil || cpu < 0 || !own.IsSet(cpu) {
			return false
		}
	}
	return open > 0
}

// wantsRealTime reports whether the generator's threads should have real-time priority.
// Their time slices are long, so each needs a CPU.
func (l *load) wantsRealTime() bool { return !l.ordinary && l.threads <= runtime.NumCPU() }

// refusal explains why a thread gets no real-time priority.
func refusal(err error) string {
	if errors.Is(err, unix.EPERM) {
		return "real-time priority needs root, and a control group with a share of it"
	}
	return "real-time priority: " + err.Error()
}

// garbage is how much memory a generator may use before the garbage collector
// runs, whose threads would compete for the CPU.
var garbage int64 = 256 << 20

// deferCollection defers garbage collection, and returns a function that restores it.
func deferCollection() (restore func()) {
	limit, percent := debug.SetMemoryLimit(garbage), debug.SetGCPercent(-1)
	return func() { debug.SetGCPercent(percent); debug.SetMemoryLimit(limit) }
}

// realtimeShare is the share of time that the kernel allows to real-time
// threads (sched_rt_runtime_us in sched(7)); 1 if unknown.
func realtimeShare() float64 {
	var us [2]float64
	for i, name := range []string{"runtime", "period"} {
		b, err := os.ReadFile("/proc/sys/kernel/sched_rt_" + name + "_us")
		if err != nil {
			return 1
		}
		if us[i], err = strconv.ParseFloat(strings.TrimSpace(string(b)), 64); err != nil || !(us[i] > 0) {
			return 1
		}
	}
	return min(1, us[0]/us[1])
}
