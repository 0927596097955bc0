//go:build linux

package probe

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bakeoff/base/facts"
)

// worker computes on one CPU for as much CPU time as it is asked, and sleeps
// in between. It comes before all others where the system permits it, so that
// on a busy machine too the CPU is its own meanwhile.
type worker struct {
	ask  chan time.Duration
	done chan time.Duration // CPU time that it took, to the nanosecond
}

func newWorker(t *testing.T, cpu int) worker {
	t.Helper()
	w := worker{make(chan time.Duration), make(chan time.Duration, 1)}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with it
		var set unix.CPUSet
		set.Set(cpu)
		err := unix.SchedSetaffinity(0, &set)
		comeFirst()
		ready <- err
		for want := range w.ask {
			began := threadTime()
			for threadTime()-began < want {
			}
			w.done <- threadTime() - began
		}
	}()
	if err := <-ready; err != nil {
		t.Skipf("this process may not choose its CPU: %v", err)
	}
	t.Cleanup(func() { close(w.ask) })
	return w
}

// comeFirst has this thread come before all ordinary ones, where the system
// permits it.
func comeFirst() {
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 10}, 0)
}

// threadTime is the CPU time of this thread. (getrusage(2) tells the same, but
// for a thread that runs only up to the last tick.)
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// work has it compute, and returns for how long it did.
func (w worker) work(t *testing.T, want time.Duration) time.Duration {
	t.Helper()
	w.ask <- want
	select {
	case took := <-w.done:
		return took
	case <-time.After(time.Minute):
		t.Fatalf("%v of CPU time could not be had in a minute", want)
		return 0
	}
}

// Work of one tick and a half, or of two and a half, is told to the tenth, which ticks
// never do: what they can say of 25 ms is 20 or 30. The best of some readings is
// compared, as others may use the CPU between a reading and the work; on a
// machine that is busy it takes a few more.
func TestWorkOfAFewTicks(t *testing.T) {
	cpus, err := CPUs()
	if err != nil {
		t.Fatal(err)
	}
	cpu := cpus[len(cpus)-1]
	if ns, _ := readTaskTime([]int{cpu}); ns == nil {
		t.Skip("needs a kernel with /proc/schedstat, or control groups of version 1 with cpuacct")
	}
	w := newWorker(t, cpu)
	for _, want := range []time.Duration{15 * time.Millisecond, 25 * time.Millisecond} {
		best, bestTicks, source := math.Inf(1), math.Inf(1), ""
		for n, until := 0, time.Now().Add(20*time.Second); n < 20 || (best > 0.05 && time.Now().Before(until)); n++ {
			before := ReadHost([]int{cpu})
			own := w.work(t, want).Seconds()
			time.Sleep(100 * time.Microsecond) // until it sleeps as well
			d := ReadHost([]int{cpu}).Since(before)
			seconds, by, _ := d.Busy()
			off := math.Abs(seconds/own - 1)
			if passed := float64(d.AtNS) / 1e9; d.CPU.Idle+d.CPU.IOWait == 0 {
				// Where the worker may not come first and others never leave the CPU,
				// it was busy all the time.
				off = min(off, math.Abs(seconds/passed-1))
			}
			if off < best {
				best, source = off, by
			}
			// An interruption that the kernel takes for work may make it a time that
			// ticks can say.
			if own < 1.05*want.Seconds() {
				bestTicks = min(bestTicks, math.Abs(d.CPU.Busy()/own-1))
			}
		}
		t.Logf("%v of work: off by %.2f %% by %s, by %.0f %% in ticks, at best", want, 100*best, source, 100*bestTicks)
		if best > 0.1 || source == facts.SourceTicks {
			t.Errorf("%v of work are off by %.1f %% by %s", want, 100*best, source)
		}
		if bestTicks <= 0.1 {
			t.Errorf("ticks are off by %.1f %% only: then this test shows nothing", 100*bestTicks)
		}
	}
}

// What a thread has spent since the last tick is told as well. It is not
// interrupted, as every interruption is a time at which the kernel counts.
func TestThreadCountsUntilNow(t *testing.T) {
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with it
		comeFirst()
		failed <- func() error {
			for i, last := 0, 0.0; i < 50; i++ {
				for end := time.Now().Add(500 * time.Microsecond); time.Now().Before(end); {
				}
				now, err := Thread()
				if err != nil || now <= last {
					return fmt.Errorf("half a millisecond of work, number %d, took from %g to %g s (%v)", i+1, last, now, err)
				}
				last = now
			}
			return nil
		}()
	}()
	if err := <-failed; err != nil {
		t.Error(err)
	}
}

// A control group that a container sees as the root is not the machine.
func TestAGroupIsNotTheMachine(t *testing.T) {
	points := accountMounts(parseMounts(readText("/proc/self/mountinfo")))
	if len(points) == 0 {
		t.Skip("needs control groups of version 1 with cpuacct")
	}
	group, err := os.MkdirTemp(points[0], "bakeoff-test-")
	if err != nil {
		t.Skipf("needs root, to make a control group: %v", err)
	}
	defer func() {
		if err := os.Remove(group); err != nil {
			t.Error(err)
		}
	}()
	if readText(filepath.Join(group, "cpuacct.usage_percpu")) == "" {
		t.Fatal("the group does not say what it has used")
	}
	if wholeMachine(group) {
		t.Error("a group passes for the whole machine")
	}
}
