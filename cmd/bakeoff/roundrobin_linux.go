package main

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// leaveFIFO gives all threads of the process the class SCHED_RR in place of SCHED_FIFO,
// with the same priority, and reports whether one had SCHED_FIFO. A thread of SCHED_FIFO
// that waits in a loop keeps its CPU from threads of the same priority, and the garbage
// collector of Go has such loops: as many of them as there are CPUs stop the program, and
// no signal ends it (sched(7)).
func leaveFIFO() (left bool) {
	for again := true; again; {
		again = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return left
		}
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				continue
			}
			a, err := unix.SchedGetAttr(id, 0)
			if err != nil || a.Policy != unix.SCHED_FIFO {
				continue
			}
			// A thread that starts meanwhile inherits the class of the one that starts it.
			a.Policy = unix.SCHED_RR
			if unix.SchedSetAttr(id, a, 0) == nil {
				left, again = true, true
			}
		}
	}
	return left
}
